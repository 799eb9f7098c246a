// MatmulSite: one place in a model where an activation meets a weight (or, for attention, another activation); SiteTable: all of
// them in the order of the forward pass. Building a model names sites and shapes and allocates nothing.
#pragma once

#include "ops/matmul_op.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvant {

enum class SiteKind : uint8_t {
  linear,     ///< op dot_general, w [k,n]
  grouped,    ///< op gmm, w [G,k,n]: routed experts
  attention,  ///< op einsum of two activations: always plain
};

struct MatmulSite {
  std::string path;  ///< the reference's scanned spelling, without the layer's number: decoder/moe_layers/self_attention/wq_b
  int layer = -1;    ///< number within its stack (decoder/moe_layers 0, 1, …); -1 where there is one only
  std::string op;    ///< op name with the running number inside its module: dot_general0, gmm, einsum0
  SiteKind kind = SiteKind::linear;
  int64_t k = 0, n = 0;
  int64_t groups = 0;          ///< experts of a grouped site
  double rows_per_token = 1;   ///< routed experts: top-k; others 1
  DType compute = DType::f32;  ///< type the weight is rounded to before a plain product (the model's dtype; f32 for a router in f32)
  WeightRef weight;
  std::unique_ptr<MatmulOp> bound;  ///< the plain op until a plan binds another

  /// Op name without its running number: what rules are written for.
  std::string op_name() const;
  /// path with the layer's number, as an unscanned model spells it: decoder/moe_layers_1/self_attention/wq_b.
  std::string numbered_path() const;
  /// Multiply-add pairs times two of one forward pass over this many tokens.
  double forward_flops(double tokens) const { return 2.0 * tokens * rows_per_token * static_cast<double>(k) * static_cast<double>(n); }

  MatmulOp& op_ref() const;
};

/// Sites belong to the layers of the model; the table lists them. Addresses stay valid as long as the model lives.
class SiteTable {
 public:
  void add(MatmulSite& site) { sites_.push_back(&site); }
  const std::vector<MatmulSite*>& sites() const { return sites_; }

 private:
  std::vector<MatmulSite*> sites_;
};

}  // namespace kvant
