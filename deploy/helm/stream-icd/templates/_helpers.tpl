{{- define "stream-icd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "stream-icd.fullname" -}}
{{- $name := include "stream-icd.name" . }}
{{- $usual := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $usual .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "stream-icd.serviceAccount" -}}
{{- default (ternary (include "stream-icd.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- define "stream-icd.claim" -}}
{{- default (printf "%s-data" (include "stream-icd.fullname" .)) .Values.storage.existingClaim }}
{{- end }}

{{/* Labels of all pods of a release. */}}
{{- define "stream-icd.release" -}}
app.kubernetes.io/name: {{ include "stream-icd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels that select pods; arguments: dict "root" "component". They never change: Kubernetes would
     refuse an upgrade. */}}
{{- define "stream-icd.selector" -}}
{{ include "stream-icd.release" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of a pod that do not select it, and its annotations; arguments: dict "root". */}}
{{- define "stream-icd.podMetadata" -}}
{{- with .root.Values.podLabels }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.podAnnotations }}
annotations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "stream-icd.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}

{{/* Ports of the brokers that the settings name, as a JSON list. */}}
{{- define "stream-icd.brokerPorts" -}}
{{- $ports := list }}
{{- range splitList "," .Values.kafka.bootstrapServers }}
{{- $ports = append $ports (int (last (splitList ":" .))) }}
{{- end }}
{{- toJson (uniq (concat $ports .Values.networkPolicy.brokerPorts)) }}
{{- end }}

{{- define "stream-icd.labels" -}}
{{ include "stream-icd.selector" . }}
app.kubernetes.io/part-of: stream-icd
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* Whether there is a login; and whether it is by a password. */}}
{{- define "stream-icd.sasl" -}}
{{- if hasPrefix "SASL_" .Values.kafka.securityProtocol }}true{{ end }}
{{- end }}

{{- define "stream-icd.password" -}}
{{- if and (include "stream-icd.sasl" .) (has .Values.kafka.sasl.mechanism (list "PLAIN" "SCRAM-SHA-256" "SCRAM-SHA-512")) }}true{{ end }}
{{- end }}

{{/* The memory of a detector's container (docs/operating.md): 0.1 GiB + the memory of its graphs +
     N × (0.2 GiB + a snapshot's budget); twice as many worker processes while the champion changes. */}}
{{- define "stream-icd.detectorMemory" -}}
{{- $processes := int .Values.detector.processes }}
{{- if eq .Values.detector.model "champion" }}{{ $processes = mul 2 $processes }}{{ end }}
{{- $budget := divf .Values.detector.budget.memoryBytes 1048576 }}
{{- $graphs := divf .Values.detector.memoryCacheBytes 1048576 }}
{{- printf "%dMi" (int (ceil (addf 102.4 $graphs (mulf $processes (addf 204.8 $budget))))) }}
{{- end }}

{{- define "stream-icd.mebibytes" -}}
{{- printf "%dMi" (int (ceil (addf 512 (divf . 1048576)))) }}
{{- end }}

{{/* Fails early where values contradict each other. */}}
{{- define "stream-icd.check" -}}
{{- if and (include "stream-icd.password" .) (not .Values.kafka.sasl.existingSecret) }}
{{- fail (printf "kafka.securityProtocol is %s: name a secret in kafka.sasl.existingSecret" .Values.kafka.securityProtocol) }}
{{- end }}
{{- if and .Values.kafka.sasl.existingSecret (not (include "stream-icd.sasl" .)) }}
{{- fail (printf "kafka.sasl.existingSecret has no effect with kafka.securityProtocol %s: set that to SASL_SSL or SASL_PLAINTEXT" .Values.kafka.securityProtocol) }}
{{- end }}
{{- if and (include "stream-icd.sasl" .) (not (include "stream-icd.password" .)) }}
{{- if .Values.kafka.sasl.existingSecret }}
{{- fail (printf "kafka.sasl.existingSecret has no effect with kafka.sasl.mechanism %s: give the settings of that in extraEnv" .Values.kafka.sasl.mechanism) }}
{{- end }}
{{- if .Values.detector.autoscaling.enabled }}
{{- fail (printf "detector.autoscaling logs in with a password, and kafka.sasl.mechanism is %s: make a ScaledObject of your own" .Values.kafka.sasl.mechanism) }}
{{- end }}
{{- end }}
{{- if and .Values.kafka.tls.existingSecret (not (has .Values.kafka.securityProtocol (list "SSL" "SASL_SSL"))) }}
{{- fail (printf "kafka.tls.existingSecret has no effect with kafka.securityProtocol %s: set that to SSL or SASL_SSL" .Values.kafka.securityProtocol) }}
{{- end }}
{{- if and .Values.kafka.tls.clientCertificate (not .Values.kafka.tls.existingSecret) }}
{{- fail "kafka.tls.clientCertificate is true: name a secret in kafka.tls.existingSecret" }}
{{- end }}
{{- if and (not .Values.registry.uri) (eq .Values.detector.model "champion") }}
{{- fail "detector.model is champion: give registry.uri, or a shipped model such as default" }}
{{- end }}
{{- if and .Values.detector.autoscaling.enabled (regexMatch "--gr(aph|oup)\\b" (join " " .Values.detector.extraArgs)) }}
{{- fail "detector.autoscaling watches the group stream-icd-detect: leave --graph and --group out of detector.extraArgs" }}
{{- end }}
{{- if and .Values.alert.enabled (not .Values.alert.rules) }}
{{- fail "alert.enabled is true: give alert.rules, such as [\"merged and bits >= 20\"]" }}
{{- end }}
{{- if and .Values.alert.sign (not .Values.alert.existingSecret) }}
{{- fail "alert.sign is true: name a secret with the key signature in alert.existingSecret" }}
{{- end }}
{{- if and .Values.view.ingress.enabled (not .Values.view.ingress.host) }}
{{- fail "view.ingress.enabled is true: give view.ingress.host" }}
{{- end }}
{{- if and .Values.view.httpRoute.enabled (not .Values.view.httpRoute.parentRefs) }}
{{- fail "view.httpRoute.enabled is true: name a gateway in view.httpRoute.parentRefs" }}
{{- end }}
{{- range list .Values.history.uri .Values.registry.uri }}
{{- if and . (not (contains "://" .)) (not (and $.Values.storage.enabled (regexMatch "^/data(/|$)" .))) }}
{{- fail (printf "%s is on no volume: give history.uri and registry.uri as URIs, such as s3://bucket/history, or with storage.enabled as folders in /data" .) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "stream-icd.env" -}}
- name: STREAM_ICD_BOOTSTRAP_SERVERS
  value: {{ .Values.kafka.bootstrapServers | quote }}
- name: STREAM_ICD_SECURITY_PROTOCOL
  value: {{ .Values.kafka.securityProtocol }}
- name: STREAM_ICD_SHUTDOWN_TIMEOUT_S
  value: {{ .Values.shutdownSeconds | quote }}
- name: STREAM_ICD_INSTANCE_ID # a container that starts again ends its open transaction at once
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
{{- with .Values.kafka.topicPrefix }}
- name: STREAM_ICD_TOPIC_PREFIX
  value: {{ . | quote }}
{{- end }}
{{- if include "stream-icd.sasl" . }}
- name: STREAM_ICD_SASL_MECHANISM
  value: {{ .Values.kafka.sasl.mechanism }}
{{- end }}
{{- if include "stream-icd.password" . }}
- name: STREAM_ICD_SASL_USERNAME
  valueFrom: { secretKeyRef: { name: {{ .Values.kafka.sasl.existingSecret }}, key: username } }
- name: STREAM_ICD_SASL_PASSWORD_FILE
  value: /run/secrets/kafka-sasl/password
{{- end }}
{{- if .Values.kafka.tls.existingSecret }}
- name: STREAM_ICD_SSL_CAFILE
  value: /run/secrets/kafka-tls/ca.crt
{{- if .Values.kafka.tls.clientCertificate }}
- name: STREAM_ICD_SSL_CERTFILE
  value: /run/secrets/kafka-tls/tls.crt
- name: STREAM_ICD_SSL_KEYFILE
  value: /run/secrets/kafka-tls/tls.key
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A container of ours; arguments: dict "root" "name" "args" and, where given, "resources",
     "metrics" (true: serves metrics and health), "answers" (a port with /healthz), "env", "ports" and
     "secret" (of this program alone, which is mounted in a folder of the program's name). */}}
{{- define "stream-icd.container" -}}
- name: {{ .name }}
  image: {{ include "stream-icd.image" .root | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  {{- with .command }}
  command: {{ toJson . }}
  {{- end }}
  args: {{ toJson .args }}
  env:
    {{- include "stream-icd.env" .root | nindent 4 }}
    {{- with .env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .root.Values.extraEnvFrom }}
  envFrom: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .ports }}
  ports: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- if .metrics }}
  ports:
    - { name: metrics, containerPort: 9464 }
  livenessProbe:
    httpGet: { path: /healthz, port: metrics }
    periodSeconds: 20
    timeoutSeconds: 5
  readinessProbe:
    httpGet: { path: /readyz, port: metrics }
    periodSeconds: 10
    timeoutSeconds: 5
  startupProbe: # metrics are served before the model is opened
    httpGet: { path: /healthz, port: metrics }
    periodSeconds: 2
    failureThreshold: 60
  {{- end }}
  {{- with .answers }}
  livenessProbe:
    httpGet: { path: /healthz, port: {{ . }} }
    periodSeconds: 20
    timeoutSeconds: 10
  readinessProbe:
    httpGet: { path: /healthz, port: {{ . }} }
    periodSeconds: 5
    timeoutSeconds: 5
  {{- end }}
  {{- with .resources }}
  resources: {{ toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{ include "stream-icd.containerSecurity" . | nindent 4 }}
  volumeMounts:
    - { name: tmp, mountPath: /tmp }
    - { name: cache, mountPath: /home/icd/.cache }
    {{- if .root.Values.storage.enabled }}
    - { name: data, mountPath: /data }
    {{- end }}
    {{- if include "stream-icd.sasl" .root }}
    - { name: kafka-sasl, mountPath: /run/secrets/kafka-sasl, readOnly: true }
    {{- end }}
    {{- if .root.Values.kafka.tls.existingSecret }}
    - { name: kafka-tls, mountPath: /run/secrets/kafka-tls, readOnly: true }
    {{- end }}
    {{- if .secret }}
    - { name: own-secret, mountPath: /run/secrets/{{ .name }}, readOnly: true }
    {{- end }}
{{- end }}

{{- define "stream-icd.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* What the pods of all programs share; arguments: dict "root" "component" "restart" "secret". Compiled code
     is used only from a folder that can be written: the one of the image is copied. */}}
{{- define "stream-icd.pod" -}}
serviceAccountName: {{ include "stream-icd.serviceAccount" .root }}
automountServiceAccountToken: {{ gt (len .root.Values.serviceAccount.annotations) 0 }}
enableServiceLinks: false # a service's address in the environment is not a setting
{{- with .restart }}
restartPolicy: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
# A stopped worker finishes its batch, or gives it back after shutdownSeconds, and leaves its group.
terminationGracePeriodSeconds: {{ add .root.Values.shutdownSeconds 15 }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- range $name, $id := .root.Values.podSecurity }}
  {{- if not (kindIs "invalid" $id) }}
  {{ $name }}: {{ int64 $id }}
  {{- end }}
  {{- end }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with .root.Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- $selector := include "stream-icd.selector" . | fromYaml }}
{{- with .root.Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{- toYaml (merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $selector))) | nindent 4 }}
  {{- end }}
{{- end }}
volumes:
  - { name: tmp, emptyDir: {} }
  - { name: cache, emptyDir: {} }
  {{- if .root.Values.storage.enabled }}
  - name: data
    persistentVolumeClaim: { claimName: {{ include "stream-icd.claim" .root }} }
  {{- end }}
  {{- if include "stream-icd.sasl" .root }}
  - name: kafka-sasl
    secret:
      secretName: {{ .root.Values.kafka.sasl.existingSecret }}
      items: [{ key: password, path: password }]
  {{- end }}
  {{- with .root.Values.kafka.tls.existingSecret }}
  - name: kafka-tls
    secret: { secretName: {{ . }} }
  {{- end }}
  {{- with .secret }}
  - name: own-secret
    secret: { secretName: {{ . }} }
  {{- end }}
