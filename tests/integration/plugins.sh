#!/usr/bin/env bash
# Plugins as a user meets them: what is listed, what is missing, what is refused, and how a run ends that has loaded one.
source "$(dirname "$0")/lib.sh"
: "${KVANT_BUILD:?KVANT_BUILD must name the build tree}"
bad=$KVANT_BUILD/tests/plugins
config=$KVANT_ROOT/configs/quickstart.toml
small=(--set data.dataset_type=synthetic --set 'data.dataset_name=""' --set run.steps=2 --set metrics.eval_interval=-1 --set metrics.eval_steps=0)

nothing_written() { [[ ! -e run && ! -e runs ]] || { fail "$command_line: a run folder was made"; rm -rf run runs; }; }

expect 0 plugins
shows "scheme int8_full" "scheme fp8_full" "calibrator absmax" "fingerprint" "that of this program" "$KVANT_BUILD/plugins"
KVANT_PLUGIN_PATH=$bad/no_record:$bad/own_kokkos:/no/such/folder expect 0 plugins
shows "libkvant_no_record.so is not a plugin of Kvant" "contains a Kokkos of its own" "/no/such/folder  (no such folder)"
expect 1 plugins "$bad/hidden/libkvant_hidden.so"
expect 0 plugins --json
[[ $out == "{"* && $out == *'"name": "int8_full"'* && $out == *'"refused": null'* ]] || fail "plugins --json prints '$out'"

# A scheme that is not there: what is found, what was probably meant, where was looked.
expect 2 train "$config" --run-dir run --set quant.quantization=int8_ful
shows "--set quant.quantization=int8_ful: [quant] quantization: There is no scheme 'int8_ful' (did you mean 'int8_full'?)" "fp8_full (scheme:fp8_full)" "Looked in: "
error_lines 1
nothing_written
expect 2 train "$config" --run-dir run --set 'run.plugins=["no_such_plugin"]'
shows "kvant: There is no plugin 'no_such_plugin'." "KVANT_PLUGIN_PATH names further folders."
nothing_written

# Plugins that are wrong: one sentence, nothing written.
for plugin in no_record missing_entry hidden own_kokkos undefined_symbol liar throwing_query throwing_register unannounced; do
  expect 2 train "$config" --run-dir run "${small[@]}" --set "run.plugins=[\"$bad/$plugin/libkvant_$plugin.so\"]"
  shows "libkvant_$plugin.so"
  error_lines 1
  nothing_written
done

# Schemes and calibrators that throw in one of their entries, or answer nonsense: a sentence that names plugin and file.
named="Plugin 'throwing_quant' ($bad/throwing_quant/libkvant_throwing_quant.so)"
export KVANT_PLUGIN_PATH=$bad/throwing_quant
for entry in "rules|giving the rules of the scheme 'test_rules': it threw something" "configure|taking the settings of the scheme 'test_configure': it threw 'the table is not sorted'" "codec|naming the codec of test_codec: it threw something"; do
  expect 2 explain "$config" --set "quant.quantization=test_${entry%%|*}"
  shows "$named failed while ${entry#*|}"
done
expect 2 train "$config" --run-dir run "${small[@]}" --set quant.quantization=test_quantize
shows "$named failed while quantizing: it threw something that is not a std::exception."
rm -rf run
method() { expect "$1" "${@:3}" "$config" --set "quant.weight_quantization_calibration_method=$2"; }
method 2 test_calibrate explain
shows "$named failed while calibrating: it threw something"
for factor in 0 -1; do
  method 2 "test_calibrate,$factor" explain
  shows "$named answered the calibration \"test_calibrate,$factor\" with the factor $factor; a finite number above 0 is expected."
done
method 2 test_calibrate,0,0 explain
shows "with the range [0, 0]; a finite one that holds 0 and is not empty is expected."
method 2 test_search train --run-dir run "${small[@]}"
shows "$named failed while searching a range: it threw something"
rm -rf run
unset KVANT_PLUGIN_PATH

# A plugin with a table in a static View: normal end, error after it was loaded, signal.
view=(--set "run.plugins=[\"$bad/static_view/libkvant_static_view.so\"]")
expect 0 train "$config" --run-dir run "${small[@]}" "${view[@]}"
[[ $output != *"Kokkos allocation"* ]] || fail "$command_line: $output"
expect 2 train "$config" --run-dir run "${small[@]}" "${view[@]}"  # the folder has a run
[[ $output != *"Kokkos allocation"* ]] || fail "$command_line: $output"
rm -rf run
"$KVANT_BIN" train "$config" --run-dir run "${small[@]}" "${view[@]}" --set run.steps=100000 >stdout.txt 2>stderr.txt &
pid=$!
for ((i = 0; i < 600; ++i)); do
  [[ ! -s run/metrics.jsonl ]] && kill -0 "$pid" 2>/dev/null || break
  sleep 0.1
done
kill -TERM "$pid" || fail "SIGTERM: the run had ended before it was sent"
status=0
wait "$pid" || status=$?
[[ $status == 130 ]] || { fail "SIGTERM: exit code $status, expected 130"; cat stderr.txt; }
! grep -q "Kokkos allocation" stderr.txt || { fail "SIGTERM: Kokkos complains"; cat stderr.txt; }

finish
