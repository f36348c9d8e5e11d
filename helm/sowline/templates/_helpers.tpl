{{/* The beginning of every object's name: the release's, with the chart's unless it is in there. */}}
{{- define "sowline.name" -}}
{{- $name := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "sowline.serviceAccount" -}}
{{- $account := .Values.serviceAccount -}}
{{- $account.name | default ($account.create | ternary (include "sowline.name" .) "default") -}}
{{- end }}

{{- define "sowline.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/*
What follows is for one component: a dict of root (the chart's scope), name (the `sowline` command) and values.
It may have a volume (data), and a pipeline has what the services have in common for its own: the text of its file.
*/}}

{{- define "sowline.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "sowline.metadata" -}}
name: {{ include "sowline.name" .root }}-{{ .name }}
labels:
  {{- include "sowline.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "sowline.podMetadata" -}}
labels:
  {{- include "sowline.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .name }}
annotations:
  {{- /* Services read their topics when they start, pipelines their file. */}}
  checksum/config: {{ .file | default (.root.Values.config | toYaml) | sha256sum }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
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
volumes:
  - name: config
    configMap:
      name: {{ include "sowline.name" .root }}{{ if .file }}-{{ .name }}{{ end }}
  - name: tmp
    emptyDir: {}
  {{- if .file }}
  - name: data
    persistentVolumeClaim:
      claimName: {{ include "sowline.name" .root }}-{{ .name }}
  {{- with .values.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- end }}
containers:
  - name: {{ .name }}
    {{- $image := .values.image | default .root.Values.image }}
    image: "{{ $image.repository }}:{{ $image.tag | default .root.Chart.AppVersion }}"
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    {{- if .file }}
    args: [pipeline, run, /etc/sowline/pipeline.yaml]
    {{- else }}
    args: [{{ .name }}]
    ports:
      - name: http
        containerPort: {{ .values.port }}
    {{- include "sowline.probes" . | nindent 4 }}
    {{- end }}
    env:
      {{- include "sowline.environment" . | nindent 6 }}
    {{- with .values.secrets }}
    envFrom:
      {{- range . }}
      - secretRef:
          name: {{ . }}
      {{- end }}
    {{- end }}
    resources:
      {{- toYaml .values.resources | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
    volumeMounts:
      - name: config
        mountPath: /etc/sowline
        readOnly: true
      - name: tmp
        mountPath: /tmp
      {{- if .data }}
      - name: data
        mountPath: /var/lib/sowline
      {{- end }}
      {{- with .values.volumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end }}

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
{{- with .root.Values.kafka.optionsSecret }}
{{- if .name }}
- name: SOWLINE_KAFKA_OPTIONS
  valueFrom:
    secretKeyRef:
      name: {{ .name }}
      key: {{ .key }}
{{- end }}
{{- end }}
{{- range $name, $value := .root.Values.settings }}
- name: SOWLINE_{{ $name | upper }}
  {{- /* YAML's large numbers are floats here, which would be written 1e+06. */}}
  value: {{ kindIs "float64" $value | ternary ($value | int64 | toString) ($value | toString) | quote }}
{{- end }}
{{- end }}

{{- define "sowline.probes" -}}
startupProbe:
  httpGet: {path: /startupz, port: http}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: {{ divf .values.startupSecondsMax 5 | ceil }}
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 3
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}

{{- define "sowline.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "sowline.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .values.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "sowline.selector" . | nindent 6 }}
{{- end }}
