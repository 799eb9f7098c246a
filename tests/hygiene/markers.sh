#!/usr/bin/env bash
# What is in the tree is finished: no marker of work left undone.
source "$(dirname "$0")/lib.sh"

pattern='\b(TODO|FIXME|XXX|HACK|WIP|stub|stubs|stubbed|placeholder)\b|not (yet )?implemented'
count=0
while read -r file; do
  case $file in tests/hygiene/* | tests/reference/data/*) continue ;; esac
  count=$((count + 1))
  while read -r hit; do offence "$file:$hit"; done < <(grep -InE "$pattern" "$file" || true)
done < <(files)
finish "no marker of unfinished work ($pattern)" "$count"
