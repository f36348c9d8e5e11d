{{/* The Deployment of a component that has no volume of its own; of the one that clients connect to, no pod is missed. */}}

{{- define "sowline.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "sowline.metadata" . | nindent 2 }}
spec:
  {{- if not .values.autoscaling.enabled }}
  replicas: {{ .values.replicas }}
  {{- end }}
  {{- if eq .name (include "sowline.serving" .root) }}
  # A new pod is ready before an old one goes.
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  {{- end }}
  {{- include "sowline.pods" . | nindent 2 }}
{{- end }}
