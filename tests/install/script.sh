#!/usr/bin/env bash
# The script ./kvant where it must not install or build: on a machine that is not Debian as root, and under an MPI launcher.
source "$(dirname "$0")/lib.sh"

# A tree of its own, so that nothing is built or set up here yet, and a PATH without apt-get: another system.
mkdir tree bin
cp "$KVANT_ROOT/kvant" "$KVANT_ROOT/CMakeLists.txt" "$KVANT_ROOT/CMakePresets.json" tree/
cp -r "$KVANT_ROOT/framework" tree/
for tool in bash env cat cut grep sed tr tail head awk find sort mkdir rm mv cp dirname readlink nproc flock sha256sum sleep kill cmake ninja g++ \
  g++-14 ld as cc c++ ar uname date tee basename pkg-config; do
  path=$(command -v "$tool") && ln -s "$path" "bin/$tool"
done
mkdir empty
other() { env -u CXX PATH="$PWD/bin" Kokkos_ROOT="$PWD/empty" "$@"; }

run 1 other tree/kvant setup
shows "this machine lacks what is listed here" "sid:libkokkos-dev sid:libkokkos5.2" "kokkos@4.6: +openmp +shared" "github.com/kokkos/kokkos (4.6 or newer" "Kokkos_ROOT"
[[ -z $out ]] || fail "the list went to stdout"
[[ ! -e tree/.deps/kokkos ]] || fail "something was installed"
run 1 other tree/kvant explain x.toml
shows "this machine lacks what is listed here"

run 1 env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 tree/kvant explain x.toml
shows "under an MPI launcher nothing is built"
run 1 env SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 tree/kvant setup
shows "set-up is not done under an MPI launcher"
run 1 env CXX=/no/such/compiler tree/kvant explain x.toml
shows "the environment variable CXX is '/no/such/compiler', which is no program here"
run 1 env -u CXX Kokkos_ROOT=/no/such/folder tree/kvant setup
shows "the environment variable Kokkos_ROOT is '/no/such/folder', which is no folder"
run 1 tree/kvant setup now
shows "setup takes no arguments, but it was given 'now'"
[[ ! -e tree/build ]] || fail "something was built"
finish
