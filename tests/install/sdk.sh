#!/usr/bin/env bash
# The installed SDK: a project outside of the tree, the one that docs/plugins.md shows, builds against it, and its new number
# format trains the quick start unchanged.
source "$(dirname "$0")/lib.sh"
unset KVANT_PLUGIN_PATH

here=$KVANT_ROOT/tests/install/plugin
quick=$KVANT_ROOT/configs/quickstart.toml
prefix=$PWD/prefix

# The guide shows the very files that are built here, and the format takes about 25 lines.
guide=$(<"$KVANT_ROOT/docs/plugins.md")
for file in "$here"/*; do
  [[ $guide == *"$(<"$file")"* ]] || fail "docs/plugins.md does not show ${file#"$KVANT_ROOT"/} as it is"
done
lines=$(sed -n '/^struct/,/^};/p' "$here/e3m4.cpp" | wc -l)
((lines <= 27)) || fail "the number format takes $lines lines"

run 0 cmake --install "$KVANT_BUILD" --prefix "$prefix"

# Another compiler is refused before anything is built, in a sentence that names the right one.
mkdir other_compiler
printf 'cmake_minimum_required(VERSION 3.25)\nproject(other NONE)\nset(CMAKE_CXX_COMPILER_ID GNU)\nset(CMAKE_CXX_COMPILER_VERSION 12.2.0)\nfind_package(Kvant REQUIRED)\n' >other_compiler/CMakeLists.txt
run 1 cmake -S other_compiler -B other_compiler/build -DCMAKE_PREFIX_PATH="$prefix"
output=$(tr -s ' \n' ' ' <<<"$output")
shows "Kvant was built with" "this project uses GNU 12" "-DCMAKE_CXX_COMPILER="

run 0 cmake -S "$here" -B plugin -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$CXX"
run 0 cmake --build plugin

kvant=$prefix/bin/kvant
for name in e3m4 headroom measured; do
  run 0 "$kvant" plugins "plugin/plugins/libkvant_$name.so"
  shows "$name"
done
refused=$("$kvant" plugins plugin/plugins/libkvant_e3m4.so --json | grep -c '"refused": *"[^"]' || true)
[[ $refused == 0 ]] || fail "the out-of-tree plugin is refused"

# Shortened, the data and the model as they are.
export KVANT_PLUGIN_PATH=$PWD/plugin/plugins
run 0 "$kvant" explain "$quick" --set quant.quantization=e3m4
shows e3m4
run 0 "$kvant" train "$quick" --set quant.quantization=e3m4 --set run.steps=2 --run-dir "$PWD/run"
[[ -s run/metrics.jsonl ]] || fail "the run with e3m4 wrote no metrics"
run 0 "$kvant" explain "$quick" --set quant.weight_quantization_calibration_method=headroom,1
unset KVANT_PLUGIN_PATH

# Without the path it is not found, and the message lists what is; installed beside Kvant's own it is found by itself.
run 2 "$kvant" explain "$quick" --set quant.quantization=e3m4
shows e3m4 int8_full
run 0 cmake --install plugin --prefix "$prefix"
run 0 "$kvant" explain "$quick" --set quant.quantization=e3m4

# A scheme whose plugin is gone ends the run with a sentence.
rm "$prefix"/lib*/kvant/plugins/libkvant_int8_full.so
run 2 "$kvant" train "$quick" --set run.steps=1 --run-dir "$PWD/no_scheme"
shows int8_full
[[ ! -e no_scheme/metrics.jsonl ]] || fail "a run whose scheme is missing wrote metrics"
finish
