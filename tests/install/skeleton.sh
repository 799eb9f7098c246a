#!/usr/bin/env bash
# What `kvant plugins new` writes builds against the installed SDK, outside of the tree, and its own tests pass.
source "$(dirname "$0")/lib.sh"
unset KVANT_PLUGIN_PATH

prefix=$PWD/prefix
run 0 cmake --install "$KVANT_BUILD" --prefix "$prefix"
kvant=$prefix/bin/kvant
for kind in scheme calibrator; do
  run 0 "$kvant" plugins new "$kind" "my_$kind"
  run 0 cmake -S "my_$kind" -B "my_$kind/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$CXX"
  run 0 cmake --build "my_$kind/build"
  run 0 ctest --test-dir "my_$kind/build" --output-on-failure
  shows "100% tests passed"
done
finish
