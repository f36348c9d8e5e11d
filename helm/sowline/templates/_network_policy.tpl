{{/* Who may connect to a component, and whom it may connect to. */}}

{{- define "sowline.networkPolicy" -}}
{{- $rules := .root.Values.networkPolicy -}}
{{- $isSharded := include "sowline.isSharded" .root -}}
{{- $isForClients := eq .name (ternary "gateway" "query-service" (eq $isSharded "true")) -}}
{{- $isNode := and $isSharded (eq .name "query-service") -}}
{{- $others := $rules.monitoring -}}
{{- if $isNode -}}
{{- $gateway := include "sowline.selector" (dict "root" .root "name" "gateway") | fromYaml -}}
{{- $others = append $others (dict "podSelector" (dict "matchLabels" $gateway)) -}}
{{- end -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "sowline.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "sowline.selector" . | nindent 6 }}
  policyTypes: [Ingress{{ if not .file }}, Egress{{ end }}]
  {{- if and (not .file) (or $isForClients $others) }}
  ingress:
    - ports:
        - {protocol: TCP, port: {{ .values.port }}}
      {{- if and $isForClients $rules.clients }}
      from:
        {{- toYaml (concat $rules.clients $rules.monitoring) | nindent 8 }}
      {{- else if not $isForClients }}
      from:
        {{- toYaml $others | nindent 8 }}
      {{- end }}
  {{- else }}
  ingress: []
  {{- end }}
  {{- if not .file }}
  egress:
    - ports:
        - {protocol: UDP, port: 53}
        - {protocol: TCP, port: 53}
      {{- with $rules.dns }}
      to:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    - ports:
        {{- range $rules.kafka.ports | default (regexFindAll ":\\d+" .root.Values.kafka.bootstrap -1 | uniq) }}
        - {protocol: TCP, port: {{ . | toString | trimPrefix ":" }}}
        {{- end }}
      {{- with $rules.kafka.peers }}
      to:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- if eq .name "gateway" }}
    - ports:
        - {protocol: TCP, port: {{ .root.Values.queryService.port }}}
      to:
        - podSelector:
            matchLabels:
              {{- include "sowline.selector" (dict "root" .root "name" "query-service") | nindent 14 }}
    {{- end }}
    {{- with $rules.egress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}
