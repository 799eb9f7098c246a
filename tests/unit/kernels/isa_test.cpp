#include "kernels/isa/isa.hpp"

#include "base/error.hpp"
#include "kernels/gemm.hpp"
#include "support/gemm_case.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("KVANT_ISA takes every instruction set that the CPU has and refuses the others in a sentence") {
  CHECK(cpu_has(Isa::portable));
  CHECK(isa_from(nullptr) == isa_from(""));
  CHECK(cpu_has(isa_from(nullptr)));
  for (int i = 0; i < isa_count; ++i) {
    const Isa isa = static_cast<Isa>(i);
    if (cpu_has(isa)) {
      CHECK(isa_from(name_of(isa)) == isa);
    } else {
      CHECK_THROWS_WITH(isa_from(name_of(isa)), ContainsSubstring("which this CPU lacks; it has portable"));
      CHECK_THROWS_WITH(IsaScope(isa), ContainsSubstring("which this CPU lacks"));
    }
  }
  CHECK_THROWS_WITH(isa_from("avx1024"), ContainsSubstring("\"avx1024\", which is no instruction set known here; this CPU has portable"));
}

TEST_CASE("an instruction set that is put on for a scope goes with it") {
  const Isa before = chosen_isa();
  {
    const IsaScope scope(Isa::portable);
    CHECK(chosen_isa() == Isa::portable);
  }
  CHECK(chosen_isa() == before);
}

TEST_CASE("KVANT_FLOAT_GEMM takes its two words and refuses others in a sentence") {
  CHECK(float_gemm_from("tiles") == FloatGemm::tiles);
  CHECK(float_gemm_from("kokkos_kernels") == FloatGemm::kokkos_kernels);
  CHECK_THROWS_WITH(float_gemm_from("mkl"), ContainsSubstring("KVANT_FLOAT_GEMM is \"mkl\"; it takes tiles and kokkos_kernels"));
  CHECK_THAT(describe(FloatGemm::tiles), ContainsSubstring("tiles ("));
  CHECK_THAT(describe(FloatGemm::kokkos_kernels), ContainsSubstring("Kokkos Kernels on "));
  CHECK(remark(FloatGemm::tiles).empty());
}
