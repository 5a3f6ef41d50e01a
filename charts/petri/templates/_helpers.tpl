{{/* Names are fixed, not derived from the release: the operator, its admission policy and its RoleBindings agree on them. */}}
{{- define "petri.serviceAccountName" -}}petri-operator{{- end }}

{{/* Of what is cluster-wide, several installations need several: nameSuffix tells them apart. */}}
{{- define "petri.suffix" -}}{{ with .Values.nameSuffix }}-{{ . }}{{ end }}{{- end }}

{{- define "petri.workloadRoleName" -}}petri-operator-workload{{ include "petri.suffix" . }}{{- end }}

{{- define "petri.labels" -}}
{{ include "petri.selectorLabels" . }}
app.kubernetes.io/part-of: petri
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "petri.selectorLabels" -}}
app.kubernetes.io/name: petri-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "petri.apiserverLabels" -}}
{{ include "petri.apiserverSelectorLabels" . }}
app.kubernetes.io/part-of: petri
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "petri.apiserverSelectorLabels" -}}
app.kubernetes.io/name: petri-apiserver
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "petri.apiserverImage" -}}
{{ .Values.apiserver.image.repository }}:{{ .Values.apiserver.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "petri.operatorImage" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "petri.deployerImage" -}}
{{ .Values.deployer.image.repository }}:{{ .Values.deployer.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* What two values together must fulfil; a schema sees one value at a time. */}}
{{- define "petri.validate" -}}
{{- if eq .Values.sharedNamespace.name .Release.Namespace }}
{{- fail (printf "sharedNamespace.name must not be the management namespace %q" .Release.Namespace) }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.config.leaderElection) }}
{{- fail "replicas > 1 needs config.leaderElection" }}
{{- end }}
{{- if and .Values.apiserver.enabled (not .Values.apiserver.env) }}
{{- fail "apiserver.enabled needs apiserver.env: the issuer, the audience and who may come in" }}
{{- end }}
{{- end }}
