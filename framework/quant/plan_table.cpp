// How a plan is shown: a table for people, JSON for programs.
#include "quant/plan.hpp"
#include "quant/shared_noise.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace kvant::quant {
namespace {

constexpr Arm arms[] = {Arm::forward, Arm::dgrad, Arm::wgrad};
constexpr const char* arm_names[] = {"forward", "dx", "dw"};

std::string text_of(const Tile& tile) {
  return tile.size > 0 ? std::to_string(tile.size) : tile.parts > 1 ? "1/" + std::to_string(tile.parts) : "";
}

/// "row", "column[32]", "column[16x16]": what has a scale, and the tiles that divide it.
std::string shares_of(const OperandRecipe& o) {
  std::string text(name_of(o.granularity).substr(4));
  if (!o.tiled()) return text;
  const std::string along = o.contracted.given() ? text_of(o.contracted) : "all";
  return text + "[" + along + (o.other.given() ? "x" + text_of(o.other) : "") + "]";
}

/// ": int8 absmax", ": float8_e5m2 delayed(1024), uniform noise"
std::string type_of(const OperandRecipe& o) {
  std::string range = o.calibration.text;
  if (o.scaling == Scaling::delayed) range = fmt::format("delayed({})", o.delayed.history);
  if (o.scaling == Scaling::running_mean) range += " running mean";
  if (o.rounding != Rounding::nearest) range += fmt::format(", {} noise{}", name_of(o.rounding), o.noise_axes ? words_of_noise(*o.noise_axes) : "");
  return fmt::format(": {} {}", o.qtype, range);
}

/// "; int32", or each arm where they differ: "; forward int32, dx f32 of quantized values, dw f32".
std::string arms_of(const Recipe& r, bool grouped) {
  std::vector<std::string> texts;
  for (const Arm arm : arms) {
    texts.push_back(arithmetic_of(r, arm, grouped));
    if (r.transform(arm) != Transform::none) texts.back() += fmt::format(" after {}", name_of(r.transform(arm)));
  }
  if (texts[0] == texts[1] && texts[1] == texts[2]) return "; " + texts[0];
  std::string text;
  for (std::size_t i = 0; i < texts.size(); ++i) text += fmt::format("{} {} {}", i == 0 ? ";" : ",", arm_names[i], texts[i]);
  return text;
}

/// "w/column x/row dx/row dw/column: int8 absmax; int32", operands of one type and calibration together.
std::string brief(const Recipe& r, bool grouped) {
  const std::pair<const char*, const OperandRecipe*> operands[] = {
      {"w", &r.weight}, {"x", &r.act}, {"dx", &r.grad_input}, {"dw", &r.grad_weight}};
  std::string text, open;
  for (const auto& [name, operand] : operands) {
    if (!operand->quantized()) continue;
    const std::string type = type_of(*operand);
    if (!open.empty() && type != open)
      text += open + ", ";
    else if (!open.empty())
      text += " ";
    open = type;
    text += fmt::format("{}/{}", name, shares_of(*operand));
  }
  const auto again = [](Residual residual, const OperandRecipe& o, const char* operand_and_arm) {
    return residual == Residual::requantized ? fmt::format(", {}/{}{}", operand_and_arm, shares_of(o), type_of(o)) : "";
  };
  return text + open + again(r.weight_residual, r.weight_again, "w again for dx") + again(r.act_residual, r.act_again, "x again for dw") + arms_of(r, grouped);
}

/// Sites that differ in the layer alone are one line.
struct Line {
  const Decision* first = nullptr;
  int least = -1, most = -1;
  int count = 0;
  double flops_share = 0;
};

bool same_line(const Decision& a, const Decision& b) {
  return a.site->path == b.site->path && a.site->op == b.site->op && a.rule == b.rule && a.recipe == b.recipe &&
         a.reason == b.reason;
}

std::vector<Line> lines_of(const std::vector<Decision>& decisions) {
  std::vector<Line> lines;
  for (const Decision& d : decisions) {
    auto it = std::find_if(lines.begin(), lines.end(), [&](const Line& line) { return same_line(*line.first, d); });
    if (it == lines.end()) it = lines.insert(lines.end(), Line{&d, d.site->layer, d.site->layer, 0, 0});
    it->least = std::min(it->least, d.site->layer);
    it->most = std::max(it->most, d.site->layer);
    it->flops_share += d.flops_share;
    ++it->count;
  }
  return lines;
}

std::string layers_of(const Line& line) {
  if (line.most < 0) return "-";
  return line.least == line.most ? std::to_string(line.least) : fmt::format("{}-{}", line.least, line.most);
}

/// "int8", "int8 weights", "float8_e4m3fn with gradients in float8_e5m2", "… in float32".
std::string kind_of(const Recipe& r) {
  if (!r.act.quantized()) return r.weight.qtype + " weights alone";
  if (!r.grad_input.quantized()) return r.weight.qtype + " with gradients as they are";
  if (r.weight.qtype == r.grad_input.qtype) return r.weight.qtype;
  return r.weight.qtype + " with gradients in " + r.grad_input.qtype;
}

/// "71.2% int8, 28.8% plain" in the order of their shares.
std::string summary(const std::vector<Decision>& decisions) {
  std::vector<std::pair<std::string, double>> shares;
  for (const Decision& d : decisions) {
    const std::string name = d.recipe ? kind_of(*d.recipe) : "plain";
    auto it = std::find_if(shares.begin(), shares.end(), [&](const auto& s) { return s.first == name; });
    if (it == shares.end()) it = shares.insert(shares.end(), {name, 0.0});
    it->second += d.flops_share;
  }
  std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, share] : shares)
    text += fmt::format("{}{:.1f}% {}", text.empty() ? "" : ", ", 100 * share, name);
  return text;
}

