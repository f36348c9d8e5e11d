{{/* What a pod mounts. */}}

{{- define "sowline.volumes" -}}
- name: config
  configMap:
    name: {{ include "sowline.name" .root }}{{ if .file }}-{{ .name }}{{ end }}
- name: tmp
  emptyDir: {}
{{- with .root.Values.kafka.filesSecret }}
- name: kafka
  secret:
    secretName: {{ . }}
{{- end }}
{{- with .values.access }}
{{- if or .secret .configMap }}
- name: access
  {{- if .secret }}
  secret:
    secretName: {{ .secret }}
  {{- else }}
  configMap:
    name: {{ .configMap }}
  {{- end }}
{{- end }}
{{- end }}
{{- if dig "snapshots" "enabled" false .values }}
- name: snapshots
  {{- with .values.snapshots.sizeLimit }}
  emptyDir:
    sizeLimit: {{ . }}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end }}
{{- with .values.scratch }}
- name: data
  {{- with .sizeLimit }}
  emptyDir:
    sizeLimit: {{ . }}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end }}
{{- if dig "tls" "secret" "" .values }}
- name: tls
  secret:
    secretName: {{ .values.tls.secret }}
{{- end }}
{{- with .values.nodes }}
- name: nodes
  secret:
    secretName: {{ .secret }}
{{- end }}
{{- if .file }}
- name: data
  persistentVolumeClaim:
    claimName: {{ include "sowline.name" .root }}-{{ .name }}
{{- with .values.volumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
{{- end }}
