{{/* The environment of a container: the connection to Kafka, paths, and the settings of values.yaml. */}}

{{- define "sowline.environment" -}}
- name: SOWLINE_KAFKA
  value: {{ .root.Values.kafka.bootstrap | quote }}
- name: SOWLINE_DATA_DIR
  value: /var/lib/sowline
{{- if not .file }}
- name: SOWLINE_CONFIG
  value: /etc/sowline/topics.yaml
- name: SOWLINE_HOST
  value: 0.0.0.0
- name: SOWLINE_PORT
  value: {{ .values.port | quote }}
{{- end }}
{{- if and .root.Values.traces.endpoint (not .file) }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .root.Values.traces.endpoint | quote }}
{{- end }}
{{- if dig "snapshots" "enabled" false .values }}
- name: SOWLINE_SNAPSHOT_DIR
  value: /var/lib/sowline-snapshots
{{- end }}
{{- with .shard }}
- name: SOWLINE_SHARD
  value: {{ . }}/{{ $.root.Values.queryService.shards }}
{{- end }}
{{- with .values.nodes }}
- name: SOWLINE_NODES
  value: {{ include "sowline.nodes" $.root | quote }}
- name: SOWLINE_NODES_TOKEN_FILE
  value: /etc/sowline-nodes/{{ .tokenKey }}
{{- with .caKey }}
- name: SOWLINE_NODES_CA_FILE
  value: /etc/sowline-nodes/{{ . }}
{{- end }}
{{- end }}
{{- if .values.standby }}
- name: SOWLINE_STANDBY
  value: "true"
{{- end }}
{{- with .root.Values.kafka.optionsSecret }}
{{- if .name }}
- name: SOWLINE_KAFKA_OPTIONS
  valueFrom:
    secretKeyRef:
      name: {{ .name }}
      key: {{ .key }}
{{- end }}
{{- end }}
{{- with .values.access }}
{{- if or .secret .configMap }}
- name: SOWLINE_ACCESS
  value: /etc/sowline-access/{{ .key }}
{{- end }}
{{- end }}
{{- with .values.tls }}
{{- if .secret }}
- name: SOWLINE_TLS_CERT
  value: /etc/sowline-tls/tls.crt
- name: SOWLINE_TLS_KEY
  value: /etc/sowline-tls/tls.key
{{- if .clientCa }}
- name: SOWLINE_TLS_CLIENT_CA
  value: /etc/sowline-tls/{{ .clientCa }}
- name: SOWLINE_TLS_CLIENT_REQUIRED
  value: {{ .clientRequired | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $value := .root.Values.settings }}
- name: SOWLINE_{{ $name | upper }}
  {{- /* YAML's large numbers are floats here, which would be written 1e+06. */}}
  {{- $isWhole := and (kindIs "float64" $value) (eq (toString (floor $value)) (toString $value)) }}
  value: {{ $isWhole | ternary ($value | int64 | toString) ($value | toString) | quote }}
{{- end }}
{{- end }}
