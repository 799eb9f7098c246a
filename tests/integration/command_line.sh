#!/usr/bin/env bash
# The command line itself: help, version, and what is refused.
source "$(dirname "$0")/lib.sh"

expect 0 --version
[[ $out =~ ^kvant\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "--version prints '$out'"

expect 0 --help
commands=(train eval explain plugins data bench verify)
shows "Examples:" "${commands[@]}"
for command in "${commands[@]}"; do
  expect 0 "$command" --help
  shows "Examples:" "kvant $command"
done

expect 2
shows "Usage:"
expect 2 trian
shows_once "kvant: there is no command 'trian'; did you mean 'train'?"
error_lines 1
expect 2 trian --help
shows_once "kvant: there is no command 'trian'; did you mean 'train'?"
expect 2 weather
shows "there is no command 'weather'; valid are train, "
expect 2 --hlep
shows_once "kvant: The following argument was not expected: --hlep"
expect 2 train
shows_once "kvant: kvant train needs CONFIG, a TOML file"
expect 2 bench stepp
shows_once "kvant bench needs one of step, gemm and quantize; did you mean 'step'?"
expect 2 bench
shows "kvant bench needs one of"
expect 2 train "$KVANT_ROOT/configs/quickstart.toml" --stes=3
shows "--stes=3"
# A name that is given as nothing is no name, and never counts as not given.
config=$KVANT_ROOT/configs/quickstart.toml
empty() { local what=$1; shift; expect 2 "$@"; shows_once "the value is empty; $what is expected"; error_lines 1; }
empty "a TOML file" explain ''
empty "a TOML file" train --config ''
empty "a folder" train "$config" --run-dir ''
empty "a file of weights" eval "$config" --params ''
empty "a .npz file" bench step "$config" --load-init ''
empty "a folder" plugins new scheme nowhere --into ''
empty "a plugin's file" plugins ''
empty "a file" verify ''
expect 2 train "$config" --run-dir=
shows_once "--run-dir: 1 required TEXT missing"
expect 2 explain "$config" --set run.plugins= --set 'data.dataset_path=["a.txt", ""]'
shows_once "--set run.plugins=: plugins in section [run] has an empty name; a list of none is written []"
shows_once "dataset_path in section [data] has an empty name"

[[ ! -e runs && ! -e nowhere ]] || fail "a refused command line made a run folder"

finish
