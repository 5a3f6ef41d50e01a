{{/* A pod that asks the operator's program one thing and ends. */}}
{{- define "petri.question" -}}
restartPolicy: Never
serviceAccountName: {{ include "petri.serviceAccountName" .context }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .context.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
containers:
  - name: question
    image: {{ include "petri.operatorImage" .context | quote }}
    imagePullPolicy: {{ .context.Values.image.pullPolicy }}
    args: {{ toJson (concat (list "--config" "/etc/petri/config.yaml") .args) }}
    terminationMessagePolicy: FallbackToLogsOnError
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    resources:
      requests: {cpu: 10m, memory: 32Mi}
      limits: {memory: 128Mi}
    volumeMounts:
      - {name: config, mountPath: /etc/petri, readOnly: true}
volumes:
  - name: config
    configMap: {name: petri-config}
{{- with .context.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .context.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
