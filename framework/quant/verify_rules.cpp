#include "quant/verify_rules.hpp"

#include "base/error.hpp"
#include "quant/detail/recording.hpp"
#include "quant/resolve.hpp"
#include "quant/rule.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string_view>

namespace kvant::quant {
namespace {

using nlohmann::json;

/// Each field of a rule that says something about matching or types; the rest (tiles) decides neither.
Rule rule_of(const json& given) {
  const auto text = [&](const char* key) {
    const auto found = given.find(key);
    return found == given.end() || found->is_null() ? std::string() : found->get<std::string>();
  };
  Rule rule;
  rule.module_path = given.at("module_path");
  rule.op_names = given.at("op_names").get<std::vector<std::string>>();
  rule.weight_qtype = text("weight_qtype");
  rule.act_qtype = text("act_qtype");
  rule.bwd_qtype = text("bwd_qtype");
  rule.origin = "a recorded rule";
  return rule;
}

/// -1: null.
int64_t index_or_none(const json& value, std::size_t count) {
  if (value.is_null()) return -1;
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= count) refuse("{} is the index of none of {} rules.", value.dump(), count);
  return static_cast<int64_t>(value.get<uint64_t>());
}

class RulesVerifier {
 public:
  RulesVerifier(const std::string& path, const json& file) : file_(file) {
    if (file.at("format") != "kvant-golden/1" || file.at("kind") != "rules")
      refuse("{}: format {}, kind {} is not verified by this version; of JSON it reads \"kvant-golden/1\", kind \"rules\".", path,
             file.at("format").dump(), file.at("kind").dump());
    for (const json& call : file.at("calls")) calls_.push_back({call.at("path"), call.at("op")});
  }

  VerifiedFile run() {
    for (const json& scenario : file_.at("scenarios")) verify(scenario);
    return std::move(result_);
  }

 private:
  void verify(const json& scenario) {
    const std::string name = scenario.at("name");
    std::vector<Rule> rules;
    for (const json& rule : scenario.at("rules")) rules.push_back(rule_of(rule));
    const std::vector<int> matched = match_as_reference(rules, calls_);
    const json &wanted = scenario.at("matched"), &quantized = scenario.at("quantized");
    if (!wanted.is_array() || !quantized.is_array() || wanted.size() != calls_.size() || quantized.size() != calls_.size())
      refuse("The scenario \"{}\" does not say of each of {} calls what it got.", name, calls_.size());
    double other_rules = 0, other_types = 0;
    std::vector<bool> used(rules.size()), recorded_used(rules.size(), true);
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      other_rules += matched[i] != index_or_none(wanted[i], rules.size());
      const bool ours = matched[i] >= 0 && !rules[static_cast<std::size_t>(matched[i])].weight_qtype.empty();
      other_types += quantized[i] != (ours ? 1 : 0);
      if (matched[i] >= 0) used[static_cast<std::size_t>(matched[i])] = true;
    }
    for (const json& index : scenario.at("unused_rules")) {
      const int64_t i = index_or_none(index, rules.size());
      if (i < 0) refuse("The scenario \"{}\" has null among its unused rules.", name);
      recorded_used[static_cast<std::size_t>(i)] = false;
    }
    double other_use = 0;
    for (std::size_t i = 0; i < used.size(); ++i) other_use += used[i] != recorded_used[i];
    add(name + "/matched", "calls that differ", other_rules);
    add(name + "/quantized", "calls that differ", other_types);
    add(name + "/unused_rules", "rules that differ", other_use);
    for (const auto& [call, error] : scenario.at("raises").items()) verify_refusal(name, call, rules, matched);
  }

  /// What the reference refuses to run, as a site of this kind.
  void verify_refusal(const std::string& name, const std::string& call, const std::vector<Rule>& rules, const std::vector<int>& matched) {
    const json number = detail::parsed(call);
    const auto at = static_cast<std::size_t>(index_or_none(number, calls_.size()));
    if (number.is_null() || matched[at] < 0) refuse("The scenario \"{}\" refuses to run the call {}, which no rule matches.", name, call);
    MatmulSite site;
    site.path = calls_[at].path;
    site.op = calls_[at].op;
    site.kind = calls_[at].op == "ragged_dot" ? SiteKind::grouped : SiteKind::linear;
    site.k = site.n = 128;
    site.groups = site.kind == SiteKind::grouped ? 8 : 0;
    bool refused = false;
    try {
      resolve_recipe(rules[static_cast<std::size_t>(matched[at])], site, nullptr, "ieee");
    } catch (const UsageError&) {
      refused = true;
    }
    add(name + "/raises/" + call, "accepted", refused ? 0 : 1);
  }

  void add(const std::string& tensor, const char* measure, double error) { result_.tensors.push_back({tensor, measure, error, 0}); }

  const json& file_;
  std::vector<ReferenceCall> calls_;
  VerifiedFile result_;
};

}  // namespace

bool is_json_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<char, 8> head{};
  in.read(head.data(), head.size());
  const std::string_view text(head.data(), static_cast<std::size_t>(in.gcount()));
  // The length of a safetensors header fills eight bytes and ends in zeros.
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' && text.find('\0') == std::string_view::npos;
}

VerifiedFile verify_rules(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  try {
    const json file = detail::parsed(std::string{std::istreambuf_iterator<char>(in), {}});
    return RulesVerifier(path, file).run();
  } catch (const json::exception& e) {
    refuse("{}: the file is not described as a table of rules is: {}.", path, e.what());
  } catch (const Error& e) {
    if (std::string_view(e.what()).find(path) != std::string_view::npos) throw;
    refuse("{}: {}", path, e.what());
  }
}

}  // namespace kvant::quant
