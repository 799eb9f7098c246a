#!/usr/bin/env bash
# No large file is committed, test data apart.
source "$(dirname "$0")/lib.sh"

limit=$((1024 * 1024))
count=0
while read -r file; do
  count=$((count + 1))
  [[ $file != tests/reference/data/* ]] || continue
  size=$(stat -c %s "$file")
  ((size <= limit)) || offence "$file: $size bytes"
done < <(files)
finish "no committed file is larger than $limit bytes, except below tests/reference/data/" "$count"
