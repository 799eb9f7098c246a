#!/usr/bin/env bash
# `kvant explain` accepts every file of configs/.
source "$(dirname "$0")/lib.sh"

count=0
while read -r file; do
  expect 0 explain "$file"
  count=$((count + 1))
done < <(find "$KVANT_ROOT/configs" -name '*.toml' | sort)
((count >= 10)) || fail "only $count files were found in configs/"
finish
