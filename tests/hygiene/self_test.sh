#!/usr/bin/env bash
# The hygiene scripts find what they are there for: each is given a small tree with one offence, and must fail naming it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

fresh_tree() {
  rm -rf "$tree"
  mkdir -p "$tree"/framework/{base,nn,quant,comm,kernels/isa} "$tree/models/m" "$tree/build/kvant.dir/kernels/isa" "$tree/docs"
  printf 'reads `KVANT_ISA`\n' >"$tree/docs/configuration.md"
  printf 'const char* wanted = getenv("KVANT_ISA");\n' >"$tree/framework/nn/isa.cpp"
  printf '#include <Kokkos_Core.hpp>\n' >"$tree/framework/base/kokkos.hpp"
  printf '#include "base/kokkos.hpp"\nclass Scheme {\n};\n' >"$tree/framework/quant/scheme.hpp"
  printf '#include "base/kokkos.hpp"\n// a Scheme is not known here\n' >"$tree/framework/nn/linear.cpp"
  printf '#include "nn/linear.hpp"\n' >"$tree/models/m/m.cpp"
  printf '#include <immintrin.h>\nvoid kernel() {}\n' >"$tree/framework/kernels/isa/k_avx2.cpp"
  "${CXX:-c++}" -c "$tree/framework/kernels/isa/k_avx2.cpp" -o "$tree/build/kvant.dir/kernels/isa/k_avx2.cpp.o"
}

run() { KVANT_ROOT=$tree KVANT_BUILD=$tree/build bash "$here/$1" 2>&1; }

expect_offence() {  # SCRIPT TEXT
  local output
  if output=$(run "$1"); then
    printf '%s passed, but should have found: %s\n' "$1" "$2"
    failures=$((failures + 1))
  elif [[ $output != *"$2"* ]]; then
    printf '%s failed without naming "%s":\n%s\n' "$1" "$2" "$output"
    failures=$((failures + 1))
  fi
  fresh_tree
}

fresh_tree
for script in includes model_and_quantization top_level file_sizes markers isa_objects environment; do
  if [[ $script == top_level ]]; then rm -rf "$tree/build"; fi
  run "$script.sh" >/dev/null || { printf '%s found an offence in a clean tree:\n' "$script"; run "$script.sh" || true; failures=$((failures + 1)); }
  fresh_tree
done

printf '#include "nn/linear.hpp"\n' >"$tree/framework/base/up.hpp";               expect_offence includes.sh "base/ (level 0) includes nn/linear.hpp"
printf '#include "quant/scheme.hpp"\n' >"$tree/framework/nn/up.hpp";              expect_offence includes.sh "nn/ (level 5) includes quant/scheme.hpp"
printf '#include "quant/scheme.hpp"\n' >"$tree/models/m/up.hpp";                  expect_offence includes.sh "models/ (level 6) includes quant/scheme.hpp"
printf '#include "../nn/linear.hpp"\n' >"$tree/framework/comm/up.hpp";            expect_offence includes.sh "from the framework's root"
printf '#  include <Kokkos_Core.hpp>\n' >"$tree/framework/nn/k.hpp";              expect_offence includes.sh "Kokkos is included by"
printf '#include <mpi.h>\n' >"$tree/framework/nn/k.hpp";                          expect_offence includes.sh "MPI is included in"
mkdir "$tree/framework/attic"; printf '\n' >"$tree/framework/attic/a.cpp";        expect_offence includes.sh "not a room"
printf '#include "quant/scheme.hpp"\n' >"$tree/models/m/q.hpp";                   expect_offence model_and_quantization.sh "quant/scheme.hpp"
printf 'void f(Scheme&);\n' >"$tree/framework/nn/q.hpp";                          expect_offence model_and_quantization.sh "Scheme is a type of quant/"
printf 'quant::x y;\n' >"$tree/framework/nn/q.hpp";                               expect_offence model_and_quantization.sh "quant::x"
printf '\n' >"$tree/notes.txt";                                                   expect_offence top_level.sh "notes.txt"
head -c 1048577 /dev/zero >"$tree/models/big.bin";                                expect_offence file_sizes.sh "1048577 bytes"
printf '// TODO later\n' >"$tree/models/m/t.cpp";                                 expect_offence markers.sh "TODO later"
printf 'throw Error("not implemented");\n' >"$tree/models/m/t.cpp";               expect_offence markers.sh "not implemented"
printf '#include <vector>\n' >>"$tree/framework/kernels/isa/k_avx2.cpp";          expect_offence isa_objects.sh "#include <vector>"
printf 'jobs=${KVANT_JOBS:-2}\n' >"$tree/kvant";                                    expect_offence environment.sh "KVANT_JOBS is not in"
printf 'getenv("KVANT_SECRET");\n' >"$tree/models/m/e.cpp";                      expect_offence environment.sh "KVANT_SECRET is not in"
rm "$tree/build/kvant.dir/kernels/isa/k_avx2.cpp.o";                              expect_offence isa_objects.sh "no object of it"
printf 'inline int shared() { return 1; }\nint (*kernel)() = shared;\n' | "${CXX:-c++}" -x c++ -c - -o "$tree/build/kvant.dir/kernels/isa/k_avx2.cpp.o"
expect_offence isa_objects.sh "weak symbol"
rm -rf "${tree:?}"/framework "$tree"/models;                                      expect_offence includes.sh "nothing to look at"

if ((failures)); then printf '%d of the checks do not work\n' "$failures"; exit 1; fi
printf 'every hygiene script finds its offence\n'
