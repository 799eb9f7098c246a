#include "kernels/router.hpp"

#include "kernels/detail/lanes.hpp"
#include "kernels/detail/rows.hpp"
#include "kernels/detail/score.hpp"

namespace kvant {

using namespace detail;

namespace {

constexpr int most_groups = 64;

KOKKOS_FORCEINLINE_FUNCTION float nan_value() { return float_of(0x7fc00000u); }
KOKKOS_FORCEINLINE_FUNCTION float minus_infinity() { return float_of(0xff800000u); }

/// Scores of one row. Where the logit is not finite the score is NaN for now, which marks it until the choice has been
/// made.
template <ScoreFunction F>
KOKKOS_INLINE_FUNCTION void score_row(const float* z, long experts, float* score) {
  if constexpr (F == ScoreFunction::softmax) {
    const float largest = value_of_order_key(lane_max(
        experts, lowest_order_key, [=](long e) { return is_finite(z[e]) ? order_key(z[e]) : lowest_order_key; }));
    const float total = lane_sum(experts, [=](long e) { return is_finite(z[e]) ? fast_exp(z[e] - largest) : 0.0f; });
    KVANT_INDEPENDENT
    for (long e = 0; e < experts; ++e) score[e] = is_finite(z[e]) ? fast_exp(z[e] - largest) / total : nan_value();
  } else {
    KVANT_INDEPENDENT
    for (long e = 0; e < experts; ++e) score[e] = is_finite(z[e]) ? score_of<F>(z[e]) : nan_value();
  }
}

/// What the choice goes by: score + bias, minus infinity where that is not finite.
struct Ranking {
  const float* score;
  const float* bias;  // or null
  KOKKOS_FORCEINLINE_FUNCTION float raw(long e) const { return bias != nullptr ? score[e] + bias[e] : score[e]; }
  KOKKOS_FORCEINLINE_FUNCTION float operator()(long e) const {
    const float v = raw(e);
    return is_finite(v) ? v : minus_infinity();
  }
};

/// Keeps the `room` largest of what it is offered, in falling order, the earlier of two equals first.
template <class Index>
KOKKOS_INLINE_FUNCTION void offer(float value, Index what, int room, int& held, float* values, Index* indices) {
  int at = held;
  while (at > 0 && values[at - 1] < value) --at;
  if (at == room) return;
  if (held < room) ++held;
  for (int i = held - 1; i > at; --i) {
    values[i] = values[i - 1];
    indices[i] = indices[i - 1];
  }
  values[at] = value;
  indices[at] = what;
}

/// Bit g is set where group g is kept.
KOKKOS_INLINE_FUNCTION uint64_t kept_groups(const Ranking& rank, int groups, int keep, long per_group) {
  float values[most_groups];
  int kept[most_groups];
  int held = 0;
  for (int g = 0; g < groups; ++g) {
    float best = minus_infinity(), second = minus_infinity();
    for (long e = g * per_group; e < (g + 1) * per_group; ++e) {
      const float v = rank(e);
      if (v > best) {
        second = best;
        best = v;
      } else if (v > second) {
        second = v;
      }
    }
    offer(per_group > 1 ? best + second : best, g, keep, held, values, kept);
  }
  uint64_t mask = 0;
  for (int i = 0; i < held; ++i) mask |= uint64_t{1} << kept[i];
  return mask;
}

/// The K chosen experts of a row; `value` is scratch of K.
KOKKOS_INLINE_FUNCTION void choose(const Ranking& rank, const RouterConfig& c, int32_t* index, float* value) {
  const long per_group = c.groups > 0 ? c.experts / c.groups : c.experts;
  const uint64_t kept = c.groups > 0 ? kept_groups(rank, c.groups, c.topk_groups, per_group) : 1;
  int held = 0;
  for (long g = 0; g * per_group < c.experts; ++g) {
    if ((kept >> g & 1u) == 0) continue;
    for (long e = g * per_group; e < (g + 1) * per_group; ++e) {
      const float v = rank(e);
      if (held == c.k && !(v > value[c.k - 1])) continue;
      offer(v, static_cast<int32_t>(e), c.k, held, value, index);
    }
  }
}

/// Weights without the scaling, which both directions multiply in.
KOKKOS_INLINE_FUNCTION void raw_weights(const RouterConfig& c, const float* score, const int32_t* index,
                                        float* weight) {
  for (int k = 0; k < c.k; ++k) weight[k] = score[index[k]];
  float total = 0.0f;
  if (c.deepseek) {
    if (c.score != ScoreFunction::sigmoid && c.score != ScoreFunction::sqrtsoftplus) return;
    for (int k = 0; k < c.k; ++k) total += weight[k];
    for (int k = 0; k < c.k; ++k) weight[k] /= total + 1e-20f;
    return;
  }
  float largest = weight[0];
  for (int k = 1; k < c.k; ++k) largest = weight[k] > largest ? weight[k] : largest;
  for (int k = 0; k < c.k; ++k) weight[k] = fast_exp(weight[k] - largest);
  for (int k = 0; k < c.k; ++k) total += weight[k];
  for (int k = 0; k < c.k; ++k) weight[k] /= total;
  if (!c.norm_topk) return;
  total = 0.0f;
  for (int k = 0; k < c.k; ++k) total += weight[k];
  for (int k = 0; k < c.k; ++k) weight[k] /= total;
}

template <ScoreFunction F>
void route_rows(const Exec& exec, const float* logits, const float* bias, RouterConfig c, long rows, float* score,
                int32_t* index, float* weight, int32_t* nonfinite) {
  Kokkos::parallel_for(
      "kvant::router_forward", Range(exec.space, 0, rows), KOKKOS_LAMBDA(const long t) {
        float* s = score + t * c.experts;
        score_row<F>(logits + t * c.experts, c.experts, s);
        const Ranking rank{s, bias};
        int32_t bad = 0;
        for (long e = 0; e < c.experts; ++e) bad += is_finite(rank.raw(e)) ? 0 : 1;
        choose(rank, c, index + t * c.k, weight + t * c.k);
        if (bad > 0) {
          for (long e = 0; e < c.experts; ++e) s[e] = is_finite(s[e]) ? s[e] : 0.0f;
          Kokkos::atomic_add(nonfinite, bad);
        }
        raw_weights(c, s, index + t * c.k, weight + t * c.k);
        for (int k = 0; k < c.k; ++k) weight[t * c.k + k] *= c.scaling;
      });
}

/// d(loss) / d(score of choice k), from the gradients of the weights: `dot` is the sum that normalisation brings in.
struct WeightGradient {
  float scaling, inverse_total, dot;
  bool normalised, softmax;
  float largest;

