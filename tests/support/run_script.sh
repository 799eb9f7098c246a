#!/usr/bin/env bash
# Runs one test script in an empty folder of its own: run_script.sh SCRIPT FOLDER
set -euo pipefail
rm -rf "$2"
mkdir -p "$2"
cd "$2"
exec bash "$1" </dev/null
