// How a plan is shown: a table for people, JSON for programs.
#include "quant/plan.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace kvant::quant {
namespace {

/// "w/column x/row dx/row dw/column: int8 absmax", operands of one type and calibration together.
std::string brief(const Recipe& r) {
  const std::pair<const char*, const OperandRecipe*> operands[] = {
      {"w", &r.weight}, {"x", &r.act}, {"dx", &r.grad_input}, {"dw", &r.grad_weight}};
  std::string text, open;
  for (const auto& [name, operand] : operands) {
    const std::string type = fmt::format(": {} {}", operand->qtype, operand->calibration.text);
    if (!open.empty() && type != open)
      text += open + ", ";
    else if (!open.empty())
      text += " ";
    open = type;
    text += fmt::format("{}/{}", name, name_of(operand->granularity).substr(4));
  }
  return text + open;
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

/// "71.2% int8, 28.8% plain" in the order of their shares.
std::string summary(const std::vector<Decision>& decisions) {
  std::vector<std::pair<std::string, double>> shares;
  for (const Decision& d : decisions) {
    std::string name = "plain";
    if (d.recipe)
      name = d.recipe->weight.qtype == d.recipe->grad_input.qtype
                 ? d.recipe->weight.qtype
                 : d.recipe->weight.qtype + " with gradients in " + d.recipe->grad_input.qtype;
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
  if (operand == nullptr) return nullptr;
  return {{"qtype", operand->qtype},
          {"calibration", operand->calibration.text},
          {"granularity", std::string(name_of(operand->granularity))}};
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
    text += d == nullptr ? "arithmetic, or why plain" : d->recipe ? brief(*d->recipe) : "plain: " + d->reason;
    text += "\n";
  }
  text += "\nRules, the first one that matches a site decides:\n";
  for (std::size_t i = 0; i < rules_.size(); ++i)
    text += fmt::format("  {}  {} ({}){}\n", i, rules_[i].module_path, rules_[i].origin,
                        rules_[i].leaves_plain() ? ": plain" : "");
  text += fmt::format("{} of {} sites quantized. Forward GEMM FLOPs: {}.\n", quantized_count(), decisions_.size(),
                      summary(decisions_));
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
    site["reason"] = d.reason;
    site["flops_share"] = d.flops_share;
    sites.push_back(std::move(site));
  }
  return nlohmann::ordered_json{{"sites", std::move(sites)}}.dump(2);
}

}  // namespace kvant::quant
