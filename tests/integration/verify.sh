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

expect 2 verify "$recorded/qwix_ragged_dot_qt.safetensors"
shows_once 'kind "ragged_dot_qt" is not verified by this version'

finish
