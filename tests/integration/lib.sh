# Shared by the integration scripts: each runs the program as a user would, in an empty folder.
set -euo pipefail
: "${KVANT_BIN:?KVANT_BIN must name the program}" "${KVANT_ROOT:?KVANT_ROOT must name the source tree}"

failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }

# expect CODE ARGUMENT...: runs the program; its output is then in $output, stdout alone in $out, stderr alone in $err
expect() {
  local code=$1 status=0
  shift
  command_line="kvant $*"
  "$KVANT_BIN" "$@" >stdout.txt 2>stderr.txt || status=$?
  out=$(<stdout.txt) err=$(<stderr.txt) output=$out$err
  if ((status != code)); then
    fail "$command_line: exit code $status, expected $code"
    printf '%s\n' "$output" | tail -n 20
  fi
}

# shows TEXT...: the last output holds each text
shows() {
  local text
  for text in "$@"; do
    [[ $output == *"$text"* ]] || { fail "$command_line: the output lacks '$text'"; printf '%s\n' "$output" | tail -n 20; }
  done
}

# shows_once TEXT: and not twice
shows_once() {
  local count
  count=$(grep -cF -- "$1" <<<"$output" || true)
  [[ $count == 1 ]] || { fail "$command_line: '$1' stands in $count lines, expected one"; printf '%s\n' "$output" | tail -n 20; }
}

# lines COUNT: stderr has so many lines
error_lines() {
  local count
  count=$(wc -l <stderr.txt)
  [[ $count == "$1" ]] || { fail "$command_line: $count lines of error, expected $1"; printf '%s\n' "$err"; }
}

finish() {
  if ((failures)); then printf '%d failure(s)\n' "$failures"; exit 1; fi
  printf 'passed\n'
}
