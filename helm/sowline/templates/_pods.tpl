{{/* The pods of a Deployment or a StatefulSet: which are its own, and how it makes them. */}}

{{- define "sowline.pods" -}}
{{- include "sowline.check" . -}}
selector:
  matchLabels:
    {{- include "sowline.selector" . | nindent 4 }}
    {{- with .shard }}
    shard: {{ . | quote }}
    {{- end }}
template:
  metadata:
    {{- include "sowline.podMetadata" . | nindent 4 }}
  spec:
    {{- include "sowline.podSpec" . | nindent 4 }}
{{- end }}

{{- define "sowline.podMetadata" -}}
labels:
  {{- include "sowline.labels" (merge (dict "labels" .values.podLabels) .) | nindent 2 }}
  {{- with .shard }}
  shard: {{ . | quote }}
  {{- end }}
{{- if or .file .values.podAnnotations }}
annotations:
  {{- /* Services follow their topics while they run. A pipeline reads its file when it starts. */}}
  {{- with .file }}
  checksum/config: {{ . | sha256sum }}
  {{- end }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
