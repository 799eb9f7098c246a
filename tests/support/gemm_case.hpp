// What the tests of matrix products share: operands of any storage type with padded rows, and every body that this machine
// can run.
#pragma once

#include "base/kokkos.hpp"
#include "kernels/isa/isa.hpp"
#include "numerics/bf16.hpp"
#include "numerics/float.hpp"
#include "reference/gemm.hpp"
#include "support/kernel_case.hpp"

namespace kvant::test {

/// A matrix (or [G, rows, cols]) in execution memory, rows `padding` elements apart, of any type that a product takes.
class Codes {
 public:
  Codes(DType dtype, const Shape& shape, const Values& x, long padding = 0) : dtype_(dtype), padding_(padding) {
    Shape wide = shape;
    wide.dim[static_cast<std::size_t>(shape.rank - 1)] += padding;
    bytes_ = Kokkos::View<char*, MemSpace>("kvant::test", static_cast<std::size_t>(wide.numel()) * size_of(dtype));
    const TensorView all = make_view(bytes_.data(), dtype, wide, exec_is_host ? MemorySpace::host : MemorySpace::device);
    view_ = padding > 0 ? all.slice_cols(0, shape[shape.rank - 1]) : all;
    auto host = Kokkos::create_mirror_view(Kokkos::HostSpace(), bytes_);
    for (std::size_t i = 0; i < host.size(); ++i) host(i) = poison;
    values_ = x;
    const auto cols = static_cast<std::size_t>(shape[shape.rank - 1]);
    for (std::size_t i = 0; i < x.size(); ++i) values_[i] = write(host.data(), i / cols * (cols + static_cast<std::size_t>(padding)) + i % cols, x[i]);
    Kokkos::deep_copy(bytes_, host);
  }

  const TensorView& view() const { return view_; }
  operator TensorView() const { return view_; }
  /// As they were rounded to the type.
  const Values& values() const { return values_; }

 private:
  // NaN in fp8 and f32, -1 in int8: a kernel that reads beyond a row spoils its result.
  static constexpr char poison = static_cast<char>(0xff);

  double write(char* data, std::size_t i, double x) const {
    const auto v = static_cast<float>(x);
    switch (dtype_) {
      case DType::f32: return reinterpret_cast<float*>(data)[i] = v;
      case DType::bf16: return to_float(reinterpret_cast<bf16_t*>(data)[i] = to_bf16(v));
      case DType::i8: return reinterpret_cast<int8_t*>(data)[i] = static_cast<int8_t>(x);
      case DType::e4m3fn: return E4M3fn::decode(reinterpret_cast<uint8_t*>(data)[i] = E4M3fn::encode(v));
      default: return E5M2::decode(reinterpret_cast<uint8_t*>(data)[i] = E5M2::encode(v));
    }
  }

  DType dtype_;
  long padding_;
  Kokkos::View<char*, MemSpace> bytes_;
  TensorView view_;
  Values values_;
};

/// Integers in [-limit, limit]: every sum of products is exact in f32 as long as it stays below 2^24.
inline Values random_integers(std::size_t n, uint64_t seed, int limit = 15) {
  Values x(n);
  const std::vector<int> r = random_ints(n, seed, 2 * limit + 1);
  for (std::size_t i = 0; i < n; ++i) x[i] = r[i] - limit;
  return x;
}

inline std::vector<Isa> isas_here() {
  std::vector<Isa> list;
  for (int i = 0; i < isa_count; ++i)
    if (cpu_has(static_cast<Isa>(i))) list.push_back(static_cast<Isa>(i));
  return list;
}

/// y = x, or y = before + x.
inline Values expected(const Values& x, const Values& before, bool add) {
  Values y = x;
  for (std::size_t i = 0; add && i < y.size(); ++i) y[i] += before[i];
  return y;
}

}  // namespace kvant::test
