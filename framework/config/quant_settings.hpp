// [quant] and [[quant.rules]] as plain data. Names are those of MaxText's flags and of Qwix' QtRule; what they mean for a
// product is quant/'s business, which also knows the number formats and calibrations that exist.
#pragma once

#include "config/document.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kvant::config {

/// Elements along an axis that share a scale: a count, or a share of the axis (1/tiles). Neither: no tiles.
struct TileSize {
  int64_t count = 0;
  double share = 0;
  bool given() const { return count > 0 || share > 0; }
  bool operator==(const TileSize&) const = default;
};
/// As the file writes it, "128" or "0.25".
std::string to_string(const TileSize& tile);

/// `tile_size`: of the contracted axis, or of axes by their numbers, the same numbers for both operands, as matrices:
/// activation [tokens, inputs], weight [inputs, outputs].
struct TileSetting {
  TileSize contracted;
  std::vector<std::pair<int64_t, TileSize>> axes;
  bool given() const { return contracted.given() || !axes.empty(); }
};

/// One [[quant.rules]] table. An empty type means: this operand stays as it is.
struct RuleSettings {
  std::string module_path = ".*";     ///< regular expression that matches a site's whole path
  std::vector<std::string> op_names;  ///< empty: every op
  std::string layers;                 ///< "2-5,7", "first:2", "last": empty: all
  bool optional = false;              ///< may match nothing

  std::string weight_qtype, act_qtype, bwd_qtype;
  std::string weight_calibration_method = "absmax", act_calibration_method = "absmax",
              bwd_calibration_method = "absmax";
  TileSetting tile_size;
  TileSize bwd_weight_grad_tile_size;
  bool disable_channelwise_axes = false;
  bool act_static_scale = false;
  std::vector<int64_t> act_batch_axes = {0};
  std::string bwd_stochastic_rounding;  ///< "" | uniform | low_bit_uniform
  std::vector<int64_t> channelwise_noise_axes = {0};
  std::string forward_transform, dgrad_transform, wgrad_transform;  ///< "" | hadamard16

  // additional_qt_config: dlhs is the gradient of the activation, drhs that of the weight.
  std::string dlhs_grad_qtype, drhs_grad_qtype;
  std::string dlhs_grad_calibration_method, drhs_grad_calibration_method;
  TileSize dlhs_tile_size, drhs_tile_size;
  std::string dlhs_residual_qtype, drhs_residual_qtype;
  bool use_original_residuals = false;
  bool disable_gradient_clipping = false;

  std::map<std::string, Place, std::less<>> places;  ///< of the keys that are given; "" = of the rule

  bool has(std::string_view key) const { return places.contains(key); }
  /// "run.toml:12:1" of the key, or of the rule where the key is not given.
  std::string place(std::string_view key = {}) const;
};

/// [quant]. Calibration strings: a method and its numbers, "absmax,0.9".
struct QuantSettings {
  /// "" = nothing is quantized; "rules" = what [[quant.rules]] or the short form say; otherwise the name of a scheme,
  /// built in or from a plugin. Not given: "rules" where the section holds rules or the short form.
  std::string quantization;
  bool use_qwix_quantization = true;  ///< false: the reference's older path (int8, int8w, int4w, intmp, fp8, nanoo_fp8)
  bool quantize_router_proj = false;
  bool quantize_mtp = false;
  bool quantize_logits_proj = false;
  std::vector<std::string> unquantized_modules;  ///< names of modules, literal, that stay plain
  std::string quant_cfg_path;                    ///< JSON file of intmp; relative to the file that names it
  std::string quantization_calibration_method;   ///< weight and activation together; "" = as the two below
  std::string weight_quantization_calibration_method = "absmax";
  std::string act_quantization_calibration_method = "absmax";
  std::string bwd_quantization_calibration_method = "absmax";
  std::string drhs_grad_quantization_calibration_method;  ///< "" = as bwd_quantization_calibration_method
  std::string bwd_quantization_dtype = "e5m2";            ///< e5m2 | e4m3, read by fp8_full
  bool bwd_delayed_scaling = false;                       ///< the gradient's range from a history, not from itself
  int64_t bwd_delayed_scaling_history = 1024;             ///< steps
  double bwd_delayed_scaling_margin = 1.0;
  double bwd_delayed_scaling_init = 1.0;                   ///< range of step 0
  std::string logits_proj_quant_calibration_method;       ///< "" = as the weight and activation methods
  std::string logits_proj_bwd_quant_calibration_method;   ///< "" = as the two gradient methods
  int64_t quantization_local_shard_count = -1;            ///< tiles of the weight gradient's token axis; -1 = 1
  std::string fp8_accumulation = "f32";                   ///< f32 | fp16x128 | fixed
  std::string qwix_compat;  ///< "" | "ieee" | "xla": the reference's arithmetic, with quotients or rounded reciprocals

  // The short form, instead of a scheme: one type for the trunk.
  std::string dtype;                  ///< qtype of weights and activations; "" = the short form is not used
  std::vector<std::string> patterns;  ///< expressions on paths; empty = every layer of the trunk
  std::string calibration = "absmax";
  TileSetting tile_size;
  std::string bwd_qtype;                ///< "" = gradients stay as they are

  std::string bwd_stochastic_rounding;  ///< "" | uniform | low_bit_uniform; read by schemes too

  std::vector<RuleSettings> rules;
  std::map<std::string, Place, std::less<>> places;  ///< of the keys that are given

  /// "run.toml:12:1: [quant] key" of a key, or "[quant] key" where no file gives it.
  std::string place(std::string_view key) const;
  /// The scheme's name; empty where no scheme is asked for.
  std::string scheme() const { return quantization == "rules" ? std::string() : quantization; }
  bool anything() const { return !quantization.empty(); }
};

}  // namespace kvant::config
