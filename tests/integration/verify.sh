#!/usr/bin/env bash
# Recorded values of the reference from the command line: what holds, what does not, as text and as JSON, with true exit codes.
source "$(dirname "$0")/lib.sh"

recorded=$KVANT_ROOT/tests/reference/data

expect 0 verify "$recorded/qwix_convert.safetensors" "$recorded/qwix_mx_wheel_0_1_8.safetensors"
shows "holds: " "0 beyond their limit, 0 not compared"

# 4 cases: statistic, scale, codes, values; and the file.
expect 0 verify --json "$recorded/qwix_mx_wheel_0_1_8.safetensors"
[[ $(grep -c '"holds": true' stdout.txt) == 17 ]] || fail "$command_line: 16 tensors and the file hold, not $(grep -c '"holds": true' stdout.txt)"
[[ $(grep -c '"error": 0' stdout.txt) == 16 ]] || fail "$command_line: not every error is 0"
shows '"tensor": "mxfp8/absmax/c0t1x32/d_f32/q"' '"measure": "codes that differ"' '"limit": 0'

# One bit of one code.
file=$recorded/qwix_mx_wheel_0_1_8.safetensors
header=$(od -An -tu8 -N8 "$file" | tr -d ' ')
begin=$(head -c $((8 + header)) "$file" | tail -c +9 | grep -oE '"mxfp8/absmax/c0t1x32/d_f32/q": *\{[^}]*' | grep -oE '"data_offsets": *\[[0-9]+' | grep -oE '[0-9]+$')
at=$((8 + header + begin))
byte=$(od -An -tu1 -j "$at" -N1 "$file" | tr -d ' ')
{ head -c "$at" "$file"; printf "\\x$(printf %02x $((byte ^ 1)))"; tail -c +$((at + 2)) "$file"; } >changed.safetensors
expect 1 verify changed.safetensors
shows "FAIL mxfp8/absmax/c0t1x32/d_f32/q" "DOES NOT HOLD" "1 beyond their limit"
expect 1 verify --json changed.safetensors
shows '"holds": false'

# A gradient of another shape with as many elements.
cp "$recorded/ds3_tiny.params.safetensors" .
LC_ALL=C sed 's|\("grad/decoder/moe_layers_1/self_attention/wkv_a/kernel": *{[^}]*"shape": *\)\[64, *24\]|\1[24,64]|' "$recorded/ds3_tiny.none.safetensors" >turned.safetensors
if cmp -s turned.safetensors "$recorded/ds3_tiny.none.safetensors"; then fail "no shape was changed"; fi
[[ $(stat -c %s turned.safetensors) == $(stat -c %s "$recorded/ds3_tiny.none.safetensors") ]] || fail "the header's length changed with the shape"
expect 2 verify turned.safetensors
shows_once "wkv_a/kernel has the shape [24, 64], the parameter [64, 24]"

# Products, and single sites of MaxText, whose weights lie beside them.
expect 0 verify "$recorded/qwix_ragged_dot_qt.safetensors" "$recorded/qwix_qarray_matmul.safetensors" "$recorded/ds3_tiny.int8_sites.safetensors"
shows "286 values compared, 0 beyond" "213 values compared, 0 beyond" "6 values compared, 0 beyond" "of sum |a||b|"
expect 0 verify --verbose "$recorded/ds3_tiny.fp8_full_sites.safetensors"
shows "decoder/dense_layers_0/self_attention/wq_b/d_kernel"

# Recorded training: other weights after another learning rate, and gaps that would let anything hold.
expect 0 verify "$recorded/ds3_tiny.trajectory.safetensors"
shows "none/loss of 60 steps" "int8/loss of 60 steps" "fp8_full/loss of 60 steps" "none/learning rate" "16 values compared, 0 beyond"
LC_ALL=C sed 's|learning_rate\\": 0.003|learning_rate\\": 0.004|' "$recorded/ds3_tiny.trajectory.safetensors" >faster.safetensors
cmp -s faster.safetensors "$recorded/ds3_tiny.trajectory.safetensors" && fail "no learning rate was changed"
expect 1 verify faster.safetensors
shows "FAIL none/loss of 60 steps" "FAIL none/learning rate" "FAIL none/final/decoder/decoder_norm/scale" "DOES NOT HOLD"
LC_ALL=C sed 's|\("jitter_gap.int8": *"\[\)0.0|\19.0|' "$recorded/ds3_tiny.trajectory.safetensors" >loose.safetensors
cmp -s loose.safetensors "$recorded/ds3_tiny.trajectory.safetensors" && fail "no gap was changed"
expect 1 verify loose.safetensors
shows_once "the jitter gaps of int8 are not those of its metrics"

# What has no counterpart here is named and does not count.
expect 0 verify "$recorded/qwix_dot_general_qt.safetensors"
shows "1425 values compared, 0 beyond" "not offered: sparsity/2of4/int8: N:M sparsity" "not offered: sparsity/1of4/fp8_full: N:M sparsity" "0 not compared, 4 not offered"
expect 0 verify --json "$recorded/qwix_dot_general_qt.safetensors"
shows '"sparsity/2of4/int8: N:M sparsity"' '"tensor": "rejected/nf4_with_quantized_backward"'

# Tables of rules; one wrong entry.
expect 0 verify "$recorded/qwix_rules.json"
shows "105 values compared, 0 beyond"
sed 's/"matched": \[null, null, 0,/"matched": [null, 0, 0,/' "$recorded/qwix_rules.json" >changed.json
cmp -s changed.json "$recorded/qwix_rules.json" && fail "no entry of the table of rules was changed"
expect 1 verify changed.json
shows "FAIL maxtext_int8/matched" "calls that differ" "DOES NOT HOLD"
echo '{"format": "kvant-golden/1", "kind": "recipes"}' >other.json
expect 2 verify other.json
shows_once 'kind "recipes" is not verified by this version'

expect 2 verify "$recorded/ds3_tiny.params.safetensors"
shows_once 'kind "params" is not verified by this version'
expect 1 verify missing.json
shows_once "missing.json cannot be read"

finish
