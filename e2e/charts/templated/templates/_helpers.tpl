{{- define "templated.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "templated.settings" -}}
{{- range $key, $value := .Values.settings }}
{{ $key }}: {{ tpl ($value | toString) $ | quote }}
{{- end }}
{{- end }}
