#!/usr/bin/env bash
# The installed SDK: what docs/plugins.md tells a reader to do outside of the tree, step by step. The folders that Kvant
# writes take the guide's code, build against the install and pass their tests; the new number format and the calibrator train.
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

kvant=$prefix/bin/kvant
run 0 "$kvant" plugins new scheme e3m4
run 0 "$kvant" plugins new calibrator headroom
mkdir measured
cp "$here/CMakeLists.txt" measured/
for name in e3m4 headroom measured; do
  cp "$here/$name.cpp" "$name/"
  run 0 cmake -S "$name" -B "$name/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$CXX"
  run 0 cmake --build "$name/build"
  run 0 "$kvant" plugins "$name/build/plugins/libkvant_$name.so"
  shows "$name"
done
for name in e3m4 headroom; do
  run 0 ctest --test-dir "$name/build" --output-on-failure
  shows "100% tests passed"
done
refused=$("$kvant" plugins e3m4/build/plugins/libkvant_e3m4.so --json | grep -c '"refused": *"[^"]' || true)
[[ $refused == 0 ]] || fail "the out-of-tree plugin is refused"

# Shortened, the data and the model as they are.
export KVANT_PLUGIN_PATH=$PWD/e3m4/build/plugins:$PWD/headroom/build/plugins:$PWD/measured/build/plugins
run 0 "$kvant" explain "$quick" --set quant.quantization=e3m4
shows e3m4
run 0 "$kvant" train "$quick" --set quant.quantization=e3m4 --set run.steps=2 --run-dir "$PWD/run"
[[ -s run/metrics.jsonl ]] || fail "the run with e3m4 wrote no metrics"
run 0 "$kvant" explain "$quick" --set quant.weight_quantization_calibration_method=headroom,1
for arguments in quant.quantization=e3m4 "quant.quantization=int8_full --set quant.quantization_calibration_method=headroom,1"; do
  rm -rf run
  run 0 "$kvant" train "$KVANT_ROOT/configs/schemes.toml" --set $arguments --set run.steps=2 --set metrics.eval_steps=1 --run-dir "$PWD/run"
done
run 2 "$kvant" explain "$quick" --set quant.weight_quantization_calibration_method=headroom,9
shows "headroom takes one number from 0 to 8"
run 2 "$kvant" explain "$quick" --set quant.plugins.measured.x=1
shows "section [quant.plugins.measured]: 'measured' is a comm strategy, and those have no settings"
unset KVANT_PLUGIN_PATH

# Without the path it is not found, and the message lists what is; installed beside Kvant's own it is found by itself.
run 2 "$kvant" explain "$quick" --set quant.quantization=e3m4
shows e3m4 int8_full
run 0 cmake --install e3m4/build --prefix "$prefix"
run 0 "$kvant" explain "$quick" --set quant.quantization=e3m4

# A scheme whose plugin is gone ends the run with a sentence.
rm "$prefix"/lib*/kvant/plugins/libkvant_int8_full.so
run 2 "$kvant" train "$quick" --set run.steps=1 --run-dir "$PWD/no_scheme"
shows int8_full
[[ ! -e no_scheme/metrics.jsonl ]] || fail "a run whose scheme is missing wrote metrics"
finish
