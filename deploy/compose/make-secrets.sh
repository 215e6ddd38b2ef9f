#!/bin/sh
# Makes the secrets of compose.yaml, each in a file of its own, once: what is there already is left alone.
# The folder is yours alone. The files can be read by all, because in containers other users read them.
set -eu
folder=$(dirname "$0")/secrets
[ -d "$folder" ] || mkdir -m 0700 "$folder"

random() { head -c 24 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }

write() { # NAME VALUE
    [ -e "$folder/$1" ] || { printf '%s' "$2" >"$folder/$1.new" && chmod 0444 "$folder/$1.new" && mv "$folder/$1.new" "$folder/$1"; }
}

write first_key "sk-$(random)"
write streamweir_metrics "sk-$(random)"
write grafana_password "$(random)"
write postgres_password "$(random)"
write store_url "postgresql://streamweir:$(cat "$folder/postgres_password")@postgres/streamweir"
echo "The secrets are in $folder. The gateway's first key is in $folder/first_key."
