#!/usr/bin/env bash
# Bad input gets a sentence and an exit code, and nothing is written over.
source "$(dirname "$0")/lib.sh"

quick=$KVANT_ROOT/configs/quickstart.toml
text=(--set data.dataset_name= --set quant.quantization= --set run.steps=2)
small=(--set model.base_emb_dim=64 --set model.base_num_decoder_layers=2 --set model.max_target_length=64 --set model.base_mlp_dim=128
  --set model.base_moe_mlp_dim=32 --set data.eval_fraction=0.1)

# Text.
expect 2 train "$quick" "${text[@]}" --set data.dataset_path=no_such.txt
shows_once "no_such.txt' does not exist"
: >empty.txt
expect 2 train "$quick" "${text[@]}" --set data.dataset_path=empty.txt
shows_once "is empty: no document was found in it"
printf 'Too short.' >short.txt
expect 2 train "$quick" "${text[@]}" --set data.dataset_path=short.txt
shows_once "has 10 tokens, fewer than the 257"
expect 2 train "$quick" "${text[@]}" --set data.dataset_name=gciide
shows_once "There is no text named \"gciide\""
printf 'no model' >tokenizer.model
expect 2 train "$quick" "${text[@]}" --set data.dataset_path=short.txt --set data.tokenizer_type=sentencepiece --set data.tokenizer_path=tokenizer.model
shows_once "is no SentencePiece model"

# A scheme that nobody offers: what was found is listed.
expect 2 train "$quick" --set quant.quantization=int9_full
shows_once "There is no scheme 'int9_full'"
shows "Plugins found: " "int8_full"

[[ ! -e runs ]] || fail "refused input made a run folder"

# The run folder.
touch file
expect 2 train "$quick" --set run.steps=1 --run-dir file
shows_once "The run folder 'file' is a file"
mkdir -p full
if mount -t tmpfs -o size=64k tmpfs full 2>/dev/null; then
  expect 2 train "$quick" --set run.steps=1 --run-dir full/run
  shows_once "There is no disk space for the run folder"
  umount full
else
  echo "skipped: no small file system can be mounted here, so a full disk is tested by the unit test alone"
fi

# Losses that are not numbers stop the run with the step's number.
for i in $(seq 1 400); do printf 'Entry %d. The quick brown fox jumps over the lazy dog, %d times in all.\n\n' "$i" "$((i * i))"; done >text.txt
expect 3 train "$quick" "${text[@]}" "${small[@]}" --set data.dataset_path=text.txt --set run.steps=20 --set optimizer.learning_rate=1e30 \
  --set optimizer.gradient_clipping_threshold=0 --set optimizer.warmup_steps_fraction=0 --run-dir diverged
[[ $err =~ [Ss]tep\ [0-9]+ ]] || fail "the step is not named: $err"
[[ -s diverged/metrics.jsonl ]] || fail "the metrics of the steps before are gone"

finish
