#!/usr/bin/env bash
# Objects compiled for newer processors than the baseline define no weak symbol, which the linker could pick for everybody,
# and their sources include no header that would bring one.
source "$(dirname "$0")/lib.sh"
: "${KVANT_BUILD:?KVANT_BUILD must name the build tree}"

count=0
while read -r source; do
  count=$((count + 1))
  object=$(find "$KVANT_BUILD" -path "*kvant.dir/kernels/isa/$(basename "$source").o" | head -n 1)
  if [[ -z $object ]]; then
    [[ $(uname -m) != x86_64 ]] || offence "$source: no object of it in $KVANT_BUILD"
    continue
  fi
  # W, V: weak; u: unique (an inline variable or a static of an inline function). What nvcc makes weak of an anonymous
  # namespace has a name of its file's own.
  while read -r symbol; do offence "$object: weak symbol $symbol"; done < <(nm --defined-only "$object" |
    awk '$2 ~ /^[WVwvu]$/ && !/_GLOBAL__N_/ {print $2, $3}' | c++filt)
  while read -r hit; do offence "$source:$hit"; done < <(grep -nE '#[[:space:]]*include' "$source" |
    grep -vE '<(immintrin|stdint|stddef|x86intrin)\.h>|"kernels/isa/[a-z0-9_]+\.hpp"' || true)
done < <(find framework/kernels/isa -name '*_avx2.cpp' -o -name '*_avx512.cpp' -o -name '*_avx512vnni.cpp' -o -name '*_avx512fp16.cpp' -o -name '*_avxvnni.cpp' | sort)
finish "micro-kernels for newer processors include immintrin.h, stdint.h, stddef.h and isa headers only, and define no weak symbol" "$count"
