// Scheme (plugin kind): what the configuration's `quantization = "name"` stands for: a list of rules and, if it brings
// a number format of its own, the codec of that. A scheme never sees the model; the plan matches its rules with the
// sites.
#pragma once

#include "config/document.hpp"
#include "config/settings.hpp"
#include "plugin/registry.hpp"
#include "quant/codec.hpp"
#include "quant/rule.hpp"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::quant {

class Scheme {
 public:
  using PluginInterface = Scheme;
  static constexpr plugin::Kind plugin_kind = plugin::Kind::scheme;
  virtual ~Scheme();

  /// The name that a configuration asks for it by: what it was registered as. Told by whoever gets it from the
  /// registry.
  const std::string& name() const { return name_; }
  void set_name(const std::string& name) { name_ = name; }

  /// One line for the log: what it does, without its name.
  virtual std::string description() const = 0;
  /// The rules in order, from the settings of [quant].
  /// Throws UsageError for a setting that it would otherwise ignore, saying what to use instead.
  virtual std::vector<Rule> rules(const config::QuantSettings& settings) const = 0;

  /// The codec of a qtype that the rules name, or null: one of Kvant's own (quant/codec.hpp).
  virtual const Codec* codec(std::string_view qtype) const;
  /// The same for who uses it: whatever the plugin throws, now or in a step, becomes a sentence that names it.
  const Codec* guarded_codec(std::string_view qtype) const;
  /// Takes the keys of [quant.plugins.<name>]. The default takes none, so that any key there is refused.
  virtual void configure(config::Section& section);

 private:
  std::string name_;
  mutable std::map<std::string, std::unique_ptr<Codec>, std::less<>> guarded_;
};

/// The scheme of this name, its plugin loaded if need be.
Scheme& use_scheme(const std::string& name);

// ---- Rules to start from (scheme_rules.cpp) -------------------------------------------------------------------------

/// Throws UsageError for every flag of [quant] that is set although the scheme does not read it. `scope`: what the scheme
/// does, "quantizes the dense products of the layers with absmax"; `instead`: who reads such flags.
struct FlagsRead {
  bool calibrations = false;   ///< of weight, activation and gradients
  bool bwd_dtype = false;      ///< bwd_quantization_dtype
  bool delayed = false;        ///< bwd_delayed_scaling
  bool mtp = false, logits = false;
  bool rounding = false;       ///< bwd_stochastic_rounding
  bool shards = false;         ///< quantization_local_shard_count
};
void refuse_unread_flags(const config::QuantSettings& settings, const FlagsRead& reads, const std::string& scope,
                         const std::string& instead);

/// The types of a scheme that covers what the reference's fp8_full covers.
struct FullTypes {
  std::string weight, act, grad_input, grad_weight;
  bool reads_bwd_dtype = false;  ///< bwd_quantization_dtype had a say in the last two
};

/// Rules of the shape of fp8_full: dense and expert products of all layers, with MTP, logits and router as the flags
/// say, calibrations from the flags.
std::vector<Rule> full_rules(const config::QuantSettings& settings, const FullTypes& types);
/// Rules of the shape of int8 and fp8: dense products of the layers only, absmax. Refuses the flags that it does not
/// read.
std::vector<Rule> dense_rules(const config::QuantSettings& settings, const std::string& qtype);
/// The same shape with delayed scaling: the range of each operand from a history of its maxima (fp8_gpu, fp8_nanoo).
std::vector<Rule> delayed_rules(const config::QuantSettings& settings, const std::string& forward, const std::string& gradient);
/// A rule that leaves what it matches plain and says why.
Rule plain_rule(const config::QuantSettings& settings, std::string path, std::vector<std::string> ops, std::string reason);

/// The reference's older path, use_qwix_quantization = false: int8, int8w, int4w, intmp, fp8, nanoo_fp8.
std::vector<Rule> legacy_rules(const config::QuantSettings& settings);

}  // namespace kvant::quant
