{{/* How many pods a component has, and how many may be gone at a time. */}}

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
