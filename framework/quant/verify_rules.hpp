// Recorded tables of rules: JSON of format "kvant-golden/1" and kind "rules".
//
//   calls:     [{path, op, …}]: the products of one forward pass, the same for every scenario.
//   scenarios: [{name, rules, matched, quantized, unused_rules, raises}]: rules are [{module_path, op_names, weight_qtype,
//              act_qtype, bwd_qtype, …}]; for each call, matched is the index of the rule that it got or null, quantized 1 if
//              that rule has a weight_qtype; unused_rules are those that no call got; raises names calls, by their index, that
//              the reference refuses to run under their rule, {index: error}.
#pragma once

#include "quant/verify.hpp"

namespace kvant::quant {

/// True for a file that begins as JSON does and as no safetensors file can.
bool is_json_file(const std::string& path);

/// Kvant's matcher, its protections off, on every scenario, and its refusal of what the reference refuses. Throws
/// UsageError, with the file's name, for a file that is not described like this.
VerifiedFile verify_rules(const std::string& path);

}  // namespace kvant::quant
