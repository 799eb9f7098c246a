#!/usr/bin/env bash
# kvant plugins new: the files of a plugin, and every name or folder that is refused. tests/install/skeleton.sh builds them.
source "$(dirname "$0")/lib.sh"

for kind in scheme calibrator; do
  expect 0 plugins new "$kind" "my_$kind"
  shows "./my_$kind/CMakeLists.txt" "./my_$kind/my_$kind.cpp" "./my_$kind/try.toml" "./my_$kind/README.md"
  for file in CMakeLists.txt "my_$kind.cpp" try.toml README.md; do
    [[ -s my_$kind/$file ]] || fail "my_$kind/$file is missing or empty"
  done
  if grep -rq '@' "my_$kind"; then fail "my_$kind: something was not filled in: $(grep -rh '@' "my_$kind" | head -n 1)"; fi
  grep -q "KIND $kind" "my_$kind/CMakeLists.txt" || fail "my_$kind/CMakeLists.txt has another kind"
done
grep -q 'class MyScheme final' my_scheme/my_scheme.cpp || fail "the class is not called MyScheme"

mkdir -p elsewhere
expect 0 plugins new scheme other --into elsewhere
[[ -s elsewhere/other/other.cpp ]] || fail "--into was not heeded"

expect 2 plugins new scheme my_scheme
shows "my_scheme' exists already; nothing was written"
for name in My_scheme 1st a-b 'a b' '' "$(printf 'x%.0s' {1..48})"; do
  expect 2 plugins new scheme "$name"
  shows "is no plugin's name: it is made of a-z, 0-9 and _"
done
expect 2 plugins new scheme int8_full
shows "There is a plugin 'int8_full' already"
expect 2 plugins new scheme fp8_e5m2  # what a plugin of another name offers
shows "There is a plugin 'fp8_e5m2' already"
expect 2 plugins new comm other
expect 2 plugins new scheme
: >file
expect 2 plugins new scheme another --into file
shows "cannot be made"
expect 0 plugins  # the list is still there
shows "int8_full"
finish
