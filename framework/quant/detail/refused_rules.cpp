#include "quant/detail/refused_rules.hpp"

#include "quant/calibrator.hpp"
#include "quant/detail/recorded_product.hpp"
#include "quant/qtype.hpp"
#include "quant/resolve.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace kvant::quant::detail {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 4> calibrations_of_reference{"absmax", "minmax", "rms", "fixed"};

/// A calibration that Kvant has and the reference has not.
bool only_here(const std::string& calibration) {
  const std::string method = calibration.substr(0, calibration.find(','));
  if (std::ranges::find(calibrations_of_reference, method) != calibrations_of_reference.end()) return false;
  try {
    parse_calibration(calibration);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

config::TileSize tile_size(const json& value) {
  config::TileSize tile;
  if (value.is_null() || value == 0) return tile;
  const AxisTile given = axis_tile(0, value);
  tile.count = given.size;
  tile.share = given.fraction;
  return tile;
}

/// The site that the products of a layout would be: tokens by inputs, inputs by outputs.
struct Place {
  MatmulSite site;
  int64_t tokens = 0;
};
std::optional<Place> place_of(const Recording& r, const std::string& layout) {
  std::vector<std::string> names = parsed(r.file().metadata("cases"));
  for (const std::string& name : names) {
    const json entry = parsed(r.file().metadata("case/" + name));
    if (entry.at("layout") != layout) continue;
    const Shape x = r.shape_of(entry.at("lhs")), w = r.shape_of(entry.at("rhs"));
    const DotAxes axes = dot_axes_from(entry.at("dimension_numbers"), x, w);
    if (!axes.left_batch.empty() || axes.right_contract != std::vector<int>{0} || axes.left_contract != std::vector<int>{x.rank - 1}) return {};
    Place place;
    place.site.path = "recorded/" + layout;
    place.site.op = "dot_general0";
    place.site.k = w[0];
    place.site.n = w.numel() / std::max<int64_t>(1, w[0]);
    place.tokens = x.numel() / std::max<int64_t>(1, w[0]);
    return place;
  }
  return {};
}

/// A rule of the reference's as one of Kvant's; the reason where there is none.
struct Translated {
  Rule rule;
  std::string impossible;
};
Translated translate(const json& given) {
  Translated t;
  Rule& rule = t.rule;
  for (const auto& [key, value] : given.items()) {
    if (key == "weight_qtype")
      rule.weight_qtype = value;
    else if (key == "act_qtype")
      rule.act_qtype = value;
    else if (key == "bwd_qtype")
      rule.bwd_qtype = value;
    else if (key == "weight_calibration_method")
      rule.weight_calibration = value;
    else if (key == "act_calibration_method")
      rule.act_calibration = value;
    else if (key == "bwd_calibration_method")
      rule.bwd_calibration = value;
    else if (key == "tile_size")
      rule.act_tile.contracted = rule.weight_tile.contracted = tile_size(value);
    else if (key == "bwd_weight_grad_tile_size")
      rule.wgrad_tile = tile_size(value);
    else
      t.impossible = fmt::format("the field {} is not translated", key);
  }
  for (const std::string& calibration : {rule.weight_calibration, rule.act_calibration, rule.bwd_calibration})
    if (only_here(calibration)) t.impossible = fmt::format("the reference does not know the calibration \"{}\"; Kvant has it", calibration);
  const QtypeFacts* facts = find_qtype(rule.weight_qtype);
  if (facts != nullptr && facts->block > 0 && !rule.weight_tile.given())
    t.impossible = fmt::format("{} without tiles: here a block is part of the type", rule.weight_qtype);
  return t;
}

bool is_refused(const Rule& rule, const Place& place) {
  try {
    return !indivisible(resolve_recipe(rule, place.site, nullptr, "ieee"), place.site, place.tokens).empty();
  } catch (const UsageError&) {
    return true;
  }
}

void verify(Recording& r, const std::string& name, const json& entry) {
  const Translated t = translate(entry.at("rule"));
  const std::optional<Place> place = place_of(r, entry.at("layout"));
  const std::string title = "rejected/" + name;
  if (!t.impossible.empty()) return r.not_offered(title, t.impossible);
  if (!place) return r.not_offered(title, "no case of its layout is tokens by inputs with inputs by outputs");
  r.add(title, "accepted", is_refused(t.rule, *place) ? 0 : 1, 0);
}

}  // namespace

void verify_refused_rules(Recording& r) {
  if (!r.file().metadata().contains("rejected")) return;
  json rejected;
  r.described("The metadata \"rejected\"", [&] {
    rejected = parsed(r.file().metadata("rejected"));
    if (!rejected.is_object()) refuse("It is no JSON object.");
  });
  for (const auto& [name, entry] : rejected.items()) r.described(fmt::format("The refused rule \"{}\"", name), [&] { verify(r, name, entry); });
}

}  // namespace kvant::quant::detail
