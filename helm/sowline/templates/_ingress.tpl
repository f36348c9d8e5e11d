{{/* Who may connect to a component: clients to the one that serves them, gateways to nodes, and the monitor to all. */}}

{{- define "sowline.ingress" -}}
{{- $rules := .root.Values.networkPolicy -}}
{{- $isForClients := eq .name (include "sowline.serving" .root) -}}
{{- $others := $rules.monitoring -}}
{{- if and (eq .name "query-service") (not $isForClients) -}}
{{- $gateway := include "sowline.selector" (dict "root" .root "name" "gateway") | fromYaml -}}
{{- $others = append $others (dict "podSelector" (dict "matchLabels" $gateway)) -}}
{{- end -}}
{{- if or $isForClients $others -}}
ingress:
  - ports:
      - {protocol: TCP, port: {{ .values.port }}}
    {{- if and $isForClients $rules.clients }}
    from:
      {{- toYaml (concat $rules.clients $rules.monitoring) | nindent 6 }}
    {{- else if not $isForClients }}
    from:
      {{- toYaml $others | nindent 6 }}
    {{- end }}
{{- else -}}
ingress: []
{{- end -}}
{{- end }}
