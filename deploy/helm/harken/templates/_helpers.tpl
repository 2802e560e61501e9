{{- define "harken.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | replace "harken-harken" "harken" | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "harken.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "harken.labels" -}}
{{ include "harken.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "harken.secret" -}}
{{- if .Values.store.existingSecret -}}
{{ .Values.store.existingSecret }}
{{- else -}}
{{- if not .Values.store.url }}{{ fail "Name the database: store.existingSecret, or store.url and store.ownerUrl" }}{{ end -}}
{{ include "harken.name" . }}-store
{{- end -}}
{{- end -}}

{{- define "harken.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ include "harken.name" . }}{{ else }}default{{ end -}}
{{- end -}}

{{- /* What every pod has in common: who it runs as, what it may write, and nothing of the cluster's API. */ -}}
{{- define "harken.pod" -}}
serviceAccountName: {{ include "harken.serviceAccount" .root }}
automountServiceAccountToken: false
# Or a service called `harken` would put variables like HARKEN_PORT here, which are no settings.
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: { type: RuntimeDefault }
volumes:
  - name: home
    emptyDir: {}
  - name: tmp
    emptyDir: {}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "harken.container" -}}
image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
env:
  - name: HARKEN_STORE
    valueFrom:
      secretKeyRef:
        name: {{ .secret | default (include "harken.secret" .root) }}
        key: {{ .login }}
  - name: HARKEN_TENANT
    value: {{ .root.Values.team | quote }}
{{- range $name, $value := .root.Values.settings }}
  - name: {{ $name }}
    value: {{ $value | quote }}
{{- end }}
{{- with .more }}
{{ . | indent 2 }}
{{- end }}
{{- with .root.Values.settingsSecrets }}
envFrom:
{{- range . }}
  - secretRef: { name: {{ . }} }
{{- end }}
{{- end }}
volumeMounts:
  - name: home
    mountPath: /var/lib/harken
  - name: tmp
    mountPath: /tmp
{{- end -}}
