#!/usr/bin/env bash
# kvant explain: every site with its types or the reason why it stays plain; JSON on stdout alone; a huge model costs nothing.
source "$(dirname "$0")/lib.sh"
config=$KVANT_ROOT/configs/quickstart.toml

expect 0 explain "$config"
shows "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0/gate" "quantize_router_proj is false" "attention" "Forward GEMM FLOPs: " "% int8"
[[ $output != *"no fp8 arithmetic"* ]] || fail "$command_line: int8 is said to be emulated"

expect 0 explain "$config" --set quant.quantization=fp8_full
shows "float8_e4m3fn" "float8_e5m2" "no fp8 arithmetic"

# JSON: nothing else on stdout; as many reasons as sites; never an empty one where nothing is quantized.
expect 0 explain "$config" --json
[[ $out == "{"* && $out == *"}" ]] || fail "$command_line: stdout is not the JSON alone"
sites=$(grep -c '"path":' <<<"$out")
for key in op layer rule weight act grad_input grad_weight reason; do
  [[ $(grep -c "\"$key\":" <<<"$out") == "$sites" ]] || fail "$command_line: not every one of $sites sites has '$key'"
done
((sites > 40)) || fail "$command_line: only $sites sites"
awk '/"weight": null/ {plain = 1} /"reason":/ { if (plain && /"reason": ""/) bad = 1; plain = 0 } END {exit bad}' <<<"$out" ||
  fail "$command_line: a plain site has no reason"

# The whole DeepSeek-V3: shapes and names only.
huge=$KVANT_ROOT/configs/models/deepseek3-671b.toml
expect 0 explain "$huge" --set quant.quantization=int8_full
shows "% int8" "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0"
if [[ ${ASAN_OPTIONS:-} == "" ]]; then  # a sanitizer's own memory is not ours
  (ulimit -v $((1024 * 1024)); exec "$KVANT_BIN" explain "$huge" >/dev/null 2>&1) || fail "explain of deepseek3-671b does not fit 1 GiB of address space"
fi

expect 2 explain "$config" --set quant.quantization=int8 --set quant.quantize_mtp=true
shows "quantize_mtp = true would be ignored" "int8_full"
expect 2 explain "$config" --set quant.quantization=int8_full --set 'quant.act_quantization_calibration_method="absmx"'
shows "absmax"
expect 2 explain "$config" --set 'quant.quantization=fp8_full' --set 'quant.act_quantization_calibration_method="fixed,1,2"'
shows "must contain 0" "fixed,lo,hi"
finish
