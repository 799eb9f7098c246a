// What tests of kernels share: tensors in execution memory with their values as double on the host, random inputs,
// planted outliers, comparisons and finite differences.
#pragma once

#include "base/kokkos.hpp"
#include "base/rng.hpp"
#include "numerics/bf16.hpp"
#include "tensor/tensor.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace kvant::test {

using Values = std::vector<double>;

inline std::size_t count(const Shape& shape) { return static_cast<std::size_t>(shape.numel()); }

/// Uniform in [-scale, scale).
inline Values random_values(std::size_t n, uint64_t seed, double scale = 1.0) {
  Values x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = scale * (2.0 * uniform01(philox(seed, 0, i).word[0]) - 1.0);
  return x;
}

inline std::vector<int> random_ints(std::size_t n, uint64_t seed, int below) {
  std::vector<int> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<int>(philox(seed, 1, i).word[0] % static_cast<uint32_t>(below));
  return x;
}

/// A tensor in execution memory. With `padding` its rows lie cols + padding elements apart, and nobody may write in
/// between.
class Stored {
 public:
  Stored(DType dtype, const Shape& shape, long padding = 0) : dtype_(dtype), padding_(padding) {
    Shape wide = shape;
    if (shape.rank > 0) wide.dim[static_cast<std::size_t>(shape.rank - 1)] += padding;
    bytes_ = Kokkos::View<char*, MemSpace>("kvant::test", static_cast<std::size_t>(wide.numel()) * size_of(dtype));
    const TensorView all =
        make_view(bytes_.data(), dtype, wide, exec_is_host ? MemorySpace::host : MemorySpace::device);
    view_ = padding > 0 ? all.slice_cols(0, shape[shape.rank - 1]) : all;
    Kokkos::deep_copy(bytes_, poison);  // what a kernel that forgets to write leaves behind
  }
  Stored(DType dtype, const Shape& shape, const Values& x, long padding = 0) : Stored(dtype, shape, padding) { put(x); }
  Stored(const Shape& shape, const std::vector<int>& x) : Stored(DType::i32, shape, Values(x.begin(), x.end())) {}

  const TensorView& view() const { return view_; }
  operator TensorView() const { return view_; }
  /// The values as they were rounded when stored by put.
  const Values& values() const { return values_; }

  void put(const Values& x) {
    REQUIRE(x.size() == count(view_.shape));
    auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), bytes_);
    values_ = x;
    for (std::size_t i = 0; i < x.size(); ++i) values_[i] = write(host.data(), place(i), x[i]);
    Kokkos::deep_copy(bytes_, host);
  }

  Values get() const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), bytes_);
    Values x(count(view_.shape));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = read(host.data(), place(i));
    return x;
  }
  std::vector<int> ints() const {
    const Values x = get();
    return {x.begin(), x.end()};
  }
  /// Every byte, padding included, for comparisons bit by bit.
  std::string bytes() const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), bytes_);
    return {host.data(), host.size()};
  }
  bool padding_untouched() const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), bytes_);
    const std::size_t cols = static_cast<std::size_t>(view_.cols()), wide = cols + static_cast<std::size_t>(padding_),
                      size = size_of(dtype_);
    for (std::size_t i = 0; i < host.size() / size; ++i)
      for (std::size_t b = 0; i % wide >= cols && b < size; ++b)
        if (host(i * size + b) != poison) return false;
    return true;
  }

 private:
  static constexpr char poison = 0x7f;

  std::size_t place(std::size_t i) const {
    const auto cols = static_cast<std::size_t>(view_.cols());
    return padding_ == 0 ? i : i / cols * (cols + static_cast<std::size_t>(padding_)) + i % cols;
  }
  double write(char* data, std::size_t i, double x) const {
    if (dtype_ == DType::f32) return reinterpret_cast<float*>(data)[i] = static_cast<float>(x);
    if (dtype_ == DType::i32) return reinterpret_cast<int32_t*>(data)[i] = static_cast<int32_t>(x);
    return to_float(reinterpret_cast<bf16_t*>(data)[i] = to_bf16(static_cast<float>(x)));
  }
  double read(const char* data, std::size_t i) const {
    if (dtype_ == DType::f32) return reinterpret_cast<const float*>(data)[i];
    if (dtype_ == DType::i32) return reinterpret_cast<const int32_t*>(data)[i];
    return to_float(reinterpret_cast<const bf16_t*>(data)[i]);
  }

  DType dtype_;
  long padding_;
  Kokkos::View<char*, MemSpace> bytes_;
  TensorView view_;
  Values values_;
};

/// Relative error that `roundings` to a storage type may leave.
inline double unit(DType dtype, double roundings = 1.0) {
  return roundings * (dtype == DType::bf16 ? 0x1p-8 : 0x1p-21);
}

/// |got - expected| <= relative * |expected| + absolute, for every element.
inline void check_close(const Values& got, const Values& expected, double relative, double absolute) {
  REQUIRE(got.size() == expected.size());
  std::size_t bad = 0, wrong = 0;  // the first that is wrong, and how many
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::fabs(got[i] - expected[i]) <= relative * std::fabs(expected[i]) + absolute) continue;
    if (wrong++ == 0) bad = i;
  }
  INFO(wrong << " of " << got.size() << " are wrong; element " << bad << ": got " << (got.empty() ? 0.0 : got[bad])
             << ", expected " << (got.empty() ? 0.0 : expected[bad]));
  CHECK(wrong == 0);
}

/// Central differences of f at x against `gradient`, at up to 60 elements.
template <class F>
void check_gradient(F&& f, Values x, const Values& gradient, double tolerance = 1e-6) {
  REQUIRE(x.size() == gradient.size());
  double largest = 1e-3;
  for (const double g : gradient) largest = std::max(largest, std::fabs(g));
  const std::size_t stride = std::max<std::size_t>(1, x.size() / 60);
  for (std::size_t i = 0; i < x.size(); i += stride) {
    const double at = x[i], h = 1e-5;
    x[i] = at + h;
    const double above = f(x);
    x[i] = at - h;
    const double below = f(x);
    x[i] = at;
    INFO("element " << i);
    REQUIRE(std::fabs((above - below) / (2.0 * h) - gradient[i]) <= tolerance * largest);
  }
}

inline double dot(const Values& a, const Values& b) {
  double s = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) s += a[i] * b[i];
  return s;
}

/// First, last and every position around the ends of vectors: where a reduction over n elements may forget one.
inline std::vector<std::size_t> outlier_positions(std::size_t n) {
  std::vector<std::size_t> p;
  for (std::size_t i = 0; i < n; ++i)
    if (i < 1 || i + 40 >= n || i == n / 2) p.push_back(i);
  return p;
}

}  // namespace kvant::test
