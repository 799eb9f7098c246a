#!/usr/bin/env bash
# Bad configurations stop `kvant train` with all their problems in one go, before anything is made (D01).
source "$(dirname "$0")/lib.sh"
quick=$KVANT_ROOT/configs/quickstart.toml

# D01: four bad keys, four lines, once.
{
  echo 'learning_rate = 3e-4'
  cat "$quick"
  printf '[train]\nnum-steps = 10\ngradient_clipp1ng = 1\n'
} | sed 's/^\[optimizer\]$/[optimizer]\nlearning_rte = 3e-4/' >d01.toml
rte=$(grep -n '^learning_rte' d01.toml | cut -d: -f1)
steps=$(grep -n '^num-steps' d01.toml | cut -d: -f1)
expect 2 train d01.toml
error_lines 5
shows_once "4 problems in the configuration d01.toml:"
shows_once "d01.toml:1:1: the key 'learning_rate' stands in no section; this key exists in section [optimizer]"
shows_once "d01.toml:$rte:1: section [optimizer] has no key 'learning_rte'; did you mean 'learning_rate'?"
shows_once "d01.toml:$steps:1: unknown key 'num-steps': there is no section [train]; did you mean 'steps' of section [run]?"
shows_once "d01.toml:$((steps + 1)):1: unknown key 'gradient_clipp1ng': there is no section [train]; did you mean 'gradient_clipping_threshold'"

# D02: a section for a plugin that is not loaded.
{ cat "$quick"; printf '[quant.plugins.not_loaded]\nblok = 128\n'; } >d02.toml
expect 2 train d02.toml
shows_once "section [quant.plugins.not_loaded]: no plugin 'not_loaded' is loaded"

# … and a key that a loaded plugin does not declare.
{ cat "$quick"; printf '[quant.plugins.int8_full]\nblok = 128\n'; } >d02.toml
expect 2 train d02.toml
shows_once "d02.toml:$(grep -n '^blok' d02.toml | cut -d: -f1):1: plugin 'int8_full' has no key 'blok'"

# A section for something that is there but takes no settings, or is not in use: why, and what has settings.
section() { expect 2 explain "$quick" "${@:2}"; shows_once "--set ${!#}: section [quant.plugins.$1"; }
section "absmax]: 'absmax' is a calibrator, and calibrators have no settings but the arguments in \"absmax,argument,…\"; only a scheme has settings, and the one in use, 'int8_full', takes none" --set quant.plugins.absmax.x=1
section "percentile]: 'percentile' is a calibrator" --set 'quant.plugins.percentile={}'
section "fp8_full]: the scheme 'fp8_full' is not in use; only a scheme has settings, and the one in use, 'int8_full', takes none" --set quant.plugins.fp8_full.x=1
section "fp8_full]: the scheme 'fp8_full' is not in use; only a scheme has settings, and none is in use" --set quant.quantization= --set quant.plugins.fp8_full.x=1
section "fp8_full]: the scheme 'fp8_full' is not in use; the scheme in use has settings, [quant.plugins.nvfp4_train] takes plain_first_layers and plain_last_layers" \
  --set quant.quantization=nvfp4_train --set quant.quantization_calibration_method=absmax --set quant.plugins.fp8_full.x=1
expect 2 explain "$quick" --set quant.plugins.int8_full.x=1
shows_once "plugin 'int8_full' has no key 'x' (section [quant.plugins.int8_full]); it has no settings"
expect 2 bench step "$quick" --set quant.plugins.absmax.x=1
shows_once "'absmax' is a calibrator"
expect 2 bench step "$quick" --set 'run.plugins=["no_such_plugin"]'
shows_once "There is no plugin 'no_such_plugin'"

# Overrides are checked like the file, and named.
expect 2 train "$quick" --set run.steps=ten --set optimizer.learning_rte=1 --set model.num_experts_per_tok=0.5
shows_once "--set run.steps=ten: steps in section [run] must be an integer; found the string \"ten\""
shows_once "--set optimizer.learning_rte=1: section [optimizer] has no key 'learning_rte'; did you mean 'learning_rate'?"
shows_once "--set model.num_experts_per_tok=0.5: num_experts_per_tok in section [model] must be an integer"
expect 2 train "$quick" --set run.steps
shows_once "--set run.steps: an override is written section.key=value"

# Settings that cannot go together: all of them, with both numbers.
expect 2 train "$quick" --set model.num_experts_per_tok=9 --set model.base_num_kv_heads=3 --set model.n_routing_groups=3 \
  --set model.topk_routing_group=2 --set data.gradient_accumulation_steps=3
shows_once "4 settings cannot go together:"
shows_once "num_experts_per_tok = 9 is more than num_experts = 8"
shows_once "base_num_query_heads = 4 does not divide into base_num_kv_heads = 3"
shows_once "num_experts = 8 does not divide into n_routing_groups = 3"
shows_once "global_batch_size = 8 does not divide by 1 ranks × gradient_accumulation_steps = 3"

# Files.
expect 2 train no_such.toml
shows_once "kvant: there is no configuration file no_such.toml"
error_lines 1
expect 2 train .
shows_once "kvant: . is a folder, but a configuration is a TOML file"
printf '[run\n' >broken.toml
expect 2 train broken.toml
shows_once "broken.toml:1:"
printf 'extends = "b.toml"\n' >a.toml
printf 'extends = "a.toml"\n' >b.toml
expect 2 train a.toml
shows_once "files extend one another in a circle"

[[ ! -e runs ]] || fail "a refused configuration made a run folder"
# quantization = "" of a file that is extended was not said of rules that came later; of one's own it turns them off.
printf 'extends = "%s/configs/schemes.toml"\n[[quant.rules]]\nweight_qtype = "int8"\nact_qtype = "int8"\n' "$KVANT_ROOT" >inherited.toml
expect 2 explain inherited.toml
shows_once "inherited.toml:2:1: rules in section [quant] would be ignored: " 'says quantization = "", nothing is quantized'
expect 0 explain inherited.toml --set quant.quantization=
printf 'extends = "inherited.toml"\n' >outermost.toml
expect 2 explain outermost.toml
shows_once "inherited.toml:2:1: rules in section [quant] would be ignored: "
printf 'extends = "inherited.toml"\n[quant]\nquantization = ""\n' >off.toml
expect 0 explain off.toml
expect 0 explain inherited.toml --set quant.quantization=rules

finish
