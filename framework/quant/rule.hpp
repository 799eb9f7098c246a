// Rule: which sites are quantized, and how. Rules are tried in order and the first one that matches a site decides; a
// rule without types means "leave plain". Names and meaning follow Qwix' QtRule.
#pragma once

#include "config/quant_settings.hpp"
#include "quant/recipe.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::quant {

struct Rule {
  std::string module_path =
      ".*";  ///< regular expression (Python's), full match of the site's path without layer number
  std::vector<std::string> op_names;  ///< dot_general, gmm, ragged_dot, einsum; empty: every op
  std::string layers;  ///< "2-5,7": numbers within the site's stack; "first:2", "last": of the decoder; empty: all

  std::string weight_qtype, act_qtype, bwd_qtype;  ///< all empty: leave plain; one empty: that operand stays as it is
  std::string drhs_qtype;      ///< of the gradient in the weight-gradient arm; empty: as bwd_qtype
  bool plain_wgrad = false;    ///< that arm alone stays as it is
  std::string weight_calibration = "absmax", act_calibration = "absmax", bwd_calibration = "absmax";
  std::string drhs_calibration;  ///< empty: as bwd_calibration
  bool half_step = false;        ///< integers: the range ends half a step beyond the largest code, as in the reference
  bool disable_channelwise_axes = false;  ///< one scale for each tensor instead of one for each row or column

  config::TileSetting act_tile, weight_tile;  ///< of x [tokens, inputs] and w [inputs, outputs]
  config::TileSize dgrad_tile, wgrad_tile;    ///< of the contracted axis of dx (outputs) and dw (tokens)
  bool act_static_scale = false;
  std::vector<int64_t> act_batch_axes = {0};
  std::optional<DelayedScaling> delayed_forward, delayed_backward;
  Rounding bwd_rounding = Rounding::nearest;
  std::vector<int64_t> noise_axes = {0};  ///< read with qwix_compat
  Transform forward_transform = Transform::none, dgrad_transform = Transform::none, wgrad_transform = Transform::none;
  std::string weight_residual_qtype, act_residual_qtype;  ///< of operands that are quantized again for a backward arm
  bool original_residuals = false;
  bool mask_gradients = true;

  bool optional = false;  ///< may match nothing; a rule of the user's that does is an error
  std::string origin;     ///< who made it: "scheme int8_full", "run.toml:12:1"
  std::string reason;     ///< of a rule without types: why, for the table
  bool explains = false;  ///< says why the rest stays plain; the reference has no such rule, there nothing matches
  std::string names;      ///< the module that the user named, where the expression was made from a name
  std::vector<std::string> flags;             ///< settings that made the rule what it is, "quantize_mtp = false"
  std::map<std::string, std::string> places;  ///< where a field was written, by its name in the file

  bool leaves_plain() const { return weight_qtype.empty() && act_qtype.empty() && bwd_qtype.empty(); }
  /// Where a field was written; the origin where it was not.
  const std::string& place(const std::string& field) const;
};

/// Where a site stands: its number within its stack, and the number of its layer in the whole decoder.
struct LayerPlace {
  int number = -1;  ///< decoder/moe_layers 0, 1, …; -1: there is one only
  int depth = -1;   ///< 0 … count - 1; -1: in no layer of the decoder
  int count = 0;    ///< layers of the decoder
};

/// A rule with its expressions compiled.
class RuleMatcher {
 public:
  /// Throws UsageError naming the place for an expression or a list of layers that is not valid.
  explicit RuleMatcher(const Rule& rule);
  RuleMatcher(RuleMatcher&&) noexcept;
  RuleMatcher& operator=(RuleMatcher&&) noexcept;
  ~RuleMatcher();

  /// op: the name without its running number.
  bool matches(std::string_view path, std::string_view op, const LayerPlace& layer) const;
  /// The same, whatever the layer.
  bool names(std::string_view path, std::string_view op) const;
  /// What the rule's layers name that is not there, in words, given the largest number of what it names and the decoder's layers;
  /// empty: nothing.
  std::string missing_layers(int largest, int count) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

/// The reference's own matching, without our protections: for each (path, op) the index of the first rule that matches,
/// or -1.
struct ReferenceCall {
  std::string path, op;
};
std::vector<int> match_as_reference(const std::vector<Rule>& rules, const std::vector<ReferenceCall>& calls);

}  // namespace kvant::quant
