#!/usr/bin/env bash
# Whole runs of a small model: the run folder, the metrics, the same numbers from the resolved configuration, signals.
source "$(dirname "$0")/lib.sh"

for i in $(seq 1 400); do printf 'Entry %d. The quick brown fox jumps over the lazy dog, %d times in all.\n\n' "$i" "$((i * i))"; done >text.txt
small=("$KVANT_ROOT/configs/quickstart.toml" --set quant.quantization= --set data.dataset_name= --set data.dataset_path=text.txt
  --set data.eval_fraction=0.1 --set model.base_emb_dim=64 --set model.base_num_decoder_layers=2 --set model.max_target_length=64
  --set model.base_mlp_dim=128 --set model.base_moe_mlp_dim=32 --set model.q_lora_rank=32 --set model.kv_lora_rank=16
  --set metrics.eval_steps=2 --set metrics.log_period=1)
losses() { grep -o '"learning/loss":[^,}]*' "$1/metrics.jsonl"; }

# Numbered folders; the end of the output says what came of it and where it lies.
expect 0 train "${small[@]}" --set run.steps=4
shows "validation loss" "tokens/s" "runs/0001/metrics.jsonl" "runs/0001/config.toml"
[[ $output != *$'\r'* && $output != *$'\e'* ]] || fail "control characters were written although there is no terminal"
for file in config.toml metrics.jsonl metrics.csv; do [[ -s runs/0001/$file ]] || fail "runs/0001/$file is missing or empty"; done
[[ $(losses runs/0001 | wc -l) == 4 ]] || fail "runs/0001 holds $(losses runs/0001 | wc -l) training losses, expected 4"
expect 0 train "${small[@]}" --set run.steps=4
[[ -d runs/0002 && ! -e runs/0003 ]] || fail "the second run is not runs/0002"
[[ $(losses runs/0001) == "$(losses runs/0002)" ]] || fail "the same configuration gave other losses"

# The resolved configuration is the same run.
expect 0 train runs/0001/config.toml --run-dir again
[[ $(losses runs/0001) == "$(losses again)" ]] || fail "the resolved configuration gave other losses"
[[ $(grep -v '^#' runs/0001/config.toml | sed 's/  # .*//') == "$(grep -v '^#' again/config.toml | sed 's/  # .*//')" ]] || fail "a resolved configuration does not resolve to itself"

# Another seed, another run.
expect 0 train "${small[@]}" --set run.steps=4 --set run.seed=2 --run-dir other_seed
[[ $(losses runs/0001) != "$(losses other_seed)" ]] || fail "the seed changed nothing"

