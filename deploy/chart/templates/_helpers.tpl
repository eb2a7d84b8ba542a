{{/* Names of objects: those of the kustomize parts if the release is called tonnage. */}}
{{- define "tonnage.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A component's suffix: "" or "-scheduler". The label app.kubernetes.io/name does not follow the release: other components know each other by it. */}}
{{- define "tonnage.componentName" -}}
{{- printf "%s%s" (include "tonnage.fullname" .root) .suffix -}}
{{- end -}}

{{- define "tonnage.selectorLabels" -}}
app.kubernetes.io/name: tonnage{{ .suffix }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "tonnage.labels" -}}
{{ include "tonnage.selectorLabels" . }}
app.kubernetes.io/part-of: tonnage
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tonnage.image" -}}
{{- $own := default dict .image -}}
{{- $all := .root.Values.image -}}
{{- $repository := $all.repository -}}
{{- $tag := default .root.Chart.AppVersion $all.tag -}}
{{- $digest := $all.digest -}}
{{- if $own.repository -}}
{{- $repository = $own.repository -}}
{{- $tag = default $tag $own.tag -}}
{{- $digest = $own.digest -}}
{{- end -}}
{{- if $digest -}}{{ $repository }}@{{ $digest }}{{- else -}}{{ $repository }}:{{ $tag }}{{- end -}}
{{- end -}}

{{- define "tonnage.stateNamespace" -}}
{{- default .Release.Namespace .Values.autoscaler.stateNamespace -}}
{{- end -}}

{{- define "tonnage.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "tonnage.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Where pods may run: the component's own words go before those of the chart. */}}
{{- define "tonnage.placement" -}}
{{- $component := .component -}}
{{- $all := .root.Values -}}
{{- with (default $all.nodeSelector $component.nodeSelector) }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (default $all.tolerations $component.tolerations) }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (default $all.affinity $component.affinity) }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "tonnage.spread" -}}
topologySpreadConstraints:
{{- if .root.Values.topologySpreadConstraints }}
  {{- toYaml .root.Values.topologySpreadConstraints | nindent 2 }}
{{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "tonnage.selectorLabels" . | nindent 8 }}
{{- end }}
{{- end -}}

{{- define "tonnage.probes" -}}
{{- $port := default "http" .port -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ $port }}
    {{- if eq $port "https" }}
    scheme: HTTPS
    {{- end }}
  initialDelaySeconds: {{ default 30 .delay }}
  periodSeconds: {{ default 15 .period }}
  timeoutSeconds: 10
  failureThreshold: 4
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ $port }}
    {{- if eq $port "https" }}
    scheme: HTTPS
    {{- end }}
  periodSeconds: {{ default 5 .readyPeriod }}
  timeoutSeconds: {{ default 10 .readyTimeout }}
  {{- with .readyFailures }}
  failureThreshold: {{ . }}
  {{- end }}
{{- end -}}

{{- define "tonnage.loggingArgs" -}}
{{- if ne .Values.logging.level "info" }}
- --log-level={{ .Values.logging.level }}
{{- end }}
{{- if ne .Values.logging.format "json" }}
- --logging-format={{ .Values.logging.format }}
{{- end }}
{{- end -}}

{{/* A file of settings that a restart is not needed for. */}}
{{- define "tonnage.config" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "tonnage.labels" . | nindent 4 }}
data:
  config.yaml: |
    apiVersion: tonnage.dev/v1alpha1
    kind: {{ .kind }}
    {{- toYaml .config | nindent 4 }}
{{- end -}}

{{- define "tonnage.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "tonnage.componentName" . }}
  namespace: {{ default .root.Release.Namespace .namespace }}
  labels:
    {{- include "tonnage.labels" . | nindent 4 }}
  {{- with .component.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end -}}

{{- define "tonnage.podDisruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "tonnage.componentName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "tonnage.labels" . | nindent 4 }}
spec:
  minAvailable: {{ .component.podDisruptionBudget.minAvailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "tonnage.selectorLabels" . | nindent 6 }}
{{- end -}}

{{/* Rules of some parts, objects under the names they have here; of those that only read, nothing that writes. */}}
{{- define "tonnage.rules" -}}
{{- $rights := .root.Files.Get "files/rights.yaml" | fromYaml -}}
{{- $names := default dict .names -}}
{{- $kind := .kind -}}
{{- $readOnly := .readOnly -}}
{{- $rules := list -}}
{{- range $part := .parts -}}
{{- range $rule := index $rights $part $kind -}}
{{- $verbs := $rule.verbs -}}
{{- if $readOnly -}}
{{- $verbs = list -}}
{{- range $verb := $rule.verbs -}}
{{- if has $verb (list "get" "list" "watch") -}}{{- $verbs = append $verbs $verb -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if $verbs -}}
{{- $made := dict "apiGroups" $rule.apiGroups "resources" $rule.resources "verbs" $verbs -}}
{{- if $rule.resourceNames -}}
{{- $renamed := list -}}
{{- range $name := $rule.resourceNames -}}{{- $renamed = append $renamed (default $name (get $names $name)) -}}{{- end -}}
{{- $_ := set $made "resourceNames" $renamed -}}
{{- end -}}
{{- $rules = append $rules $made -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{/* ClusterRole and Role of a component with their bindings; without rules there is none. */}}
{{- define "tonnage.roles" -}}
{{- $name := include "tonnage.componentName" . -}}
{{- $context := . -}}
{{- $accountNamespace := default .root.Release.Namespace .namespace -}}
{{- range $kind := list "ClusterRole" "Role" -}}
{{- $rules := include "tonnage.rules" (merge (dict "kind" $kind) $context) -}}
{{- if ne $rules "[]" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ $name }}
  {{- if eq $kind "Role" }}
  namespace: {{ default $accountNamespace $context.roleNamespace }}
  {{- end }}
  labels:
    {{- include "tonnage.labels" $context | nindent 4 }}
rules:
  {{- $rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ $name }}
  {{- if eq $kind "Role" }}
  namespace: {{ default $accountNamespace $context.roleNamespace }}
  {{- end }}
  labels:
    {{- include "tonnage.labels" $context | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $accountNamespace }}
{{- end }}
{{- end }}
{{- end -}}
