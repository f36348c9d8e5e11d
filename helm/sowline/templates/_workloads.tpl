{{/* The objects of a component together. */}}

{{/* A component whose pods share the partitions of topics, without clients. */}}
{{- define "sowline.sharing" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "sowline.metadata" . | nindent 2 }}
spec:
  {{- if not .values.autoscaling.enabled }}
  replicas: {{ .values.replicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "sowline.selector" . | nindent 6 }}
  template:
    metadata:
      {{- include "sowline.podMetadata" . | nindent 6 }}
    spec:
      {{- include "sowline.podSpec" . | nindent 6 }}
{{- if .root.Values.serviceMonitor.enabled }}
---
# By which the monitor finds the pods; nothing is balanced over them.
apiVersion: v1
kind: Service
metadata:
  {{- include "sowline.metadata" . | nindent 2 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  ports:
    - name: http
      port: {{ .values.port }}
      targetPort: http
  selector:
    {{- include "sowline.selector" . | nindent 4 }}
{{- end }}
{{ include "sowline.extras" . }}
{{- end }}

{{/* The objects that go with a component's pods. */}}
{{- define "sowline.extras" -}}
{{- include "sowline.check" . -}}
{{- if dig "autoscaling" "enabled" false .values }}
---
{{ include "sowline.autoscaler" . }}
{{- end }}
{{- if not .file }}
---
{{ include "sowline.disruptionBudget" . }}
{{- end }}
{{- if .root.Values.networkPolicy.enabled }}
---
{{ include "sowline.networkPolicy" . }}
{{- end }}
{{- end }}
