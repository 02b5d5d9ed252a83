{{- define "quarterdeck.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "quarterdeck.labels" -}}
app.kubernetes.io/name: quarterdeck
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "quarterdeck.chartLabels" -}}
{{ include "quarterdeck.labels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "quarterdeck.operators" -}}
{{- $names := list }}
{{- range $name, $operator := .Values.operators }}{{ if $operator.enabled }}{{ $names = append $names $name }}{{ end }}{{ end }}
{{- if not $names }}{{ fail "enable at least one of operators" }}{{ end }}
{{- join "," $names }}
{{- end }}

{{- define "quarterdeck.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* A generated file with the names of this release in it. */ -}}
{{- define "quarterdeck.generated" -}}
{{- $text := .context.Files.Get .file }}
{{- if not $text }}{{ fail (printf "%s is missing: run `make chart` first" .file) }}{{ end }}
{{- $text | replace "RELEASE_NAMESPACE" .context.Release.Namespace | replace "RELEASE_NAME" (include "quarterdeck.fullname" .context) }}
{{- end }}