initContainers:
  - name: compiled-code
    image: {{ include "stream-icd.image" .root | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: [cp, --recursive, /home/icd/.cache/., /cache]
    resources:
      requests: { cpu: 10m, memory: 32Mi }
      limits: { memory: 64Mi }
    securityContext: {{ include "stream-icd.containerSecurity" . | nindent 6 }}
    volumeMounts:
      - { name: cache, mountPath: /cache }
{{- end }}

{{/* A Deployment; arguments: dict "root" "component" "container" and, where given, "replicas". */}}
{{- define "stream-icd.deployment" -}}
{{- $labels := dict "root" .root "component" .component }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "stream-icd.fullname" .root }}-{{ .component }}
  labels: {{ include "stream-icd.labels" $labels | nindent 4 }}
spec:
  {{- if not .scaled }}
  replicas: {{ dig "replicas" 1 . }}
  {{- end }}
  strategy: # a pod ends when its successor is warm, so that the others need not take its partitions
    rollingUpdate: { maxSurge: 1, maxUnavailable: 0 }
  selector:
    matchLabels: {{ include "stream-icd.selector" $labels | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "stream-icd.selector" $labels | nindent 8 }}
        {{- if .container.metrics }}
        stream-icd/metrics: served
        {{- end }}
        {{- include "stream-icd.podMetadata" . | nindent 6 }}
    spec:
      {{- include "stream-icd.pod" (merge (dict "secret" .container.secret) $labels) | nindent 6 }}
      containers:
        {{- include "stream-icd.container" (merge (dict "root" .root "name" .component) .container) | nindent 8 }}
{{- end }}
