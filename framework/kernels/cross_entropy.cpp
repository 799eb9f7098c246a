#include "kernels/cross_entropy.hpp"

#include "kernels/detail/lanes.hpp"
#include "kernels/detail/rows.hpp"
#include "numerics/bf16.hpp"
#include "tensor/dispatch.hpp"

#include <type_traits>

namespace kvant {

using namespace detail;

namespace {

struct Outputs {
  float* loss;
  float* z_term;
  float* lse;
  int32_t* argmax;
  float* row_max;
  int32_t* bad_targets;
};

/// Where the exponentials of the sum may stay for the gradient: in the logits themselves if those are float32.
template <class T>
constexpr bool keeps_exponentials = std::is_same_v<T, float>;

// Exponentials are added in blocks of this many, the blocks in double: a row may have 160,000 of them.
constexpr long sum_block = 2048;

template <class T>
KOKKOS_INLINE_FUNCTION double sum_of_exponentials(T* row, float largest, bool keep, long v) {
  double total = 0.0;
  for (long begin = 0; begin < v; begin += sum_block) {
    T* x = row + begin;
    const long n = begin + sum_block < v ? sum_block : v - begin;
    if constexpr (keeps_exponentials<T>) {
      if (keep) {
        KVANT_INDEPENDENT
        for (long i = 0; i < n; ++i) x[i] = fast_exp(x[i] - largest);
        total += static_cast<double>(lane_sum(n, [=](long i) { return x[i]; }));
        continue;
      }
    }
    total += static_cast<double>(lane_sum(n, [=](long i) { return fast_exp(to_float(x[i]) - largest); }));
  }
  return total;
}

/// row = softmax * factor everywhere but at the target.
template <class T>
KOKKOS_INLINE_FUNCTION void softmax_gradient(T* row, float largest, float factor, long v) {
  KVANT_INDEPENDENT
  for (long i = 0; i < v; ++i) {
    const float e = keeps_exponentials<T> ? to_float(row[i]) : fast_exp(to_float(row[i]) - largest);
    row[i] = from_float<T>(e * factor);
  }
}

template <class T>
KOKKOS_INLINE_FUNCTION void clear_row(T* row, long v) {
  for (long i = 0; i < v; ++i) row[i] = from_float<T>(0.0f);
}

template <class T>
KOKKOS_INLINE_FUNCTION void cross_entropy_row(T* row, long target, float mask, const CrossEntropyConfig& c, long v,
                                              long t, const Outputs& out) {
  const int32_t top = lane_max(v, lowest_order_key, [=](long i) { return order_key(to_float(row[i])); });
  const float largest = value_of_order_key(top);
  if (out.row_max != nullptr) out.row_max[t] = largest;
  if (out.argmax != nullptr) {
    long first = 0;
    while (first + 1 < v && order_key(to_float(row[first])) != top) ++first;
    out.argmax[t] = static_cast<int32_t>(first);
  }
  const bool in_range = target >= 0 && target < v;
  if (!in_range && mask != 0.0f) Kokkos::atomic_add(out.bad_targets, 1);
  const bool counts = in_range && mask != 0.0f;
  const float target_logit = counts ? to_float(row[target]) : largest;
  const bool gradient = c.write_gradient && counts;
  const double total = sum_of_exponentials(row, largest, gradient, v);
  const float log_total = fast_log(static_cast<float>(total));
  const float lse = largest + log_total;
  const float z = c.z_loss * lse * lse;
  if (out.lse != nullptr) out.lse[t] = lse;
  if (out.z_term != nullptr) out.z_term[t] = counts ? mask * z : 0.0f;
  // (largest - target) + log_total: no cancellation of two large numbers
  out.loss[t] = counts ? mask * ((largest - target_logit) + log_total + z) : 0.0f;
  if (!c.write_gradient) return;
  if (!counts) {
    clear_row(row, v);
    return;
  }
  const auto inverse_total = static_cast<float>(1.0 / total);
  const float weight = mask * c.grad_scale, z_factor = 1.0f + 2.0f * c.z_loss * lse;
  const float at_target = (fast_exp(target_logit - largest) * inverse_total * z_factor - 1.0f) * weight;
  softmax_gradient(row, largest, inverse_total * z_factor * weight, v);
  row[target] = from_float<T>(at_target);
}

template <class T, class M>
void cross_entropy_rows(const Exec& exec, Matrix<T> logits, const int32_t* targets, const M* mask, CrossEntropyConfig c,
                        long rows, long v, Outputs out) {
  Kokkos::parallel_for(
      "kvant::cross_entropy", Range(exec.space, 0, rows), KOKKOS_LAMBDA(const long t) {
        cross_entropy_row(logits.row(t), static_cast<long>(targets[t]), static_cast<float>(mask[t]), c, v, t, out);
      });
}

}  // namespace

void cross_entropy(const Exec& exec, TensorView logits, TensorView targets, TensorView mask,
                   const CrossEntropyConfig& config, const CrossEntropyResult& result) {
  constexpr auto kernel = "cross_entropy";
  const auto e = extent_of(logits, kernel, "logits");
  require_vector(targets, DType::i32, e.rows, kernel, "targets");
  require(mask.dtype == DType::i32 || mask.dtype == DType::f32,
          "cross_entropy: the mask is {}; it must be int32 or float32.", name_of(mask.dtype));
  require_vector(mask, mask.dtype, e.rows, kernel, "mask");
  require_vector(result.loss, DType::f32, e.rows, kernel, "loss");
  require_vector(result.bad_targets, DType::i32, 1, kernel, "bad_targets");
  if (result.argmax.data != nullptr) require_vector(result.argmax, DType::i32, e.rows, kernel, "argmax");
  const Outputs out{result.loss.as<float>(),
                    optional_vector(result.z_term, e.rows, kernel, "z_term"),
                    optional_vector(result.lse, e.rows, kernel, "lse"),
                    result.argmax.data != nullptr ? result.argmax.as<int32_t>() : nullptr,
                    optional_vector(result.row_max, e.rows, kernel, "row_max"),
                    result.bad_targets.as<int32_t>()};
  dispatch_activation(logits.dtype, kernel, [&]<class T>() {
    const auto m = matrix<T>(logits, e);
    if (mask.dtype == DType::i32)
      cross_entropy_rows(exec, m, targets.as<int32_t>(), mask.as<int32_t>(), config, e.rows, e.cols, out);
    else
      cross_entropy_rows(exec, m, targets.as<int32_t>(), mask.as<float>(), config, e.rows, e.cols, out);
  });
}

}  // namespace kvant
