{{- define "common.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "common.labels" -}}
{{ include "common.selector" . }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
team: {{ .Values.global.team | quote }}
{{- end }}

{{- /* A restricted pod: `top` is the chart's context, `args` or `command` what runs. */ -}}
{{- define "common.pod" -}}
{{- $image := .top.Values.image -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 1
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
containers:
  - name: {{ .top.Chart.Name }}
    image: "{{ $image.repository }}:{{ $image.tag }}"
    imagePullPolicy: {{ $image.pullPolicy }}
    {{- with .command }}
    command: {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .args }}
    args: {{- toYaml . | nindent 6 }}
    {{- end }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    resources:
      requests: {cpu: 1m, memory: 4Mi}
      limits: {memory: 32Mi}
{{- end }}
