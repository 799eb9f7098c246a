#include "kernels/attention.hpp"

#include "base/kokkos.hpp"
#include "kernels/detail/attention_backward.hpp"
#include "kernels/detail/attention_forward.hpp"
#include "tensor/dispatch.hpp"

#include <algorithm>
#include <limits>

namespace kvant {
namespace {
using namespace attention_detail;

constexpr int device_team_size = 128;

void expect(const TensorView& x, const char* name, DType dtype, const Shape& shape) {
  require(x.dtype == dtype && x.shape == shape && x.contiguous(),
          "Attention needs {} as a contiguous {} tensor of shape {}; it got {} of shape {}{}.", name, name_of(dtype),
          to_string(shape), name_of(x.dtype), to_string(x.shape), x.contiguous() ? "" : ", strided");
}

void check(const AttentionShape& s, const TensorView& q, const TensorView& k, const TensorView& v,
           const TensorView& segment, const TensorView& out, const TensorView& lse) {
  require(s.batch > 0 && s.heads > 0 && s.kv_heads > 0 && s.seq > 0 && s.qk_dim > 0 && s.v_dim > 0,
          "Attention needs positive sizes; it got batch {}, heads {}, kv_heads {}, seq {}, qk_dim {}, v_dim {}.",
          s.batch, s.heads, s.kv_heads, s.seq, s.qk_dim, s.v_dim);
  require(s.heads % s.kv_heads == 0,
          "Attention needs a number of query heads that is a multiple of the key/value heads; it got {} and {}.",
          s.heads, s.kv_heads);
  const int64_t blocks = (s.seq + block_q - 1) / block_q;
  require(s.batch * s.heads * blocks < std::numeric_limits<int>::max() / 2 &&
              s.seq * std::max(s.qk_dim, s.v_dim) < std::numeric_limits<int>::max(),
          "Attention counts blocks and the elements of a head in 31 bits; batch {} x heads {} x seq {} is too large.",
          s.batch, s.heads, s.seq);
  expect(q, "q", q.dtype, {s.batch, s.heads, s.seq, s.qk_dim});
  expect(k, "k", q.dtype, {s.batch, s.kv_heads, s.seq, s.qk_dim});
  expect(v, "v", q.dtype, {s.batch, s.kv_heads, s.seq, s.v_dim});
  expect(out, "out", q.dtype, {s.batch, s.seq, s.heads, s.v_dim});
  expect(lse, "lse", DType::f32, {s.batch, s.heads, s.seq});
  if (!segment.empty()) expect(segment, "segment", DType::i32, {s.batch, s.seq});
}

/// Draws tickets from 0 again. A launch of its own, in stream order: the host writes no memory that a kernel may still
/// use.
struct ResetTicket {
  int* next;
  KOKKOS_FUNCTION void operator()(long) const { *next = 0; }
};

/// Runs kernel.units units on as many workers as are useful; scratch and ticket come from the arena.
template <class Kernel>
void launch(const Exec& exec, const char* label, Kernel kernel, Arena& workspace) {
  const int team_size = exec_is_host ? 1 : device_team_size;
  const int workers = std::clamp(exec.space.concurrency() / team_size, 1, kernel.units);
  const ArenaScope scope(workspace);
  kernel.next = static_cast<int*>(workspace.allocate_bytes(sizeof(int)));
  kernel.scratch = static_cast<float*>(
      workspace.allocate_bytes(static_cast<std::size_t>(workers * kernel.at.floats) * sizeof(float)));
  kernel.tile = {sgemm_leaf(), transpose_leaf()};
  Kokkos::parallel_for("kvant::attention_ticket", Range(exec.space, 0, 1), ResetTicket{kernel.next});
  Kokkos::parallel_for(label, Team(exec.space, workers, team_size), kernel);
}

const int32_t* segment_pointer(const TensorView& segment) { return segment.empty() ? nullptr : segment.as<int32_t>(); }

template <class T>
void forward(const Exec& exec, const AttentionShape& s, const TensorView& q, const TensorView& k, const TensorView& v,
             const TensorView& segment, const TensorView& out, const TensorView& lse, Arena& workspace) {
  const int units = static_cast<int>(s.batch * s.heads * ((s.seq + block_q - 1) / block_q));
  launch(exec, "kvant::attention_forward",
         ForwardKernel<T>{s,
                          q.as<T>(),
                          k.as<T>(),
                          v.as<T>(),
                          segment_pointer(segment),
                          out.as<T>(),
                          lse.as<float>(),
                          nullptr,
                          ForwardScratch(s, sizeof(T) < sizeof(float)),
                          nullptr,
                          units,
                          {}},
         workspace);
}

/// Five products a pair by one owner a head, or seven by two passes that split further: what ends sooner.
bool by_heads(int64_t owners, int64_t threads) { return (owners + threads - 1) / threads * threads * 5 <= owners * 7; }

template <class T>
void backward(const Exec& exec, const AttentionShape& s, const TensorView& q, const TensorView& k, const TensorView& v,
              const TensorView& segment, const TensorView& out, const TensorView& lse, const TensorView& dout,
              const TensorView& dq, const TensorView& dk, const TensorView& dv, Arena& workspace) {
  const auto run = [&](const char* label, BackwardCut cut, int64_t units) {
    launch(exec, label,
           BackwardKernel<T>{s,
                             q.as<T>(),
                             k.as<T>(),
                             v.as<T>(),
                             segment_pointer(segment),
                             out.as<T>(),
                             lse.as<float>(),
                             dout.as<T>(),
                             dq.as<T>(),
                             dk.as<T>(),
                             dv.as<T>(),
                             nullptr,
                             cut,
                             BackwardScratch(s, sizeof(T) < sizeof(float), cut),
                             nullptr,
                             static_cast<int>(units),
                             {}},
           workspace);
  };
  const int64_t blocks = (s.seq + block_q - 1) / block_q;
  if (by_heads(s.batch * s.kv_heads, exec.space.concurrency())) {
    run("kvant::attention_backward", BackwardCut::heads, s.batch * s.kv_heads);
  } else {
    run("kvant::attention_backward_queries", BackwardCut::queries, s.batch * s.heads * blocks);
    run("kvant::attention_backward_keys", BackwardCut::keys, s.batch * s.kv_heads * blocks);
  }
}

}  // namespace

void attention_forward(const Exec& exec, const AttentionShape& shape, const TensorView& q, const TensorView& k,
                       const TensorView& v, const TensorView& segment, const TensorView& out, const TensorView& lse,
                       Arena& workspace) {
  check(shape, q, k, v, segment, out, lse);
  dispatch_activation(q.dtype, "attention_forward",
                      [&]<class T>() { forward<T>(exec, shape, q, k, v, segment, out, lse, workspace); });
}

void attention_backward(const Exec& exec, const AttentionShape& shape, const TensorView& q, const TensorView& k,
                        const TensorView& v, const TensorView& segment, const TensorView& out, const TensorView& lse,
                        const TensorView& dout, const TensorView& dq, const TensorView& dk, const TensorView& dv,
                        Arena& workspace) {
  check(shape, q, k, v, segment, out, lse);
  expect(dout, "dout", q.dtype, out.shape);
  expect(dq, "dq", q.dtype, q.shape);
  expect(dk, "dk", q.dtype, k.shape);
  expect(dv, "dv", q.dtype, v.shape);
  dispatch_activation(q.dtype, "attention_backward", [&]<class T>() {
    backward<T>(exec, shape, q, k, v, segment, out, lse, dout, dq, dk, dv, workspace);
  });
}

}  // namespace kvant
