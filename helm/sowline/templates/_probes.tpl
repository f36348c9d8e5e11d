{{/* What Kubernetes asks a container, and how often. */}}

{{- define "sowline.probes" -}}
{{- $scheme := include "sowline.scheme" . -}}
{{- $at := printf "port: %s, scheme: %s" $scheme ($scheme | upper) -}}
startupProbe:
  httpGet: {path: /startupz, {{ $at }}}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: {{ divf .values.startupSecondsMax 5 | ceil }}
readinessProbe:
  httpGet: {path: /readyz, {{ $at }}}
  periodSeconds: 5
  timeoutSeconds: 3
livenessProbe:
  httpGet: {path: /healthz, {{ $at }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}
