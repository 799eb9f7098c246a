#!/usr/bin/env bash
# On a processor below the baseline the program says so in a sentence. Needs qemu-x86_64 to have such a processor.
source "$(dirname "$0")/lib.sh"

if ! command -v qemu-x86_64 >/dev/null || [[ $(uname -m) != x86_64 ]]; then
  echo "skipped: there is no qemu-x86_64 here (Debian package qemu-user) to stand for an old processor"
  exit 77
fi
status=0
qemu-x86_64 -cpu Nehalem "$KVANT_BIN" --version >stdout.txt 2>stderr.txt || status=$?
[[ $status == 2 ]] || fail "exit code $status, expected 2"
grep -q '^kvant: this processor lacks instructions of x86-64-v[34], which this program is built for' stderr.txt || fail "$(<stderr.txt)"
[[ ! -s stdout.txt ]] || fail "the program went on: $(<stdout.txt)"
finish
