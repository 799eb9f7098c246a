#!/usr/bin/env bash
# Every environment variable of ours that the program or the script reads is explained in docs/configuration.md.
source "$(dirname "$0")/lib.sh"

count=0
while IFS=: read -r file line name; do
  count=$((count + 1))
  name=${name//[^A-Z_]/}
  grep -q "\`$name\`" docs/configuration.md || offence "$file:$line: $name is not in docs/configuration.md"
done < <(sources framework models plugins | xargs grep -nHoE '"KVANT_[A-Z_]+"' || true; grep -snHoE '\$\{?KVANT_[A-Z_]+' kvant || true)
finish "docs/configuration.md explains every variable that is read" "$count"
