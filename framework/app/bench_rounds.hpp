// What the benchmarks of kernels share: filled tensors, and variants that take turns within a round. Printed is the median of the
// ratios within a round, with p10 and p90, because whole rounds are slower when a neighbour is at work.
#pragma once

#include "base/kokkos.hpp"
#include "tensor/arena.hpp"
#include "tensor/tensor.hpp"

#include <functional>
#include <string>
#include <vector>

namespace kvant::app {

/// A tensor in execution memory with random contents (codes: all values; float: in [-1, 1)).
struct Filled {
  Kokkos::View<char*, MemSpace> bytes;
  TensorView view;

  Filled(DType dtype, const Shape& shape, uint64_t seed);
};

struct Variant {
  std::string name;
  std::function<void()> run;
  double work = 0;                ///< operations, or bytes
  DType arithmetic = DType::f32;  ///< whose peak the share is of; not looked at where work is bytes
  std::vector<double> seconds = {};
};

/// What Variant::work counts.
enum class Work { operations, bytes };

class BenchRounds {
 public:
  BenchRounds(const Exec& exec, int threads, int rounds, Work work) : exec_(exec), threads_(threads), rounds_(rounds), work_(work) {}

  const Exec& exec() const { return exec_; }
  Arena& arena() { return arena_; }

  /// Times the variants in turns and prints one line for each; ratios are speeds over the first one's. Rounds in which other
  /// processes took more than a tenth of a processor are done again, up to four times as many in all.
  void compare(const std::string& title, std::vector<Variant>& variants);

 private:
  double once(Variant& v, int repeats);
  void print(const Variant& v, const Variant& base) const;

  const Exec& exec_;
  int threads_, rounds_;
  Work work_;
  Arena arena_{"bench"};
};

}  // namespace kvant::app