nlohmann::ordered_json operand_json(const OperandRecipe* operand) {
  if (operand == nullptr || !operand->quantized()) return nullptr;
  return {{"qtype", operand->qtype},
          {"calibration", operand->calibration.text},
          {"granularity", std::string(name_of(operand->granularity))},
          {"tile", text_of(operand->contracted)},
          {"other_tile", text_of(operand->other)},
          {"scaling", std::string(name_of(operand->scaling))},
          {"rounding", std::string(name_of(operand->rounding))},
          {"noise_axes", operand->noise_axes ? nlohmann::ordered_json(*operand->noise_axes) : nlohmann::ordered_json(nullptr)}};
}

nlohmann::ordered_json arms_json(const Recipe* recipe, bool grouped) {
  if (recipe == nullptr) return nullptr;
  nlohmann::ordered_json json;
  for (std::size_t i = 0; i < std::size(arms); ++i)
    json[arm_names[i]] = {{"arithmetic", arithmetic_of(*recipe, arms[i], grouped)},
                          {"transform", std::string(name_of(recipe->transform(arms[i])))}};
  return json;
}

std::string listed_below(const std::string& title, const std::vector<std::string>& sentences) {
  if (sentences.empty()) return {};
  std::string text = title + "\n";
  for (const std::string& sentence : sentences) text += "  " + sentence + "\n";
  return text;
}

}  // namespace

std::string Plan::table() const {
  const std::vector<Line> lines = lines_of(decisions_);
  std::vector<std::array<std::string, 5>> cells{{"site", "op", "layers", "GEMM FLOPs", "rule"}};
  for (const Line& line : lines)
    cells.push_back({line.first->site->path, line.first->site->op, layers_of(line),
                     fmt::format("{:.2f}%", 100 * line.flops_share),
                     line.first->rule_index < 0 ? "-" : std::to_string(line.first->rule_index)});
  std::array<std::size_t, 5> width{};
  for (const auto& row : cells)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    for (std::size_t c = 0; c < 3; ++c) text += fmt::format("{:<{}}  ", cells[i][c], width[c]);
    for (std::size_t c = 3; c < 5; ++c) text += fmt::format("{:>{}}  ", cells[i][c], width[c]);
    const Decision* d = i == 0 ? nullptr : lines[i - 1].first;
    text += d == nullptr ? "arithmetic, or why plain" : d->recipe ? brief(*d->recipe, d->site->kind == SiteKind::grouped) : "plain: " + d->reason;
    text += "\n";
  }
  text += "\nRules, the first one that matches a site decides:\n";
  for (std::size_t i = 0; i < rules_.size(); ++i)
    text += fmt::format("  {}  {} ({}){}\n", i, rules_[i].module_path, rules_[i].origin,
                        rules_[i].leaves_plain() ? ": plain" : "");
  text += fmt::format("{} of {} sites quantized. Forward GEMM FLOPs: {}.\n", quantized_count(), decisions_.size(),
                      summary(decisions_));
  text += listed_below("Settings that mattered:", flags_that_mattered());
  text += listed_below("This version can show this plan, not run it:", unsupported());
  const std::string note = remark();
  return note.empty() ? text : text + note + "\n";
}

