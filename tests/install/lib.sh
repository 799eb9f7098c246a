# Shared by the install tests.
set -euo pipefail
: "${KVANT_ROOT:?KVANT_ROOT must name the source tree}" "${KVANT_BUILD:?KVANT_BUILD must name the build tree}"

failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }

# run CODE COMMAND...: runs a command; its output is then in $output, and stdout alone in $out
run() {
  local code=$1 status=0
  shift
  "$@" >stdout.txt 2>stderr.txt </dev/null || status=$?
  out=$(<stdout.txt) output=$out$(<stderr.txt)
  if ((status != code)); then
    fail "$*: exit code $status, expected $code"
    printf '%s\n' "$output" | tail -n 30
  fi
}

shows() {  # TEXT...
  local text
  for text in "$@"; do
    [[ $output == *"$text"* ]] || { fail "the output lacks '$text'"; printf '%s\n' "$output" | tail -n 30; }
  done
}

finish() {
  if ((failures)); then printf '%d failure(s)\n' "$failures"; exit 1; fi
  printf 'passed\n'
}
