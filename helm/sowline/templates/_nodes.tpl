{{/* The URLs of the pods that hold shards, as the headless service names them. */}}
{{- define "sowline.nodes" -}}
{{- $name := printf "%s-query-service" (include "sowline.name" .) -}}
{{- $scheme := include "sowline.scheme" (dict "values" .Values.queryService) -}}
{{- $urls := list -}}
{{- range $shard := until (.Values.queryService.shards | int) -}}
{{- range $replica := until ($.Values.queryService.replicas | int) -}}
{{- $urls = append $urls (printf "%s://%s-%d-%d.%s:%v" $scheme $name $shard $replica $name $.Values.queryService.port) -}}
{{- end -}}
{{- end -}}
{{- join "," $urls -}}
{{- end }}
