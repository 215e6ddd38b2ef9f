{{- define "streamweir.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "streamweir.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "streamweir.labels" -}}
{{ include "streamweir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "streamweir.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "streamweir.name" .) -}}
{{- else -}}
{{- required "serviceAccount.name is needed with serviceAccount.create=false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What the other templates need of the configuration file, as JSON. It fails where the file does not fit the values. */}}
{{- define "streamweir.settings" -}}
{{- $config := fromToml .Values.config -}}
{{- if hasKey $config "Error" -}}
{{- fail (printf "config is not TOML: %s" $config.Error) -}}
{{- end -}}
{{- if not $config.keys -}}
{{- fail "config has no [[keys]]: without them the gateway listens on loopback only" -}}
{{- end -}}
{{- include "streamweir.refuseInlineSecrets" (dict "value" $config "path" "config") -}}
{{- $times := dig "server" "timeouts" (dict) $config -}}
{{- $grace := .Values.preStopSeconds -}}
{{- range $name, $default := dict "lame_duck_s" 5 "drain_s" 600 -}}
{{- $seconds := get $times $name | default (hasKey $times $name | ternary 0 $default) -}}
{{- if kindIs "string" $seconds -}}
{{- fail (printf "config: server.timeouts.%s must be a number here: terminationGracePeriodSeconds follows from it" $name) -}}
{{- end -}}
{{- $grace = add $grace (ceil $seconds) -}}
{{- end -}}
{{- $store := dig "store" "url" "sqlite:///streamweir.db" $config -}}
{{- if and (kindIs "string" $store) (hasPrefix "sqlite:" $store) -}}
{{- if or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled (ne .Values.kind "StatefulSet") -}}
{{- fail "SQLite (store.url of config) is for kind=StatefulSet with one replica: use PostgreSQL" -}}
{{- end -}}
{{- end -}}
{{- $isTls := hasKey (dig "server" (dict) $config) "tls" -}}
{{- $listen := dig "server" "health_listen" "" $config | toString -}}
{{- $health := $listen | splitList ":" | last -}}
{{- if and (ne $listen "") (not (regexMatch "^.+:[0-9]+$" $listen)) -}}
{{- fail (printf "config: server.health_listen must be HOST:PORT here, such as 0.0.0.0:8081, because probes follow from it: got %s" $listen) -}}
{{- end -}}
{{- if regexMatch "(?i)^(localhost|127\\.[0-9.]+|\\[[0:]*1\\]|\\[::ffff:127\\.[0-9.]+\\]):" $listen -}}
{{- fail (printf "config: server.health_listen %s is a loopback address, which no probe can reach: use 0.0.0.0:%s" $listen $health) -}}
{{- end -}}
{{- if eq $health "8080" -}}
{{- fail (printf "config: server.health_listen %s has the port of the API: use another one, such as 0.0.0.0:8081" $listen) -}}
{{- end -}}
{{- dict
    "grace" (add $grace 15)
    "scheme" (ternary "https" "http" $isTls)
    "probePort" (ternary "health" "http" (ne $health ""))
    "probeScheme" (ternary "HTTPS" "HTTP" (and $isTls (eq $health "")))
    "healthPort" $health
  | toJson -}}
{{- end -}}

{{/* Fails at a secret that is written into the configuration: that would be a ConfigMap, which many may read. */}}
{{- define "streamweir.refuseInlineSecrets" -}}
{{- $path := .path -}}
{{- if kindIs "map" .value -}}
{{- range $name, $value := .value -}}
{{- $at := printf "%s.%s" $path $name -}}
{{- if kindIs "string" $value -}}
{{- $isSecret := has $name (list "key" "api_key" "secret" "old_secret" "secret_key" "webhook_secret" "secret_access_key" "session_token" "external_id" "client_secret") -}}
{{- $isSecretHeader := and (hasSuffix ".headers" $path) (regexMatch "(?i)authorization|cookie|key|secret|token" $name) -}}
{{- $isSecretUrl := and (eq $name "url") (hasPrefix "config.webhooks" $path) -}}
{{- $hasPassword := regexMatch "://[^/@\\s]*:[^/@\\s]+@" $value -}}
{{- if and (or $isSecret $isSecretHeader $isSecretUrl $hasPassword) (ne $value "") (not (contains "${" $value)) -}}
{{- fail (printf "%s is a secret in plain text: use { file = \"/run/secrets/streamweir/NAME\" } or \"${NAME}\"" $at) -}}
{{- end -}}
{{- else -}}
{{- include "streamweir.refuseInlineSecrets" (dict "value" $value "path" $at) -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $index, $value := .value -}}
{{- $at := printf "%s[%d]" $path $index -}}
{{- if and (kindIs "string" $value) (hasSuffix ".api_keys" $path) (not (contains "${" $value)) -}}
{{- fail (printf "%s is a secret in plain text: use a table with key = { file = \"/run/secrets/streamweir/NAME\" } or \"${NAME}\"" $at) -}}
{{- end -}}
{{- include "streamweir.refuseInlineSecrets" (dict "value" $value "path" $at) -}}
{{- end -}}
{{- end -}}
{{- end -}}
