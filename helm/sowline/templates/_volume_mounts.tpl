{{/* Where the container has each of its volumes. */}}
{{- define "sowline.volumeMounts" -}}
- name: config
  mountPath: /etc/sowline
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- if .root.Values.kafka.filesSecret }}
- name: kafka
  mountPath: /etc/sowline-kafka
  readOnly: true
{{- end }}
{{- with .values.access }}
{{- if or .secret .configMap }}
- name: access
  mountPath: /etc/sowline-access
  readOnly: true
{{- end }}
{{- end }}
{{- if dig "snapshots" "enabled" false .values }}
- name: snapshots
  mountPath: /var/lib/sowline-snapshots
{{- end }}
{{- if dig "tls" "secret" "" .values }}
- name: tls
  mountPath: /etc/sowline-tls
  readOnly: true
{{- end }}
{{- if .values.nodes }}
- name: nodes
  mountPath: /etc/sowline-nodes
  readOnly: true
{{- end }}
{{- if or .data .values.scratch }}
- name: data
  mountPath: /var/lib/sowline
{{- end }}
{{- with .values.volumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