  KOKKOS_INLINE_FUNCTION WeightGradient(const RouterConfig& c, const float* s, const int32_t* index, const float* dw)
      : scaling(c.scaling), inverse_total(1.0f), dot(0.0f), softmax(!c.deepseek), largest(0.0f) {
    normalised = softmax || c.score == ScoreFunction::sigmoid || c.score == ScoreFunction::sqrtsoftplus;
    if (!normalised) return;
    if (softmax) {
      largest = s[index[0]];
      for (int k = 1; k < c.k; ++k) largest = s[index[k]] > largest ? s[index[k]] : largest;
    }
    float total = softmax ? 0.0f : 1e-20f;
    for (int k = 0; k < c.k; ++k) total += share(s[index[k]]);
    inverse_total = 1.0f / total;
    for (int k = 0; k < c.k; ++k) dot += dw[k] * share(s[index[k]]) * inverse_total;
  }
  KOKKOS_FORCEINLINE_FUNCTION float share(float s) const { return softmax ? fast_exp(s - largest) : s; }
  KOKKOS_FORCEINLINE_FUNCTION float operator()(float s, float dw) const {
    if (!normalised) return scaling * dw;
    const float outer = softmax ? share(s) * inverse_total : inverse_total;
    return scaling * outer * (dw - dot);
  }
};

template <ScoreFunction F>
KOKKOS_INLINE_FUNCTION void route_backward_row(const RouterConfig& c, const float* s, const int32_t* index,
                                               const float* dw, bool accumulate, float* dz) {
  const WeightGradient gradient(c, s, index, dw);
  float pull = 0.0f;  // softmax: every logit feels every score
  if constexpr (F == ScoreFunction::softmax)
    for (int k = 0; k < c.k; ++k) pull += gradient(s[index[k]], dw[k]) * s[index[k]];
  if (!accumulate)
    for (long e = 0; e < c.experts; ++e) dz[e] = 0.0f;
  if constexpr (F == ScoreFunction::softmax)
    for (long e = 0; e < c.experts; ++e) dz[e] -= s[e] * pull;
  for (int k = 0; k < c.k; ++k) {
    const float here = s[index[k]];
    dz[index[k]] += gradient(here, dw[k]) * (F == ScoreFunction::softmax ? here : score_derivative<F>(here));
  }
}

template <ScoreFunction F>
void route_backward_rows(const Exec& exec, const float* score, const int32_t* index, const float* dweight,
                         RouterConfig c, long rows, bool accumulate, float* dlogits) {
  Kokkos::parallel_for(
      "kvant::router_backward", Range(exec.space, 0, rows), KOKKOS_LAMBDA(const long t) {
        route_backward_row<F>(c, score + t * c.experts, index + t * c.k, dweight + t * c.k, accumulate,
                              dlogits + t * c.experts);
      });
}

}  // namespace

void check(const RouterConfig& c) {
  if (c.experts < 1 || c.k < 1 || c.k > c.experts)
    refuse("num_experts_per_tok is {} and num_experts is {}; it must be at least 1 and at most the number of experts.",
           c.k, c.experts);
  if (c.groups == 0) return;
  if (c.groups < 0 || c.groups > most_groups || c.experts % c.groups != 0)
    refuse("n_routing_groups is {} with {} experts; it must divide the experts and be at most {}.", c.groups, c.experts,
           most_groups);
  if (c.topk_groups < 1 || c.topk_groups > c.groups || c.topk_groups * (c.experts / c.groups) < c.k)
    refuse(
        "topk_routing_group is {} of {} groups of {} experts; at least num_experts_per_tok = {} experts must lie in "
        "the kept groups.",
        c.topk_groups, c.groups, c.experts / c.groups, c.k);
}

void router_forward(const Exec& exec, TensorView logits, TensorView bias, const RouterConfig& config, TensorView score,
                    TensorView index, TensorView weight, TensorView nonfinite) {
  constexpr auto kernel = "router_forward";
  check(config);
  const long rows = logits.rows();
  require_vector(logits, DType::f32, rows * config.experts, kernel, "logits");
  require_vector(score, DType::f32, rows * config.experts, kernel, "score");
  require_vector(index, DType::i32, rows * config.k, kernel, "index");
  require_vector(weight, DType::f32, rows * config.k, kernel, "weight");
  require_vector(nonfinite, DType::i32, 1, kernel, "nonfinite");
  require(config.bias_in_selection == (bias.data != nullptr),
          "router_forward: bias_in_selection is {} and the bias is {}.", config.bias_in_selection,
          bias.data != nullptr ? "given" : "empty");
  const float* b = optional_vector(bias, config.experts, kernel, "bias");
  with_score_function(config.score, [&]<ScoreFunction F>() {
    route_rows<F>(exec, logits.as<float>(), b, config, rows, score.as<float>(), index.as<int32_t>(), weight.as<float>(),
                  nonfinite.as<int32_t>());
  });
}

void router_backward(const Exec& exec, TensorView score, TensorView index, TensorView dweight,
                     const RouterConfig& config, TensorView dlogits, Write mode) {
  constexpr auto kernel = "router_backward";
  check(config);
  const long rows = score.rows();
  require_vector(score, DType::f32, rows * config.experts, kernel, "score");
  require_vector(index, DType::i32, rows * config.k, kernel, "index");
  require_vector(dweight, DType::f32, rows * config.k, kernel, "dweight");
  require_vector(dlogits, DType::f32, rows * config.experts, kernel, "dlogits");
  with_score_function(config.score, [&]<ScoreFunction F>() {
    route_backward_rows<F>(exec, score.as<float>(), index.as<int32_t>(), dweight.as<float>(), config, rows,
                           mode == Write::accumulate, dlogits.as<float>());
  });
}

}  // namespace kvant
