{{/* The components of a release, and what is asked about one of them. */}}

{{/*
The components that run, but for pipelines, as YAML: the name of each (a `sowline` command), and its key in the values.
What follows is for one of them: a dict of root (the chart's scope), name and values. It may have a volume (data), and
a pipeline has what the services have in common for its own: the text of its file.
*/}}
{{- define "sowline.components" -}}
materializer: materializer
query-service: queryService
{{- if include "sowline.isSharded" . }}
gateway: gateway
{{- end }}
{{- if or .Values.config.views .Values.config.conflated }}
views: views
{{- end }}
{{- if .Values.config.fanouts }}
fanout: fanout
{{- end }}
{{- end }}

{{/* Whether query services hold shards, and clients come to a gateway instead. */}}
{{- define "sowline.isSharded" -}}
{{- if gt (.Values.queryService.shards | int) 1 }}true{{ end -}}
{{- end }}

{{/* The name of the component that clients connect to. */}}
{{- define "sowline.serving" -}}
{{- include "sowline.isSharded" . | empty | ternary "query-service" "gateway" -}}
{{- end }}

{{/* The name of a component's port: how it is spoken to there. */}}
{{- define "sowline.scheme" -}}
{{- dig "tls" "secret" "" .values | empty | ternary "http" "https" -}}
{{- end }}