# A folder that holds a run is refused and left alone; one with other files is taken.
sums=$(sha256sum again/*)
expect 2 train "${small[@]}" --set run.steps=4 --run-dir again
shows_once "The run folder 'again' holds a run already"
[[ $sums == "$(sha256sum again/*)" ]] || fail "a refused run wrote into the folder"
mkdir -p taken && touch taken/slurm.out
expect 0 train "${small[@]}" --set run.steps=1 --run-dir taken
[[ -s taken/metrics.jsonl ]] || fail "a folder without a run was not used"

# SIGTERM, SIGINT and SIGHUP: a clean end with whole metrics and exit code 130.
for signal in TERM INT HUP; do
  "$KVANT_BIN" train "${small[@]}" --set run.steps=1000000 --run-dir "stopped_$signal" >"$signal.out" 2>&1 &
  process=$!
  for ((i = 0; i < 600; ++i)); do
    [[ ! -e stopped_$signal/metrics.jsonl || $(wc -l <"stopped_$signal/metrics.jsonl") -lt 2 ]] || break
    sleep 0.1
  done
  kill "-$signal" "$process"
  status=0
  wait "$process" || status=$?
  [[ $status == 130 ]] || { fail "SIG$signal: exit code $status, expected 130"; tail -n 5 "$signal.out"; }
  [[ $(tail -c 1 "stopped_$signal/metrics.jsonl") == "" && $(tail -n 1 "stopped_$signal/metrics.jsonl") == \{*\} ]] || fail "SIG$signal left a torn row"
done

# A signal in an evaluation ends it; the weights are saved.
"$KVANT_BIN" train "${small[@]}" --set run.steps=3 --set metrics.eval_interval=1 --set metrics.eval_steps=-1 --set data.eval_fraction=0.5 \
  --set data.dataset_path="$(printf '[%s"text.txt"]' "$(printf '"text.txt",%.0s' $(seq 200))")" --run-dir long_evaluation >evaluation.out 2>&1 &
process=$!
for ((i = 0; i < 600; ++i)); do
  [[ ! -e long_evaluation/metrics.jsonl || $(wc -l <long_evaluation/metrics.jsonl) -lt 1 ]] || break
  sleep 0.1
done
kill -TERM "$process"
begin=$SECONDS status=0
wait "$process" || status=$?
[[ $status == 130 && -s long_evaluation/parameters.safetensors ]] || { fail "SIGTERM in an evaluation: exit code $status"; tail -n 5 evaluation.out; }
((SECONDS - begin <= 5)) || fail "SIGTERM in an evaluation was answered after $((SECONDS - begin)) s"

# Steps without a valid target (documents of one byte) have their rows, change nothing, and put off no evaluation.
mkdir bytes
for i in $(seq 1 40); do printf x >"bytes/$i.txt"; done
for i in $(seq 1 8); do head -c 200 text.txt >"bytes/long_$i.txt"; done
expect 0 train "${small[@]}" --set run.steps=8 --set data.dataset_path=bytes --set data.document_separator=file --set data.packing_type=concat_then_split \
  --set data.max_segments_per_seq=1 --set data.global_batch_size=1 --set data.eval_fraction=0.4 --set metrics.eval_interval=2 --set metrics.eval_steps=-1 --run-dir sparse
shows "has no valid target: nothing was changed"
[[ $(losses sparse | wc -l) == 8 ]] || fail "of 8 steps, some without a target, $(losses sparse | wc -l) have a row"
grep -q '"learning/loss":null' sparse/metrics.jsonl || fail "a step without a target has a loss"
[[ $(grep -c '"eval/avg_loss"' sparse/metrics.jsonl) == 4 ]] || fail "evaluations were left out: $(grep -c eval/avg_loss sparse/metrics.jsonl) of 4"

# What quantization does to every operand, on request: 3 of 5 steps have the columns, and the rest of the row is what it is without.
expect 0 train "${small[@]}" --set run.steps=5 --set metrics.log_period=2 --set metrics.quantization_stats=true --set quant.quantization=int8_full --run-dir watched
expect 0 train "${small[@]}" --set run.steps=5 --set metrics.log_period=2 --set quant.quantization=int8_full --run-dir unwatched
[[ $(grep -c '"quant/decoder/dense_layers_0/mlp/wo/dot_general0/grad_weight/zeroed":' watched/metrics.jsonl) == 3 ]] || fail "quantization_stats: not 3 rows"
[[ $(losses watched) == "$(losses unwatched)" ]] || fail "looking at operands changed the losses"
expect 0 train "${small[@]}" --set run.steps=8 --set data.dataset_path=bytes --set data.document_separator=file --set data.packing_type=concat_then_split \
  --set data.max_segments_per_seq=1 --set data.global_batch_size=1 --set data.eval_fraction=0.4 --set metrics.eval_steps=0 --set metrics.quantization_stats=true \
  --set quant.quantization=int8_full --run-dir sparse_watched

# Rules: noise by sequence as the reference has it, and a transform of the forward products; neither depends on evaluations in between.
rules=(--set quant.quantization=rules --set quant.bwd_stochastic_rounding= --set quant.quantize_mtp=false --set quant.quantize_logits_proj=false)
types='weight_qtype="int8",act_qtype="int8",bwd_qtype="int8"'
for evaluations in -1 1; do
  expect 0 train "${small[@]}" "${rules[@]}" --set run.steps=3 --set metrics.eval_interval=$evaluations --set quant.qwix_compat=ieee --run-dir "shared_noise_$evaluations" \
    --set "quant.rules=[{op_names=\"dot_general\",$types,bwd_stochastic_rounding=\"uniform\"},{op_names=\"gmm\",$types}]"
  expect 0 train "${small[@]}" "${rules[@]}" --set run.steps=3 --set metrics.eval_interval=$evaluations --run-dir "transformed_$evaluations" \
    --set "quant.rules=[{$types,forward_transform=\"hadamard16\"}]"
done
for run in shared_noise transformed; do
  [[ $(losses "${run}_-1" | wc -l) == 3 && $(losses "${run}_-1") == "$(losses "${run}_1")" ]] || fail "$run: other losses with evaluations in between"
done

# A run folder whose run.log or sites.txt is somebody's is left alone.
mkdir -p somebody && echo precious >somebody/run.log
expect 2 train "${small[@]}" --set run.steps=1 --run-dir somebody
shows_once "holds a run already (run.log)"
[[ $(<somebody/run.log) == precious && $(ls somebody) == run.log ]] || fail "a refused run wrote into somebody's folder"

finish
