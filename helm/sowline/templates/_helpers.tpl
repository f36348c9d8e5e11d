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
{{- $labels := dict
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version)
  "app.kubernetes.io/version" .root.Chart.AppVersion
  "app.kubernetes.io/managed-by" .root.Release.Service
  "app.kubernetes.io/name" .root.Chart.Name
  "app.kubernetes.io/instance" .root.Release.Name
-}}
{{- with .name }}{{ $_ := set $labels "app.kubernetes.io/component" . }}{{ end -}}
{{- merge $labels (.labels | default dict) .root.Values.commonLabels | toYaml -}}
{{- end }}

{{/*
The metadata of an object, from a dict of root (the chart's scope) and, if it has them: name (of its component), objectName
(instead of the usual one), labels and annotations (in addition to those of all objects).
*/}}
{{- define "sowline.metadata" -}}
name: {{ .objectName | default (list (include "sowline.name" .root) .name | compact | join "-") }}
labels:
  {{- include "sowline.labels" . | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
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

{{/* Whether query services hold shards, and clients come to a gateway instead. */}}
{{- define "sowline.isSharded" -}}
{{- if gt (.Values.queryService.shards | int) 1 }}true{{ end -}}
{{- end }}

{{- define "sowline.podMetadata" -}}
labels:
  {{- include "sowline.labels" (merge (dict "labels" .values.podLabels) .) | nindent 2 }}
  {{- with .shard }}
  shard: {{ . | quote }}
  {{- end }}
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
      - name: {{ include "sowline.scheme" . }}
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
    {{- with .values.preStopSeconds }}
    lifecycle:
      preStop:
        exec: {command: [sleep, {{ . | quote }}]}
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

{{/* The URLs of the pods that hold shards, as the headless service names them. */}}
{{- define "sowline.nodes" -}}
{{- $name := printf "%s-query-service" (include "sowline.name" .) -}}
{{- $scheme := include "sowline.scheme" (dict "values" .Values.queryService) -}}
{{- $urls := list -}}
{{- range $shard := until (.Values.queryService.shards | int) -}}
{{- range $replica := until ($.Values.queryService.replicas | int) -}}
{{- $urls = append $urls (printf "%s://%s-%d-%d.%s:%v" $scheme $name $shard $replica $name $.Values.queryService.port) -}}
{{- end -}}
{{- end -}}
{{- join "," $urls -}}
{{- end }}

{{/* The name of a component's port: how it is spoken to there. */}}
{{- define "sowline.scheme" -}}
{{- dig "tls" "secret" "" .values | empty | ternary "http" "https" -}}
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

{{- define "sowline.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "sowline.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .values.maxUnavailable }}
  {{- if semverCompare ">=1.27-0" .root.Capabilities.KubeVersion.Version }}
  # One that is not ready has nothing to lose, and must not hold up the maintenance of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  {{- end }}
  selector:
    matchLabels:
      {{- include "sowline.selector" . | nindent 6 }}
{{- end }}

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

{{- define "sowline.autoscaler" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "sowline.metadata" . | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "sowline.name" .root }}-{{ .name }}
  minReplicas: {{ .values.autoscaling.minReplicas }}
  maxReplicas: {{ .values.autoscaling.maxReplicas }}
  metrics:
    {{- with .values.autoscaling.cpuPercent }}
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ . }}
    {{- end }}
    {{- with .values.autoscaling.external }}
    {{- if .metric }}
    - type: External
      external:
        metric:
          name: {{ .metric }}
          {{- with .selector }}
          selector:
            matchLabels:
              {{- toYaml . | nindent 14 }}
          {{- end }}
        target:
          type: AverageValue
          averageValue: {{ .averageValue | quote }}
    {{- end }}
    {{- end }}
  # A pod that goes sends its clients, or its partitions, to the others: one at a time, and not for a short lull.
  behavior:
    scaleDown:
      stabilizationWindowSeconds: 600
      policies:
        - {type: Pods, value: 1, periodSeconds: 120}
{{- end }}

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

{{/* A component whose pods share the partitions of topics, without clients. */}}
{{- define "sowline.sharing" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "sowline.metadata" . | nindent 2 }}
spec:
  {{- if not .values.autoscaling.enabled }}
  replicas: {{ .values.replicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "sowline.selector" . | nindent 6 }}
  template:
    metadata:
      {{- include "sowline.podMetadata" . | nindent 6 }}
    spec:
      {{- include "sowline.podSpec" . | nindent 6 }}
{{- if .root.Values.serviceMonitor.enabled }}
---
# By which the monitor finds the pods; nothing is balanced over them.
apiVersion: v1
kind: Service
metadata:
  {{- include "sowline.metadata" . | nindent 2 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  ports:
    - name: http
      port: {{ .values.port }}
      targetPort: http
  selector:
    {{- include "sowline.selector" . | nindent 4 }}
{{- end }}
{{ include "sowline.extras" . }}
{{- end }}

{{/* The objects that go with a component's pods. */}}
{{- define "sowline.extras" -}}
{{- include "sowline.check" . -}}
{{- if dig "autoscaling" "enabled" false .values }}
---
{{ include "sowline.autoscaler" . }}
{{- end }}
{{- if not .file }}
---
{{ include "sowline.disruptionBudget" . }}
{{- end }}
{{- if .root.Values.networkPolicy.enabled }}
---
{{ include "sowline.networkPolicy" . }}
{{- end }}
{{- end }}
