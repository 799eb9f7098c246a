// One attention problem with its inputs in the storage type, run through the kernels, as double for comparison.
#pragma once

#include "base/kokkos.hpp"
#include "base/rng.hpp"
#include "numerics/bf16.hpp"
#include "reference/attention.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace kvant::test {

/// A tensor in execution memory with its way to and from the host.
class AttentionTensor {
 public:
  AttentionTensor(DType dtype, const Shape& shape)
      : bytes_("kvant::test", static_cast<std::size_t>(shape.numel()) * size_of(dtype)),
        view_(make_view(bytes_.data(), dtype, shape, exec_is_host ? MemorySpace::host : MemorySpace::device)) {}

  const TensorView& view() const { return view_; }

  /// Stores x rounded to the tensor's type and makes x what was stored.
  void put(std::vector<double>& x) {
    auto host = Kokkos::create_mirror_view(bytes_);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (view_.dtype == DType::f32) {
        reinterpret_cast<float*>(host.data())[i] = static_cast<float>(x[i]);
        x[i] = static_cast<float>(x[i]);
      } else {
        const bf16_t narrow = to_bf16(static_cast<float>(x[i]));
        reinterpret_cast<bf16_t*>(host.data())[i] = narrow;
        x[i] = to_float(narrow);
      }
    }
    Kokkos::deep_copy(bytes_, host);
  }

  void put(const std::vector<int>& x) {
    auto host = Kokkos::create_mirror_view(bytes_);
    std::copy(x.begin(), x.end(), reinterpret_cast<int32_t*>(host.data()));
    Kokkos::deep_copy(bytes_, host);
  }

  std::vector<double> get() const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), bytes_);
    std::vector<double> x(static_cast<std::size_t>(view_.numel()));
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = view_.dtype == DType::f32 ? reinterpret_cast<const float*>(host.data())[i]
                                       : to_float(reinterpret_cast<const bf16_t*>(host.data())[i]);
    return x;
  }

  /// What a kernel that forgets to write would leave behind.
  void poison() { Kokkos::deep_copy(bytes_, static_cast<char>(0x7f)); }

 private:
  Kokkos::View<char*, MemSpace> bytes_;
  TensorView view_;
};

inline std::vector<double> random_values(int64_t count, const std::string& name, double scale) {
  std::vector<double> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) {
    double sum = 0;  // four uniforms: near enough to a normal distribution of variance 1
    for (const uint32_t word : philox(7, stream_of(name), i).word) sum += uniform01(word) - 0.5;
    x[i] = scale * sum * std::sqrt(3.0);
  }
  return x;
}

struct AttentionResult {
  std::vector<double> out, lse, dq, dk, dv;
};

struct AttentionCase {
  DType dtype = DType::f32;
  reference::AttentionInput input;
  std::vector<double> dout;

  AttentionCase(DType type, const AttentionShape& s, double scale = 1.0) : dtype(type) {
    input = {s,
             random_values(s.batch * s.heads * s.seq * s.qk_dim, "q", scale / std::sqrt(static_cast<double>(s.qk_dim))),
             random_values(s.batch * s.kv_heads * s.seq * s.qk_dim, "k", 1.0),
             random_values(s.batch * s.kv_heads * s.seq * s.v_dim, "v", 1.0),
             {}};
    dout = random_values(s.batch * s.seq * s.heads * s.v_dim, "dout", 1.0);
  }

  /// Forward and backward. The inputs become what was stored.
  AttentionResult run(const Exec& exec, Arena& workspace) {
    const AttentionShape& s = input.shape;
    AttentionTensor q(dtype, {s.batch, s.heads, s.seq, s.qk_dim}), k(dtype, {s.batch, s.kv_heads, s.seq, s.qk_dim}),
        v(dtype, {s.batch, s.kv_heads, s.seq, s.v_dim}), out(dtype, {s.batch, s.seq, s.heads, s.v_dim}),
        g(dtype, {s.batch, s.seq, s.heads, s.v_dim}), lse(DType::f32, {s.batch, s.heads, s.seq}),
        dq(dtype, q.view().shape), dk(dtype, k.view().shape), dv(dtype, v.view().shape),
        segment(DType::i32, {s.batch, s.seq});
    q.put(input.q), k.put(input.k), v.put(input.v), g.put(dout);
    if (!input.segment.empty()) segment.put(input.segment);
    const TensorView segments = input.segment.empty() ? TensorView{} : segment.view();
    for (AttentionTensor* t : {&out, &lse, &dq, &dk, &dv}) t->poison();
    attention_forward(exec, s, q.view(), k.view(), v.view(), segments, out.view(), lse.view(), workspace);
    attention_backward(exec, s, q.view(), k.view(), v.view(), segments, out.view(), lse.view(), g.view(), dq.view(),
                       dk.view(), dv.view(), workspace);
    exec.space.fence("kvant::test reads the results");
    return {out.get(), lse.get(), dq.get(), dk.get(), dv.get()};
  }
};

}  // namespace kvant::test
