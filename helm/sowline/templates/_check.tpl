{{/* Refuses what the schema can't: values that do not go together. */}}
{{- define "sowline.check" -}}
{{- if ge (.values.preStopSeconds | int) (.values.terminationGracePeriodSeconds | int) -}}
{{- fail (printf "%s: expected preStopSeconds below terminationGracePeriodSeconds, got %v and %v" .name .values.preStopSeconds .values.terminationGracePeriodSeconds) -}}
{{- end -}}
{{- with .values.access -}}
{{- if and .secret .configMap -}}
{{- fail (printf "%s: expected access.secret or access.configMap, got %s and %s" $.name .secret .configMap) -}}
{{- end -}}
{{- end -}}
{{- with .values.tls -}}
{{- if and .clientCa (not .secret) -}}
{{- fail (printf "%s: expected tls.secret, in which tls.clientCa is a key, got none" $.name) -}}
{{- end -}}
{{- if and .clientRequired (not .clientCa) -}}
{{- fail (printf "%s: expected tls.clientCa where tls.clientRequired is true, got none" $.name) -}}
{{- end -}}
{{- end -}}
{{- $scaling := .values.autoscaling | default dict -}}
{{- if $scaling.enabled -}}
{{- if gt ($scaling.minReplicas | int) ($scaling.maxReplicas | int) -}}
{{- fail (printf "%s: expected autoscaling.minReplicas of at most maxReplicas, got %v and %v" .name $scaling.minReplicas $scaling.maxReplicas) -}}
{{- end -}}
{{- if not (or $scaling.cpuPercent $scaling.external.metric) -}}
{{- fail (printf "%s: expected autoscaling.cpuPercent above 0 or the name of autoscaling.external.metric, got neither" .name) -}}
{{- end -}}
{{- if and $scaling.cpuPercent (not (dig "requests" "cpu" "" .values.resources)) -}}
{{- fail (printf "%s: expected resources.requests.cpu, of which autoscaling.cpuPercent is a share, got none" .name) -}}
{{- end -}}
{{- end -}}
{{- end }}
