#include "kernels/peak.hpp"

#include "base/error.hpp"
#include "base/kokkos.hpp"
#include "kernels/isa/isa.hpp"
#include "support/gemm_case.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using namespace kvant::test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("the peak of a type and ISA is measured once and then read from the cache file") {
  if constexpr (!exec_is_host) SKIP("a device has no probe");
  const TemporaryFolder folder;
  const EnvironmentVariable cache("KVANT_CACHE_DIR", folder.path().c_str());
  const double measured = measured_peak_ops(DType::f32, 1);
  CHECK(measured > 1e8);
  CHECK(measured_peak_ops(DType::bf16, 1) == measured);  // runs in f32
  const std::string text = TemporaryFolder::read(peak_cache_file());
  CHECK_THAT(text, ContainsSubstring(std::string(name_of(chosen_isa())) + " float32 1 "));
  for (const Isa isa : isas_here()) {
    const IsaScope scope(isa);
    CHECK(measured_peak_ops(DType::i8, 1) > 1e8);
  }
}

TEST_CASE("a peak in the cache file is believed, a spoiled line is measured again") {
  if constexpr (!exec_is_host) SKIP("a device has no probe");
  const TemporaryFolder first, second, third;
  std::string key;
  {
    const EnvironmentVariable cache("KVANT_CACHE_DIR", first.path().c_str());
    measured_peak_ops(DType::f32, 1);
    const std::string line = TemporaryFolder::read(peak_cache_file());
    key = line.substr(0, line.rfind(' '));
  }
  second.write("peak", key + " 1.5e+11\n");
  third.write("peak", key + " fast\n" + key + " -1\n");
  const EnvironmentVariable believed("KVANT_CACHE_DIR", second.path().c_str());
  CHECK(measured_peak_ops(DType::f32, 1) == 1.5e11);
  const EnvironmentVariable spoiled("KVANT_CACHE_DIR", third.path().c_str());
  CHECK(measured_peak_ops(DType::f32, 1) > 1e8);
}

TEST_CASE("more threads than there are have no peak") {
  if constexpr (!exec_is_host) SKIP("a device has no probe");
  CHECK_THROWS_WITH(measure_peak_ops_now(DType::f32, 0), ContainsSubstring("The peak of 0 threads was asked for; this process has"));
  CHECK_THROWS_WITH(measure_peak_ops_now(DType::f32, 5000), ContainsSubstring("The peak of 5000 threads"));
}

TEST_CASE("a cache folder that cannot be written costs a measurement, nothing else") {
  if constexpr (!exec_is_host) SKIP("a device has no probe");
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "not a folder");
  const EnvironmentVariable cache("KVANT_CACHE_DIR", file.c_str());
  const IsaScope scope(Isa::portable);
  CHECK(measured_peak_ops(DType::i8, 1) > 1e8);
}
