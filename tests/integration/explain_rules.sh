#!/usr/bin/env bash
# Rules from a file: the table, the log's form, and refusals with file, line and column.
source "$(dirname "$0")/lib.sh"
quick=$KVANT_ROOT/configs/quickstart.toml

cat >rules.toml <<END
extends = "$quick"
[[quant.rules]]
module_path = ".*/self_attention/.*"
[[quant.rules]]
module_path = "decoder/.*"
op_names = ["gmm"]
weight_qtype = "float8_e4m3fn"
act_qtype = "float8_e4m3fn"
bwd_qtype = "float8_e5m2"
END
expect 0 explain rules.toml
shows "(rules.toml:2:" "(rules.toml:4:" "float8_e4m3fn with gradients in float8_e5m2" "Settings that mattered:" "quantize_mtp = true"
expect 0 explain rules.toml --log
[[ $out == "module='decoder/"* ]] || fail "$command_line: stdout is not the lines alone"
grep -qx "module='decoder/moe_layers_0/DeepSeekMoeBlock_0/MoeBlock_0' op=gmm rule=2" stdout.txt || fail "$command_line: the experts' line is missing"
grep -qx "module='decoder/moe_layers_0/DeepSeekMoeBlock_0/MoeBlock_0/gate' op=dot_general0 rule=0" stdout.txt || fail "$command_line: the router's line is missing"
if grep -qvE "^module='[^']*' op=[a-z_]+[0-9]* rule=([0-9]+|None)$" stdout.txt; then fail "$command_line: a line has another form"; fi
expect 2 explain rules.toml --log --json

# Schemes and values by name, those that no product is computed for yet among them: shown, never run as something else.
for scheme in int4 fp4 fp8 fp8_e4m3 fp8_e5m2 fp8_gpu fp8_nanoo mxfp8 mxfp4 nvfp4_train; do
  flags=(--set quant.quantize_mtp=false --set quant.quantize_logits_proj=false --set quant.bwd_stochastic_rounding= --set model.qk_rope_head_dim=32)
  expect 0 explain "$quick" --set "quant.quantization=$scheme" "${flags[@]}"
  shows "scheme $scheme"
done
for value in int8 int8w int4w fp8 nanoo_fp8; do
  expect 0 explain "$quick" --set "quant.quantization=$value" --set quant.use_qwix_quantization=false "${flags[@]}"
  shows "older path, $value"
done
expect 2 explain "$quick" --set quant.quantization=te_mxfp8
shows "recipe of another library, which is not offered; mxfp8 comes nearest"
expect 2 explain "$quick" --set quant.quantization=intmp --set quant.use_qwix_quantization=false "${flags[@]}"
shows "needs quant_cfg_path"
expect 2 explain "$quick" --set quant.quantization=fp8_full --set quant.use_qwix_quantization=false
shows 'quantization = "fp8_full" needs true'

sed 's/float8_e5m2/float8_e5m3/' rules.toml >bad.toml
expect 2 explain bad.toml
shows_once 'bad.toml:9:13: bwd_qtype = "float8_e5m3" is no known type ("float8_e5m2"?)'
sed 's/self_attention/self_attentoin/' rules.toml >bad.toml
expect 2 explain bad.toml
shows "matches no site of this model"
sed 's/"decoder\/\.\*"/"decoder\/("/' rules.toml >bad.toml
expect 2 explain bad.toml
shows_once 'bad.toml:5:15: module_path "decoder/(" is no valid regular expression: missing closing parenthesis (at character 10)'
finish
