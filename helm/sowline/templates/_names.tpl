{{/* Names, labels and the metadata of objects. */}}

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
