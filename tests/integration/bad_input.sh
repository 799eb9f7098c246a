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
shows_once "--set data.dataset_name=gciide: dataset_name is \"gciide\", which is no text known here"

# Settings that contradict one another are told with the place of the one named first.
printf 'extends = "%s"\n[model]\nnum_experts = 8\nnum_experts_per_tok = 9\n' "$quick" >crowded.toml
expect 2 train crowded.toml
shows_once "crowded.toml:4:23: [model] num_experts_per_tok = 9 is more than num_experts = 8"
printf 'no model' >tokenizer.model
expect 2 train "$quick" "${text[@]}" --set data.dataset_path=short.txt --set data.tokenizer_type=sentencepiece --set data.tokenizer_path=tokenizer.model
shows_once "is no SentencePiece model"

# Sizes beyond what integers or memory hold: alone, together, and in a model whose weights no disk holds.
expect 2 train "$quick" --set model.vocab_size=9000000000000000000 --set data.global_batch_size=9223372036854775807
shows_once "vocab_size in section [model] must be at least 2 and at most 268435456 (tokens); found 9000000000000000000"
shows_once "global_batch_size in section [data] must be"
expect 2 explain "$quick" --set model.base_emb_dim=16777216 --set model.num_experts=16777216
shows_once "parameters; at most 1e+15 are accepted"
expect 2 train "$quick" "${text[@]}" --set data.dataset_type=synthetic --set model.max_target_length=268435456 --set data.global_batch_size=64
shows_once "rows; at most 2147483647 are accepted"
expect 2 train "$quick" "${text[@]}" --set data.dataset_type=synthetic --set model.base_emb_dim=1048576 --set model.base_mlp_dim=1048576
shows_once "There is no disk space for the run folder 'runs'"

# A scheme that nobody offers: what was found is listed.
expect 2 train "$quick" --set quant.quantization=int9_full
shows_once "There is no scheme 'int9_full'"
shows "Plugins found: " "int8_full"

[[ ! -e runs ]] || fail "refused input made a run folder"

# Threads.
for threads in 0 abc -3 513 100000; do
  OMP_NUM_THREADS=$threads expect 2 explain "$quick"
  shows_once "OMP_NUM_THREADS is \"$threads\"; a number of threads from 1 to 512 is expected."
done

# Without a home (cron jobs, some containers) all is as ever.
for command in "env -u HOME" "env HOME="; do
  $command "$KVANT_BIN" explain "$quick" --json >stdout.txt 2>stderr.txt || fail "$command: explain ended with $?: $(tail -n 3 stderr.txt)"
done

# A mask of the optimizer that matches nothing is refused before a folder is made.
expect 2 train "$quick" --set 'optimizer.adamw_mask=["no_such_parameter"]' --run-dir masked
[[ ! -e masked ]] || fail "a refused mask made a run folder"

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

# Memory that is not to be had: before the run begins nothing is left of it; once it has begun, its log ends with the sentence.
if [[ -z ${ASAN_OPTIONS:-} ]]; then  # AddressSanitizer takes more addresses than there are bytes
  random=(--set data.dataset_type=synthetic --set data.dataset_name= --set quant.quantization= --set run.steps=1 --set metrics.eval_steps=0)
  ulimit -Sv 3000000
  for folder in "" given; do
    OMP_NUM_THREADS=2 expect 1 train "$quick" "${random[@]}" --set model.base_emb_dim=2048 --set model.base_moe_mlp_dim=4096 ${folder:+--run-dir "$folder"}
    shows_once 'Out of memory: the arena "parameters" holds 0 MiB'
  done
  [[ ! -e runs && ! -e given ]] || fail "a run without memory left its folder behind"
  OMP_NUM_THREADS=2 expect 1 train "$quick" "${random[@]}" --set data.global_batch_size=2048 --run-dir crowded
  shows_once 'Out of memory: the arena "step" holds'
  [[ $(tail -n 1 crowded/run.log) == *' error: Out of memory: the arena "step" holds'* ]] || fail "the log of the run does not end with its error: $(tail -n 1 crowded/run.log)"
  ulimit -Sv unlimited
fi

# Losses that are not numbers stop the run with the step's number.
for i in $(seq 1 400); do printf 'Entry %d. The quick brown fox jumps over the lazy dog, %d times in all.\n\n' "$i" "$((i * i))"; done >text.txt
expect 3 train "$quick" "${text[@]}" "${small[@]}" --set data.dataset_path=text.txt --set run.steps=20 --set optimizer.learning_rate=1e15 \
  --set optimizer.gradient_clipping_threshold=0 --set optimizer.warmup_steps_fraction=0 --run-dir diverged
