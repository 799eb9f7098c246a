#!/usr/bin/env bash
# Exit codes are true and nothing is printed beyond the error itself, whatever a plugin keeps in static objects (D35), and one
# rank is all that there is.  exit_codes.sh FOLDER (of the built plugins) MPIEXEC
set -u
plugins=$1 mpiexec=$2
export OMP_PROC_BIND=false OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failures=0

# expect CODE TEXT COMMAND...: the exit code, and what all of stderr but the log's lines must be
expect() {
  local code=$1 text=$2 errors status
  shift 2
  errors=$("$@" 2>&1 >/dev/null </dev/null)
  status=$?
  errors=$(grep -vE '^[0-9]{2}:[0-9]{2}:[0-9]{2} info: ' <<<"$errors")
  if [[ $status != "$code" || $errors != $text ]]; then
    printf '%s\n  exit code %s (expected %s), stderr: %s (expected: %s)\n' "$*" "$status" "$code" "$errors" "$text"
    failures=$((failures + 1))
  fi
}

host=$plugins/kvant_test_plugin_host
for plugin in good:test_mortal static_view:test_static_view; do
  name=${plugin%%:*} object=${plugin#*:} file=$plugins/${plugin%%:*}/libkvant_${plugin%%:*}.so
  expect 0 '' "$host" "$file" "$object" normal
  expect 1 'An error after the plugin was loaded.' "$host" "$file" "$object" error
  expect 130 '' "$host" "$file" "$object" signal
  expect 0 '' "$host" "$file" "$object" forgotten
  expect 7 '' "$host" "$file" "$object" exit
done
expect 2 "Plugin 'throwing_register' (*) failed while registering*" "$host" "$plugins/throwing_register/libkvant_throwing_register.so" x normal
expect 2 "The plugin file */libkvant_no_record.so is not a plugin of Kvant*" "$host" "$plugins/no_record/libkvant_no_record.so" x normal
expect 2 "Plugin 'own_kokkos' (*) contains a Kokkos of its own*" "$host" "$plugins/own_kokkos/libkvant_own_kokkos.so" x normal

# Under the launcher, memory that MPI leaves behind is not looked at (sanitizer build); the two ranks' lines may interleave.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
good=("$host" "$plugins/good/libkvant_good.so" test_good normal)
expect 0 '' "$mpiexec" -n 1 "${good[@]}"
expect 2 '*The MPI launcher started 2 ranks*' "$mpiexec" --oversubscribe -n 2 "${good[@]}"

if ((failures)); then exit 1; fi
echo "all exit codes are as they should be"
