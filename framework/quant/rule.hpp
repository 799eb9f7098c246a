// Rule: which sites are quantized, and how. Rules are tried in order and the first one that matches a site decides; a
// rule without types means "leave plain". Names and meaning follow Qwix' QtRule.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::quant {

struct Rule {
  std::string module_path =
      ".*";  ///< regular expression (Python's), full match of the site's path without layer number
  std::vector<std::string> op_names;  ///< dot_general, gmm, einsum; empty: every op
  std::string layers;  ///< "2-5,7": numbers within the site's stack; empty: all, also sites that have no number

  std::string weight_qtype, act_qtype, bwd_qtype;  ///< all empty: leave plain
  std::string drhs_qtype;                          ///< of the gradient in the weight-gradient arm; empty: as bwd_qtype
  std::string weight_calibration = "absmax", act_calibration = "absmax", bwd_calibration = "absmax";
  std::string drhs_calibration;  ///< empty: as bwd_calibration
  bool half_step = false;        ///< integers: the range ends half a step beyond the largest code, as in the reference
  bool disable_channelwise_axes = false;  ///< one scale for each tensor instead of one for each row or column

  bool optional = false;  ///< may match nothing; a rule of the user's that does is an error
  std::string origin;     ///< who made it: "scheme int8_full", "run.toml:12:1"
  std::string reason;     ///< of a rule without types: why, for the table

  bool leaves_plain() const { return weight_qtype.empty() && act_qtype.empty() && bwd_qtype.empty(); }
};

/// A rule with its expressions compiled.
class RuleMatcher {
 public:
  /// Throws UsageError naming the origin and the position for an expression or a list of layers that is not valid.
  explicit RuleMatcher(const Rule& rule);
  RuleMatcher(RuleMatcher&&) noexcept;
  RuleMatcher& operator=(RuleMatcher&&) noexcept;
  ~RuleMatcher();

  /// op: the name without its running number. layer: -1 where the site has none.
  bool matches(std::string_view path, std::string_view op, int layer) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace kvant::quant