[[ $err =~ [Ss]tep\ [0-9]+ ]] || fail "the step is not named: $err"
[[ $(tail -n 1 diverged/run.log) == *" error: ${err##*kvant: }" ]] || fail "the log of the run does not end with its error: $(tail -n 1 diverged/run.log)"
[[ -s diverged/metrics.jsonl ]] || fail "the metrics of the steps before are gone"

# So does an update that leaves no numbers, in the last step too, and an evaluation of weights that are none.
expect 3 train "$quick" "${text[@]}" "${small[@]}" --set data.dataset_path=text.txt --set run.steps=1 --set optimizer.learning_rate=1e39 \
  --set optimizer.warmup_steps_fraction=0 --run-dir overflowed
shows_once "Step 0: the update with learning rate 1e+39 has left parameters that are not finite, or whose squares are not. First: the parameter "
expect 3 train "$quick" "${text[@]}" "${small[@]}" --set data.dataset_path=text.txt --set run.steps=1 --set optimizer.learning_rate=1e30 \
  --set optimizer.warmup_steps_fraction=0 --run-dir enormous
shows "whose largest magnitude is" "squares of such numbers overflow float32"
[[ ! -e overflowed/parameters.safetensors ]] || fail "weights that are not finite were saved"

# A folder of text: what is no file is left out with a warning. A configuration on a pipe.
mkdir -p texts/other && cp text.txt texts/a.txt && ln -s nowhere texts/dangling && ln -s other texts/link
expect 0 data "$quick" "${text[@]}" --set data.dataset_path=texts
shows "2 entries of the text folder '" "/texts' are left out, being no file"
status=0
"$KVANT_BIN" explain /dev/stdin <"$quick" >/dev/null 2>stderr.txt || status=$?
cat "$quick" | "$KVANT_BIN" explain /dev/stdin >/dev/null 2>stderr.txt || status=$?
[[ $status == 0 ]] || fail "explain /dev/stdin: $(<stderr.txt)"

# Settings whose meaning plugins know are told with their place, too.
expect 2 explain "$quick" --set 'optimizer.adamw_mask=["("]'
shows '[optimizer] adamw_mask: "(" is not a regular expression'
expect 2 explain "$quick" --set quant.weight_quantization_calibration_method=absmax,0
shows_once "--set quant.weight_quantization_calibration_method=absmax,0: [quant] weight_quantization_calibration_method: The calibration \"absmax,0\""

# Weights of another shape, and files that hold no weights.
expect 0 train "$quick" "${text[@]}" "${small[@]}" --set data.dataset_path=text.txt --set run.steps=1 --set model.q_lora_rank=32 --run-dir narrow
expect 2 eval "$quick" "${text[@]}" "${small[@]}" --set data.dataset_path=text.txt --params narrow/parameters.safetensors
shows_once "has the shape [64, 32], the model needs [64, 128]"
sed 's/kvant-parameters/kvant-paramEters/' narrow/parameters.safetensors >strange.safetensors
expect 2 eval "$quick" "${text[@]}" "${small[@]}" --set data.dataset_path=text.txt --params strange.safetensors
shows_once 'has the format "kvant-paramEters/1"; weights are read from files whose metadata names the format'

# Output that goes nowhere: a sentence on stderr, and a run that has kept everything in its files.
status=0
"$KVANT_BIN" explain "$quick" --json >/dev/full 2>stderr.txt || status=$?
[[ $status == 1 && $(<stderr.txt) == *"standard output could not be written: No space left on device"* ]] || fail "explain >/dev/full: exit code $status, $(<stderr.txt)"
status=0
"$KVANT_BIN" train "$quick" "${text[@]}" "${small[@]}" --set data.dataset_path=text.txt --set run.steps=3 --set metrics.log_period=1 --run-dir silent >/dev/full 2>stderr.txt || status=$?
[[ $status == 1 && $(<stderr.txt) == *"standard output could not be written"* ]] || fail "train >/dev/full: exit code $status, $(<stderr.txt)"
[[ -s silent/parameters.safetensors && $(wc -l <silent/metrics.jsonl) == 4 ]] || fail "a run without a console lost its files"

finish
