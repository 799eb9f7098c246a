#!/usr/bin/env bash
# The code that docs/plugins.md shows is the code that the install test builds: every file of tests/install/plugin/ stands in it,
# between fences, word for word.
source "$(dirname "$0")/lib.sh"

count=0
guide=$(<docs/plugins.md)
for file in tests/install/plugin/*; do
  count=$((count + 1))
  text=$(<"$file")
  [[ $guide == *'```'*$'\n'"$text"$'\n```'* ]] || offence "docs/plugins.md does not show $file as it is"
done
finish "the plugin guide shows code that is built" "$count"
