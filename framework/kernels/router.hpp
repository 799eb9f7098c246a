// Router of a mixture of experts: score, choice of K experts, combine weights. Source:
// reference/maxtext-semantics.md 2.3 (DeepSeek-V3, arXiv 2412.19437).
//   score  = f(logit), f = identity, softmax over the experts, sigmoid, sqrt(softplus)
//   choice = the K largest of score + bias (bias only where bias_in_selection), ties to the lower index; with groups
//   only
//            inside the topk_groups groups whose two best biased scores have the largest sum
//   weight = score without bias at the choice, then
//            deepseek:  sigmoid and sqrtsoftplus are divided by (their sum + 1e-20); all times `scaling`
//            otherwise: softmax over the K values; norm_topk divides by their sum; times `scaling`
#pragma once

#include "tensor/tensor.hpp"
#include "tensor/write.hpp"

namespace kvant {

struct Exec;

enum class ScoreFunction : uint8_t { identity, softmax, sigmoid, sqrtsoftplus };

struct RouterConfig {
  int experts = 0;  ///< X
  int k = 0;        ///< K
  ScoreFunction score = ScoreFunction::sigmoid;
  bool bias_in_selection = false;
  int groups = 0;       ///< 0: no groups; else divides X, at most 64
  int topk_groups = 0;  ///< groups kept
  bool norm_topk = false;
  float scaling = 1.0f;
  bool deepseek = true;
};

/// Refuses what cannot be routed (K > X, groups that do not divide X, kept groups with fewer than K experts, …).
void check(const RouterConfig& config);

/// logits [T,X] float32, bias [X] float32 (empty unless bias_in_selection) -> score [T,X] float32, index [T,K] int32
/// (by falling biased score), weight [T,K] float32. A logit or biased score that is not finite scores 0, ranks behind
/// all finite ones and adds 1 to nonfinite [1] int32; index holds K distinct experts in any case. score may be logits.
void router_forward(const Exec& exec, TensorView logits, TensorView bias, const RouterConfig& config, TensorView score,
                    TensorView index, TensorView weight, TensorView nonfinite);

/// score, index, dweight [T,K] -> dlogits [T,X] float32. The choice and the bias have no gradient.
void router_backward(const Exec& exec, TensorView score, TensorView index, TensorView dweight,
                     const RouterConfig& config, TensorView dlogits, Write mode);

}  // namespace kvant
