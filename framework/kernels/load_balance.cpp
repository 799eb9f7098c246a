#include "kernels/load_balance.hpp"

#include "kernels/detail/lanes.hpp"
#include "kernels/detail/rows.hpp"
#include "kernels/detail/score.hpp"

namespace kvant {

using namespace detail;

namespace {

constexpr long row_chunk = 64;  // rows whose probabilities one work item adds

/// Largest score of a row and 1 / sum of exp(score - largest).
struct Softmax {
  float largest, inverse_total;
  KOKKOS_INLINE_FUNCTION Softmax(const float* s, long experts) {
    largest = value_of_order_key(lane_max(experts, lowest_order_key, [=](long e) { return order_key(s[e]); }));
    const float top = largest;
    inverse_total = 1.0f / lane_sum(experts, [=](long e) { return fast_exp(s[e] - top); });
  }
  KOKKOS_FORCEINLINE_FUNCTION float operator()(float s) const { return fast_exp(s - largest) * inverse_total; }
};

void count_density(const Exec& exec, const int32_t* index, long batch, long slots, long experts, float* density) {
  Kokkos::parallel_for(
      "kvant::load_balance_density", Range(exec.space, 0, batch), KOKKOS_LAMBDA(const long b) {
        float* count = density + b * experts;
        for (long e = 0; e < experts; ++e) count[e] = 0.0f;
        for (long i = b * slots; i < (b + 1) * slots; ++i) count[index[i]] += 1.0f;  // exact up to 2^24
        for (long e = 0; e < experts; ++e) count[e] /= static_cast<float>(slots);
      });
}

void add_probabilities(const Exec& exec, const float* score, long batch, long sequence, long experts, long chunks,
                       float* partial) {
  Kokkos::parallel_for(
      "kvant::load_balance_probability", Range(exec.space, 0, batch * chunks), KOKKOS_LAMBDA(const long i) {
        const long b = i / chunks, c = i - b * chunks;
        float* sum = partial + i * experts;
        for (long e = 0; e < experts; ++e) sum[e] = 0.0f;
        const long end = (c + 1) * row_chunk < sequence ? (c + 1) * row_chunk : sequence;
        for (long s = c * row_chunk; s < end; ++s) {
          const float* row = score + (b * sequence + s) * experts;
          const Softmax p(row, experts);
          for (long e = 0; e < experts; ++e) sum[e] += p(row[e]);
        }
      });
}

void finish_loss(const Exec& exec, const float* partial, const float* density, long batch, long sequence, long experts,
                 long chunks, float lambda, bool accumulate, float* loss) {
  Kokkos::parallel_for(
      "kvant::load_balance_loss", Range(exec.space, 0, 1), KOKKOS_LAMBDA(const long) {
        double total = 0.0;
        for (long b = 0; b < batch; ++b)
          for (long e = 0; e < experts; ++e) {
            double probability = 0.0;
            for (long c = 0; c < chunks; ++c) probability += partial[(b * chunks + c) * experts + e];
            total += density[b * experts + e] * probability / static_cast<double>(sequence);
          }
        const auto value =
            static_cast<float>(lambda * static_cast<double>(experts) / static_cast<double>(batch) * total);
        *loss = accumulate ? *loss + value : value;
      });
}

template <ScoreFunction F>
KOKKOS_INLINE_FUNCTION void balance_backward_row(const float* s, const float* density, float factor, long experts,
                                                 float* dz) {
  const Softmax p(s, experts);
  const float mean = lane_sum(experts, [=](long e) { return p(s[e]) * density[e]; });
  if constexpr (F == ScoreFunction::softmax) {
    const float pull = lane_sum(experts, [=](long e) { return p(s[e]) * (density[e] - mean) * s[e]; });
    KVANT_INDEPENDENT
    for (long e = 0; e < experts; ++e) dz[e] += factor * s[e] * (p(s[e]) * (density[e] - mean) - pull);
  } else {
    KVANT_INDEPENDENT
    for (long e = 0; e < experts; ++e) dz[e] += factor * p(s[e]) * (density[e] - mean) * score_derivative<F>(s[e]);
  }
}

template <ScoreFunction F>
void balance_backward_rows(const Exec& exec, const float* score, const float* density, float factor, long tokens,
                           long sequence, long experts, float* dlogits) {
  Kokkos::parallel_for(
      "kvant::load_balance_backward", Range(exec.space, 0, tokens), KOKKOS_LAMBDA(const long t) {
        balance_backward_row<F>(score + t * experts, density + t / sequence * experts, factor, experts,
                                dlogits + t * experts);
      });
}

void count_experts(const Exec& exec, const int32_t* offsets, long experts, bool accumulate, int32_t* counts) {
  Kokkos::parallel_for(
      "kvant::expert_counts", Range(exec.space, 0, experts),
      KOKKOS_LAMBDA(const long e) { counts[e] = (accumulate ? counts[e] : 0) + offsets[e + 1] - offsets[e]; });
}

void update_bias(const Exec& exec, const int32_t* counts, long experts, float rate, float* bias) {
  Kokkos::parallel_for(
      "kvant::router_bias_update", Range(exec.space, 0, experts), KOKKOS_LAMBDA(const long e) {
        int64_t total = 0;
        for (long i = 0; i < experts; ++i) total += counts[i];
        const int64_t excess = total - static_cast<int64_t>(counts[e]) * experts;
        if (excess > 0) bias[e] += rate;
        if (excess < 0) bias[e] -= rate;
      });
}

}  // namespace

void load_balance_forward(const Exec& exec, TensorView score, TensorView index, int64_t batch, float lambda,
                          TensorView density, TensorView loss, Write loss_mode, Arena& workspace) {
  constexpr auto kernel = "load_balance_forward";
  const long tokens = score.rows(), experts = score.cols();
  require(batch >= 1 && tokens % batch == 0 && tokens > 0,
          "load_balance_forward: {} tokens are not {} sequences of one length.", tokens, batch);
  const long sequence = tokens / batch, chunks = (sequence + row_chunk - 1) / row_chunk;
  require_vector(score, DType::f32, tokens * experts, kernel, "score");
  require_vector(index, DType::i32, tokens * index.cols(), kernel, "index");
  require_vector(density, DType::f32, batch * experts, kernel, "density");
  require_vector(loss, DType::f32, 1, kernel, "loss");
  const ArenaScope scope(workspace);
  auto* partial = workspace.allocate(DType::f32, {batch * chunks, experts}).as<float>();
  count_density(exec, index.as<int32_t>(), batch, sequence * index.cols(), experts, density.as<float>());
  add_probabilities(exec, score.as<float>(), batch, sequence, experts, chunks, partial);
  finish_loss(exec, partial, density.as<float>(), batch, sequence, experts, chunks, lambda,
              loss_mode == Write::accumulate, loss.as<float>());
}

void load_balance_backward(const Exec& exec, TensorView score, TensorView density, float lambda, ScoreFunction function,
                           TensorView dlogits) {
  constexpr auto kernel = "load_balance_backward";
  const long tokens = score.rows(), experts = score.cols(), batch = density.rows();
  require(batch >= 1 && tokens % batch == 0 && tokens > 0,
          "load_balance_backward: {} tokens are not {} sequences of one length.", tokens, batch);
  require_vector(score, DType::f32, tokens * experts, kernel, "score");
  require_vector(density, DType::f32, batch * experts, kernel, "density");
  require_vector(dlogits, DType::f32, tokens * experts, kernel, "dlogits");
  // loss = lambda X / B sum over b, e of density * mean over s of p: a token's share of it
  const auto factor = static_cast<float>(static_cast<double>(lambda) * experts / static_cast<double>(tokens));
  with_score_function(function, [&]<ScoreFunction F>() {
    balance_backward_rows<F>(exec, score.as<float>(), density.as<float>(), factor, tokens, tokens / batch, experts,
                             dlogits.as<float>());
  });
}

void expert_counts(const Exec& exec, TensorView offsets, TensorView counts, Write mode) {
  const long experts = counts.numel();
  require_vector(counts, DType::i32, experts, "expert_counts", "counts");
  require_vector(offsets, DType::i32, experts + 1, "expert_counts", "offsets");
  count_experts(exec, offsets.as<int32_t>(), experts, mode == Write::accumulate, counts.as<int32_t>());
}

void router_bias_update(const Exec& exec, TensorView counts, float rate, TensorView bias) {
  const long experts = counts.numel();
  require_vector(counts, DType::i32, experts, "router_bias_update", "counts");
  require_vector(bias, DType::f32, experts, "router_bias_update", "bias");
  update_bias(exec, counts.as<int32_t>(), experts, rate, bias.as<float>());
}

}  // namespace kvant
