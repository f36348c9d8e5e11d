{{/* What a pod of a component is. */}}

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
