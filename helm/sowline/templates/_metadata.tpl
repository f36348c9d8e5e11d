{{/* What objects are called, and what they are found by. */}}

{{- define "sowline.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{/*
The metadata of an object, from a dict of root (the chart's scope) and, if it has them: name (of its component), objectName
(instead of the usual one), labels and annotations (in addition to those of all objects).
*/}}
{{- define "sowline.metadata" -}}
name: {{ .objectName | default (list (include "sowline.name" .root) .name | compact | join "-") }}
labels:
  {{- include "sowline.labels" . | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