std::string Plan::json() const {
  nlohmann::ordered_json sites = nlohmann::ordered_json::array();
  for (const Decision& d : decisions_) {
    const Recipe* r = d.recipe.get();
    nlohmann::ordered_json site{{"path", d.site->path}, {"op", d.site->op}};
    site["layer"] = d.site->layer < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(d.site->layer);
    site["rule"] = d.rule.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(d.rule);
    site["weight"] = operand_json(r ? &r->weight : nullptr);
    site["act"] = operand_json(r ? &r->act : nullptr);
    site["grad_input"] = operand_json(r ? &r->grad_input : nullptr);
    site["grad_weight"] = operand_json(r ? &r->grad_weight : nullptr);
    site["arms"] = arms_json(r, d.site->kind == SiteKind::grouped);
    site["reason"] = d.reason;
    site["flops_share"] = d.flops_share;
    sites.push_back(std::move(site));
  }
  nlohmann::ordered_json all{{"sites", std::move(sites)}};
  all["settings_that_mattered"] = flags_that_mattered();
  all["unsupported"] = unsupported();
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string Plan::log_lines() const {
  std::string text;
  const MatmulSite* before = nullptr;
  for (const Decision& d : decisions_) {
    const MatmulSite& site = *d.site;
    const bool grouped = site.kind == SiteKind::grouped;
    const bool same_block = grouped && before != nullptr && before->kind == SiteKind::grouped && before->path == site.path &&
                            before->layer == site.layer;
    before = &site;
    if (same_block) continue;  // one lookup for the block's three products
    const bool answers = d.rule_index >= 0 && site.kind != SiteKind::attention &&
                         !rules_[static_cast<std::size_t>(d.rule_index)].explains;
    text += fmt::format("module='{}' op={} rule={}\n", site.numbered_path(), grouped ? site.op_name() : site.op,
                        answers ? std::to_string(d.rule_index) : "None");
  }
  return text;
}

std::vector<std::string> Plan::flags_that_mattered() const {
  std::vector<std::pair<std::string, int>> counts;
  const auto count = [&](const std::string& flag) {
    auto it = std::find_if(counts.begin(), counts.end(), [&](const auto& c) { return c.first == flag; });
    if (it == counts.end()) it = counts.insert(counts.end(), {flag, 0});
    ++it->second;
  };
  for (const Decision& d : decisions_) {
    if (d.rule_index < 0 || d.site->kind == SiteKind::attention) continue;
    for (const std::string& flag : rules_[static_cast<std::size_t>(d.rule_index)].flags) count(flag);
    if (!d.recipe) continue;
    if (settings_.quantize_router_proj && d.site->path.ends_with("/gate")) count("quantize_router_proj = true");
    if (!settings_.qwix_compat.empty()) count(fmt::format("qwix_compat = \"{}\"", settings_.qwix_compat));
    if (settings_.fp8_accumulation != "f32" && sums_codes(*d.recipe, d.site->kind == SiteKind::grouped)) count(fmt::format("fp8_accumulation = \"{}\"", settings_.fp8_accumulation));
  }
  std::vector<std::string> texts;
  for (const auto& [flag, sites] : counts) texts.push_back(fmt::format("{} ({} sites)", flag, sites));
  return texts;
}

}  // namespace kvant::quant
