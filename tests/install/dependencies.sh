#!/usr/bin/env bash
# What is asked of Kokkos when the build is configured, each refusal with its sentence: a static one, none where Kokkos_ROOT
# points, one without the backend that a preset needs.
source "$(dirname "$0")/lib.sh"

# fake_kokkos FOLDER STATIC|SHARED: all that CMake asks of a Kokkos before it compiles anything
fake_kokkos() {
  mkdir -p "$1/lib/cmake/Kokkos" "$1/lib/cmake/KokkosKernels"
  cat >"$1/lib/cmake/Kokkos/KokkosConfig.cmake" <<CMAKE
set(Kokkos_DEVICES OPENMP)
add_library(Kokkos::kokkoscore $2 IMPORTED)
add_library(Kokkos::kokkos INTERFACE IMPORTED)
CMAKE
  cat >"$1/lib/cmake/Kokkos/KokkosConfigVersion.cmake" <<'CMAKE'
set(PACKAGE_VERSION 4.7.0)
set(PACKAGE_VERSION_COMPATIBLE TRUE)
CMAKE
  echo 'add_library(Kokkos::kokkoskernels INTERFACE IMPORTED)' >"$1/lib/cmake/KokkosKernels/KokkosKernelsConfig.cmake"
}

fake_kokkos static STATIC
fake_kokkos shared SHARED
mkdir empty

configure() { run 1 env -u Kokkos_ROOT cmake -S "$KVANT_ROOT" -B "build_$1" -G Ninja -DCMAKE_CXX_COMPILER="$CXX" "${@:2}"; output=$(tr -s ' \n' ' ' <<<"$output"); }

configure static -DKokkos_ROOT="$PWD/static"
shows "is a static library (Kokkos::kokkoscore is STATIC_LIBRARY)" "BUILD_SHARED_LIBS=ON"

configure empty -DKokkos_ROOT="$PWD/empty"
shows "These are missing" "Kokkos: sid:libkokkos-dev sid:libkokkos5.2 | kokkos@4.6: +openmp +shared | github.com/kokkos/kokkos"

configure backend -DKokkos_ROOT="$PWD/shared" -DKVANT_REQUIRE_BACKEND=CUDA
shows "KVANT_REQUIRE_BACKEND is CUDA, but the Kokkos in" "has OPENMP"
finish
