// The router's score functions and their derivatives, which are expressed in the score so that backward needs no
// logits.
#pragma once

#include "base/kokkos.hpp"
#include "kernels/math.hpp"
#include "kernels/router.hpp"

namespace kvant::detail {

/// Score of one logit; softmax is a matter of the whole row and not here.
template <ScoreFunction F>
KOKKOS_FORCEINLINE_FUNCTION float score_of(float z) {
  if constexpr (F == ScoreFunction::sigmoid) return fast_sigmoid(z);
  if constexpr (F == ScoreFunction::sqrtsoftplus) return square_root(fast_softplus(z));
  return z;
}

/// d(score) / d(logit) at a score. sqrtsoftplus: s = sqrt(ln(1 + e^z)), so ds/dz = (1 - e^(-s^2)) / (2 s), which is s /
/// 2 near 0.
template <ScoreFunction F>
KOKKOS_FORCEINLINE_FUNCTION float score_derivative(float s) {
  if constexpr (F == ScoreFunction::sigmoid) return s * (1.0f - s);
  if constexpr (F == ScoreFunction::sqrtsoftplus)
    return s < 1e-4f ? 0.5f * s : one_minus_exp_of_minus(s * s) / (2.0f * s);
  return 1.0f;
}

/// Calls f with the function as a template argument.
template <class F>
void with_score_function(ScoreFunction function, F&& f) {
  switch (function) {
    case ScoreFunction::identity:
      return f.template operator()<ScoreFunction::identity>();
    case ScoreFunction::softmax:
      return f.template operator()<ScoreFunction::softmax>();
    case ScoreFunction::sigmoid:
      return f.template operator()<ScoreFunction::sigmoid>();
    case ScoreFunction::sqrtsoftplus:
      return f.template operator()<ScoreFunction::sqrtsoftplus>();
  }
}

}  // namespace kvant::detail
