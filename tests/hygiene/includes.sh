#!/usr/bin/env bash
# Who may include whom: rooms downwards only; Kokkos only through base/kokkos.hpp; MPI only in comm/.
source "$(dirname "$0")/lib.sh"

declare -A level=([base]=0 [config]=1 [tensor]=1 [numerics]=1 [plugin]=2 [kernels]=2 [data]=2 [comm]=3 [ops]=4 [quant]=5
  [nn]=5 [models]=6 [optim]=6 [checkpoint]=6 [train]=7 [app]=8)

# Of two rooms on one level neither includes the other; models use nn/ and what lies below it, never quant/.
may_include() {  # FROM TO
  [[ $1 == "$2" ]] && return 0
  [[ $1 == models && $2 == quant ]] && return 1
  ((${level[$2]} < ${level[$1]}))
}

count=0
while read -r file; do
  count=$((count + 1))
  case $file in
    framework/*) room=${file#framework/} room=${room%%/*} ;;
    models/*) room=models ;;
    *) room=plugins ;;
  esac
  if [[ $room != plugins && -z ${level[$room]:-} ]]; then
    offence "$file: '$room' is not a room of the house"
    continue
  fi
  while IFS=: read -r line text; do
    [[ $text =~ \#[[:space:]]*include[[:space:]]*[\<\"]([^\>\"]+)[\>\"] ]] || continue
    header=${BASH_REMATCH[1]}
    target=${header%%/*}
    if [[ $header == *..* ]]; then offence "$file:$line: $header: includes are written from the framework's root"; fi
    if [[ $room != plugins && -n ${level[$target]:-} && $header == */* ]] && ! may_include "$room" "$target"; then
      offence "$file:$line: $room/ (level ${level[$room]}) includes $header (level ${level[$target]})"
    fi
    case $header in
      KokkosBlas* | KokkosBatched* | KokkosKernels*)
        [[ $file == framework/kernels/vendor/* ]] || offence "$file:$line: $header: Kokkos Kernels is included in kernels/vendor/ only" ;;
      Kokkos* | impl/Kokkos*)
        [[ $file == framework/base/kokkos.hpp || $file:$header == framework/base/kokkos_version.hpp:Kokkos_Macros.hpp ]] ||
          offence "$file:$line: $header: Kokkos is included by base/kokkos.hpp only" ;;
      mpi.h | mpi-ext.h)
        [[ $file == framework/comm/* ]] || offence "$file:$line: $header: MPI is included in comm/ only" ;;
    esac
  done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' "$file" || true)
done < <(sources framework models plugins)
finish "a room includes rooms of a lower level only (docs/architecture.md), Kokkos and MPI come through one place" "$count"
