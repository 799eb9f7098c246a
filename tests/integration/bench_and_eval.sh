#!/usr/bin/env bash
# What a run leaves can be evaluated to the same loss; a step can be served to another program; bad files are named.
source "$(dirname "$0")/lib.sh"

quick=$KVANT_ROOT/configs/quickstart.toml
printf 'The quick brown fox jumps over the lazy dog.\n\n%.0s' {1..400} >text.txt
small=(--set data.dataset_name= --set data.dataset_path=text.txt --set data.document_separator=blank_line --set model.base_emb_dim=64
  --set model.base_num_decoder_layers=2 --set model.max_target_length=64 --set model.base_mlp_dim=128 --set model.base_moe_mlp_dim=32
  --set data.eval_fraction=0.1)

# Weights of a run, evaluated: the loss of the run's last evaluation, to the last bit.
expect 0 train "$quick" "${small[@]}" --set run.steps=3 --run-dir run
trained=$(grep -o '"eval/avg_loss": *[0-9.e+-]*' run/metrics.jsonl | tail -n 1 | grep -oE '[0-9.e+-]+$')
expect 0 eval "$quick" "${small[@]}" --set run.steps=3 --params run/parameters.safetensors
shows "eval/avg_loss"
evaluated=$(awk '$1 == "eval/avg_loss" {print $2}' <<<"$out")
awk -v a="$trained" -v b="$evaluated" 'BEGIN {exit !(a != "" && b != "" && a - b < 1e-6 && b - a < 1e-6)}' ||
  fail "the run evaluated to '$trained', its weights to '$evaluated'"

# Weights of another model, damaged weights, no weights.
expect 2 eval "$quick" "${small[@]}" --set model.base_mlp_dim=96 --params run/parameters.safetensors
shows_once "decoder/dense_layers_0/mlp/wi_0/kernel has"
head -c 1000 run/parameters.safetensors >cut.safetensors
expect 1 eval "$quick" "${small[@]}" --params cut.safetensors
shows "cut.safetensors"
expect 1 eval "$quick" "${small[@]}" --params absent.safetensors
shows "absent.safetensors"

# The protocol that alternates steps between programs.
"$KVANT_BIN" bench step "$quick" "${small[@]}" --serve --warmup 1 >answers.txt 2>serve.err < <(printf 'run 2\nquit\n') || fail "bench step --serve ended with $?"
head -n 1 answers.txt | grep -q '"ready":true' || fail "bench step --serve is not ready: $(head -n 1 answers.txt)"
sed -n 2p answers.txt | grep -qE '"seconds":\[[0-9.e-]+,[0-9.e-]+\]' || fail "bench step --serve does not answer with two times: $(sed -n 2p answers.txt)"
status=0
"$KVANT_BIN" bench step "$quick" "${small[@]}" --serve --warmup 1 >/dev/null 2>serve.err < <(printf 'walk 2\n') || status=$?
[[ $status == 2 ]] && grep -q 'it was told "walk 2"' serve.err || fail "an unknown word of the protocol: exit code $status, $(tail -n 1 serve.err)"

# Initial parameters.
printf 'no archive' >wrong.npz
expect 2 bench step "$quick" "${small[@]}" --load-init wrong.npz
shows_once "wrong.npz is not an .npz archive"
expect 2 bench step "$quick" "${small[@]}" --load-init absent.npz
shows_once "absent.npz cannot be read"

# Recorded values: exit code 1 where one does not hold.
data=$KVANT_ROOT/tests/reference/data
expect 0 verify "$data/ds3_tiny.none.safetensors" "$data/ds3_tiny.packed.safetensors"
shows "0 beyond their limit, 0 not compared"
mkdir changed
cp "$data/ds3_tiny.params.safetensors" changed/
cp "$data/ds3_tiny.none.safetensors" changed/
printf '\x7f' | dd of=changed/ds3_tiny.none.safetensors bs=1 seek=$(($(stat -c %s changed/ds3_tiny.none.safetensors) - 200001)) conv=notrunc status=none
expect 1 verify changed/ds3_tiny.none.safetensors
shows "DOES NOT HOLD"

# Ranges from earlier steps are in no file of weights: not evaluated as if they were.
delayed=(--set quant.quantization=fp8_gpu --set quant.quantize_mtp=false --set quant.quantize_logits_proj=false --set quant.bwd_stochastic_rounding=)
expect 2 eval "$quick" "${small[@]}" "${delayed[@]}" --params run/parameters.safetensors
shows "takes its ranges from earlier steps, and a file of weights has none of them"

finish
