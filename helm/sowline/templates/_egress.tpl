{{/* Whom a component may connect to: DNS, Kafka, a gateway also its nodes, and what the values add. */}}

{{- define "sowline.egress" -}}
{{- $rules := .root.Values.networkPolicy -}}
egress:
  - ports:
      - {protocol: UDP, port: 53}
      - {protocol: TCP, port: 53}
    {{- with $rules.dns }}
    to:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  - ports:
      {{- range $rules.kafka.ports | default (regexFindAll ":\\d+" .root.Values.kafka.bootstrap -1 | uniq) }}
      - {protocol: TCP, port: {{ . | toString | trimPrefix ":" }}}
      {{- end }}
    {{- with $rules.kafka.peers }}
    to:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  {{- if eq .name "gateway" }}
  - ports:
      - {protocol: TCP, port: {{ .root.Values.queryService.port }}}
    to:
      - podSelector:
          matchLabels:
            {{- include "sowline.selector" (dict "root" .root "name" "query-service") | nindent 12 }}
  {{- end }}
  {{- with $rules.egress }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
