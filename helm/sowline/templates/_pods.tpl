{{/* The pod of a component. */}}

{{- define "sowline.podMetadata" -}}
labels:
  {{- include "sowline.labels" (merge (dict "labels" .values.podLabels) .) | nindent 2 }}
  {{- with .shard }}
  shard: {{ . | quote }}
  {{- end }}
{{- if or .file .values.podAnnotations }}
annotations:
  {{- /* Services follow their topics while they run. A pipeline reads its file when it starts. */}}
  {{- with .file }}
  checksum/config: {{ . | sha256sum }}
  {{- end }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "sowline.podSpec" -}}
serviceAccountName: {{ include "sowline.serviceAccount" .root }}
automountServiceAccountToken: false
{{- /* Else Kubernetes sets SOWLINE_… variables of its own for services whose names begin so. */}}
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{- toYaml . | nindent 4 }}
    {{- if not .labelSelector }}
    labelSelector:
      matchLabels:
        {{- include "sowline.selector" $ | nindent 8 }}
    {{- end }}
  {{- end }}
{{- end }}
volumes:
  {{- include "sowline.volumes" . | nindent 2 }}
containers:
  - {{ include "sowline.container" . | indent 4 | trim }}
{{- end }}

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

{{- define "sowline.probes" -}}
{{- $scheme := include "sowline.scheme" . -}}
{{- $at := printf "port: %s, scheme: %s" $scheme ($scheme | upper) -}}
startupProbe:
  httpGet: {path: /startupz, {{ $at }}}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: {{ divf .values.startupSecondsMax 5 | ceil }}
readinessProbe:
  httpGet: {path: /readyz, {{ $at }}}
  periodSeconds: 5
  timeoutSeconds: 3
livenessProbe:
  httpGet: {path: /healthz, {{ $at }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}
