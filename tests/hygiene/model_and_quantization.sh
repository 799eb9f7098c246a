#!/usr/bin/env bash
# Models and layers never mention quantization: no include of quant/, no name that a header of quant/ declares.
source "$(dirname "$0")/lib.sh"

# Types that quant/'s headers define at namespace scope (not forward declarations of other rooms' types).
mapfile -t types < <(sources framework/quant | grep '\.hpp$' | xargs -r sed -nE \
  's/^(class|struct|enum class|enum|concept) +([A-Z][A-Za-z0-9]*)( final)? *([:{].*)?$/\2/p' | sort -u)

code() { sed -E 's|//.*$||' "$1"; }  # without comments

count=0
while read -r file; do
  count=$((count + 1))
  if code "$file" | grep -nE '#include +["<]quant/|quant::|namespace +quant' >/tmp/hygiene.$$; then
    while read -r hit; do offence "$file:$hit"; done </tmp/hygiene.$$
  fi
  for type in "${types[@]}"; do
    if code "$file" | grep -nw "$type" >/tmp/hygiene.$$; then
      while read -r hit; do offence "$file:$hit ($type is a type of quant/)"; done </tmp/hygiene.$$
    fi
  done
done < <(sources framework/nn models)
rm -f /tmp/hygiene.$$
finish "nn/ and models/ know nothing of quant/" "$count"
