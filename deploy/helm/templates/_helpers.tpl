{{- define "verbena.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "verbena.selector" -}}
app.kubernetes.io/name: verbena
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "verbena.labels" -}}
{{ include "verbena.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{- define "verbena.secret" -}}
{{- .Values.rootKeys.existingSecret | default (printf "%s-root" (include "verbena.name" .)) -}}
{{- end -}}

{{/* The native door's ports over the network, as the server's configuration has them: there, or ports.fabric. */}}
{{- define "verbena.fabricRange" -}}
{{- get (get .Values.config "rdma" | default dict) "fabric_ports" | default .Values.ports.fabric -}}
{{- end -}}

{{/* That range, as JSON: first and last. The server fails without a port for each core, the API server where one is twice. */}}
{{- define "verbena.fabric" -}}
{{- $text := include "verbena.fabricRange" . -}}
{{- $ends := splitList "-" $text -}}
{{- if ne (len $ends) 2 }}{{ fail (printf "ports.fabric: %s is not a range like 9101-9116" $text) }}{{ end -}}
{{- $first := int (first $ends) -}}
{{- $last := int (last $ends) -}}
{{- if or (lt $first 1) (gt $last 65535) (gt $first $last) }}{{ fail (printf "ports.fabric: %s is not a range like 9101-9116" $text) }}{{ end -}}
{{- $cores := int (get .Values.config "cores" | default 0) -}}
{{- if gt $cores (int (add1 (sub $last $first))) }}{{ fail (printf "ports.fabric: %s has fewer ports than config.cores (%d)" $text $cores) }}{{ end -}}
{{- range $name := list "s3" "native" "admin" -}}
{{- $port := int (get $.Values.ports $name) -}}
{{- if and (ge $port $first) (le $port $last) }}{{ fail (printf "ports.%s: %d lies in ports.fabric (%s)" $name $port $text) }}{{ end -}}
{{- end -}}
{{- dict "first" $first "last" $last | toJson -}}
{{- end -}}

{{/* Of a Service: clients of the native door dial these at the address where they opened the session. */}}
{{- define "verbena.fabricPorts" -}}
{{- $range := include "verbena.fabric" . | fromJson -}}
{{- range $port := untilStep (int $range.first) (int (add1 $range.last)) 1 }}
- {name: fabric-{{ $port }}, port: {{ $port }}, targetPort: {{ $port }}}
{{- end }}
{{- end -}}

{{/* Both modes run this pod. Service links are off: variables like VERBENA_ADMIN_PORT of a Service would be read as keys. */}}
{{- define "verbena.pod" -}}
{{- $v := .Values -}}
metadata:
  labels:
    {{- include "verbena.labels" . | nindent 4 }}
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ toYaml $v.config | sha256sum }}
    {{- with $v.networks }}
    k8s.v1.cni.cncf.io/networks: {{ join "," . | quote }}
    {{- end }}
    {{- with $v.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "verbena.name" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $v.terminationGracePeriodSeconds }}
  {{- if $v.hostNetwork }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  {{- with $v.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $v.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    # A second pass over the store would open its files to the group, and the server refuses keys that others can read.
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- if or $v.localSocket.enabled (eq $v.mode "DaemonSet") }}
  initContainers:
    # Folders of the node are root's when they are made: they become the server's, and nothing below them is touched.
    - name: folders
      image: {{ printf "%s:%s" $v.image.repository ($v.image.tag | default .Chart.AppVersion) | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: ["chown", "65532:65532"]
      args:
        {{- if eq $v.mode "DaemonSet" }}
        - /data
        {{- end }}
        {{- if $v.localSocket.enabled }}
        - /run/verbena
        {{- end }}
      securityContext:
        runAsNonRoot: false
        runAsUser: 0
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
          add: [CHOWN]
      volumeMounts:
        {{- if eq $v.mode "DaemonSet" }}
        - name: data
          mountPath: /data
        {{- end }}
        {{- if $v.localSocket.enabled }}
        - name: local-socket
          mountPath: /run/verbena
        {{- end }}
  {{- end }}
  containers:
    - name: verbena
      image: {{ printf "%s:%s" $v.image.repository ($v.image.tag | default .Chart.AppVersion) | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: ["server", "/data/store", "--config", "/etc/verbena/verbena.yaml"]
      env:
        - name: VERBENA_ROOT_ACCESS_KEY_FILE
          value: /run/secrets/verbena/access-key
        - name: VERBENA_ROOT_SECRET_KEY_FILE
          value: /run/secrets/verbena/secret-key
        - name: VERBENA_HTTP_ADDRESS
          value: "0.0.0.0"
        - name: VERBENA_HTTP_PORT
          value: {{ $v.ports.s3 | quote }}
        - name: VERBENA_RDMA_ADDRESS
          value: "0.0.0.0"
        - name: VERBENA_RDMA_PORT
          value: {{ $v.ports.native | quote }}
        - name: VERBENA_RDMA_FABRIC_PORTS
          value: {{ include "verbena.fabricRange" . | quote }}
        - name: VERBENA_ADMIN_ADDRESS
          value: "0.0.0.0"
        - name: VERBENA_ADMIN_PORT
          value: {{ $v.ports.admin | quote }}
        {{- if $v.serviceMonitor.enabled }}
        - name: VERBENA_ADMIN_OPEN_METRICS
          value: "true"
        {{- end }}
        {{- if $v.localSocket.enabled }}
        - name: VERBENA_RDMA_LOCAL_SOCKET
          value: /run/verbena/local.sock
        {{- end }}
        {{- with $v.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: s3, containerPort: {{ $v.ports.s3 }}}
        - {name: native, containerPort: {{ $v.ports.native }}}
        - {name: admin, containerPort: {{ $v.ports.admin }}}
      # A start may read a long log of the index: up to ten minutes.
      startupProbe:
        httpGet: {path: /-/health, port: admin}
        periodSeconds: 2
        failureThreshold: 300
      readinessProbe:
        httpGet: {path: /-/health, port: admin}
        periodSeconds: 5
      livenessProbe:
        httpGet: {path: /-/health, port: admin}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      resources:
        {{- $extra := dict }}
        {{- with $v.hugepages2Mi }}
        {{- $_ := set $extra "hugepages-2Mi" . }}
        {{- end }}
        {{- $extra = merge $extra $v.rdmaResources }}
        requests:
          {{- toYaml (merge (dict) $extra $v.resources.requests) | nindent 10 }}
        limits:
          {{- toYaml (merge (dict) $extra $v.resources.limits) | nindent 10 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
          {{- if $v.ipcLock }}
          add: [IPC_LOCK]
          {{- end }}
      volumeMounts:
        - name: data
          mountPath: /data
        - name: config
          mountPath: /etc/verbena
          readOnly: true
        - name: root-keys
          mountPath: /run/secrets/verbena
          readOnly: true
        {{- if $v.localSocket.enabled }}
        - name: local-socket
          mountPath: /run/verbena
        {{- end }}
        {{- with $v.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "verbena.name" . }}
    - name: root-keys
      secret:
        secretName: {{ include "verbena.secret" . }}
        defaultMode: 0440
    {{- if eq $v.mode "DaemonSet" }}
    - name: data
      hostPath: {path: {{ $v.hostData | quote }}, type: DirectoryOrCreate}
    {{- end }}
    {{- if $v.localSocket.enabled }}
    - name: local-socket
      hostPath: {path: {{ $v.localSocket.hostPath | quote }}, type: DirectoryOrCreate}
    {{- end }}
    {{- with $v.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $v.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
