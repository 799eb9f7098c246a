#!/usr/bin/env bash
# The top level holds what docs/architecture.md shows, and nothing else.
source "$(dirname "$0")/lib.sh"

allowed=(CMakeLists.txt CMakePresets.json README.md CONTRIBUTING.md LICENSE kvant framework models plugins configs tests docs
  .ci .clang-format .gitignore)
count=0
while read -r name; do
  count=$((count + 1))
  [[ " ${allowed[*]} " == *" $name "* ]] || offence "$name: not a name of the top level"
done < <(files | cut -d/ -f1 | sort -u)
finish "the top level holds ${allowed[*]}" "$count"
