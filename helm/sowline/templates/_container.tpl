{{/* The container of a pod. */}}

{{- define "sowline.container" -}}
name: {{ .name }}
{{- $image := .values.image | default .root.Values.image }}
image: "{{ $image.repository }}:{{ $image.tag | default .root.Chart.AppVersion }}"
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- if .file }}
args: [pipeline, run, /etc/sowline/pipeline.yaml]
{{- else }}
args: [{{ .name }}]
ports:
  - name: {{ include "sowline.scheme" . }}
    containerPort: {{ .values.port }}
{{- include "sowline.probes" . | nindent 0 }}
{{- end }}
env:
  {{- include "sowline.environment" . | nindent 2 }}
{{- with .values.secrets }}
envFrom:
  {{- range . }}
  - secretRef:
      name: {{ . }}
  {{- end }}
{{- end }}
{{- with .values.preStopSeconds }}
lifecycle:
  preStop:
    exec: {command: [sleep, {{ . | quote }}]}
{{- end }}
resources:
  {{- toYaml .values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  {{- include "sowline.volumeMounts" . | nindent 2 }}
{{- end }}
