#include "quant/resolve.hpp"

#include "base/error.hpp"
#include "config/suggest.hpp"
#include "quant/qtype.hpp"

#include <cmath>
#include <tuple>

namespace kvant::quant {
namespace {

const QtypeFacts no_facts{.name = "of a plugin"};

/// A type that nobody knows is refused; one that Kvant knows by name alone gives null.
const Codec* find_codec(const Rule& rule, const char* field, const std::string& qtype, const Scheme* scheme) {
  if (const Codec* codec = builtin_codec(qtype)) return codec;
  if (scheme != nullptr) {
    if (const Codec* codec = scheme->guarded_codec(qtype)) return codec;
  }
  if (find_qtype(qtype) != nullptr) return nullptr;
  const std::vector<std::string> names = qtype_names();
  const std::string nearest = config::nearest(qtype, names);
  refuse("{}: the type \"{}\" is not known{}; there are {}{}.", rule.place(field), qtype,
         nearest.empty() ? "" : fmt::format(" (\"{}\"?)", nearest), config::listed(names, names.size()),
         scheme != nullptr ? fmt::format(", and what the scheme '{}' brings", scheme->name()) : "");
}

const QtypeFacts& facts_of(const std::string& qtype) {
  const QtypeFacts* facts = find_qtype(qtype);
  return facts != nullptr ? *facts : no_facts;
}

Calibration parse_at(const std::string& place, const std::string& text) {
  try {
    return parse_calibration(text);
  } catch (const UsageError& error) {
    refuse("{}: {}", place, error.what());
  }
}

ScaleLaw law_of(const std::string& qtype, const Codec& codec, const Calibration& calibration, bool half_step,
                const std::string& compat) {
  ScaleLaw law;
  const bool reference_range = half_step || (!compat.empty() && codec.integer());
  law.bound = codec.bound(reference_range);
  law.factor = calibration.factor;
  if (!reference_range) law.limit = codec.bound(false);
  law.reference_guard = !compat.empty();
  // XLA multiplies by rounded reciprocals, except where the divisor is one number.
  law.scale_by_reciprocal = compat == "xla" && calibration.measured;
  law.true_quotient = compat == "ieee" || (compat == "xla" && !calibration.measured);
  return with_block_rule(qtype, law, !compat.empty());
}

/// Tiles of an axis of this length; 0: not known before it runs. One tile that spans the axis is none.
Tile tile_of(const config::TileSize& setting, int64_t length) {
  if (setting.count > 0) return setting.count == length ? Tile{} : Tile{setting.count, 0};
  if (setting.share == 0 || setting.share == 1) return {};
  const auto parts = static_cast<int64_t>(std::llround(1 / setting.share));
  if (length > 0 && length % parts == 0) return {length / parts, 0};
  return {0, parts};
}

/// What the file calls the fields of an operand.
struct Operand {
  const char* words;       ///< "weight"
  const char* type_field;  ///< "weight_qtype"
  const char* calibration_field;
  const char* tile_field;
};
constexpr Operand weight_fields{"weight", "weight_qtype", "weight_calibration_method", "tile_size"};
constexpr Operand act_fields{"activation", "act_qtype", "act_calibration_method", "tile_size"};
constexpr Operand dgrad_fields{"gradient", "bwd_qtype", "bwd_calibration_method", "dlhs_tile_size"};
constexpr Operand wgrad_fields{"gradient", "bwd_qtype", "bwd_calibration_method", "bwd_weight_grad_tile_size"};
constexpr Operand drhs_fields{"gradient", "bwd_qtype", "drhs_grad_calibration_method", "bwd_weight_grad_tile_size"};

class Resolver {
 public:
  Resolver(const Rule& rule, const MatmulSite& site, const Scheme* scheme, const std::string& compat)
      : rule_(rule), site_(site), scheme_(scheme), compat_(compat) {}

  OperandRecipe operand(const Operand& names, const std::string& qtype, const std::string& calibration, Granularity granularity) {
    OperandRecipe o;
    if (qtype.empty()) return o;
    o.qtype = qtype;
    o.codec = find_codec(rule_, names.type_field, qtype, scheme_);
    o.calibration = parse_at(rule_.place(names.calibration_field), calibration);
    o.scaling = o.calibration.measured ? Scaling::measured : Scaling::constant;
    check_zero_point(names, o);
    o.granularity = !o.calibration.measured || rule_.disable_channelwise_axes ? Granularity::per_tensor : granularity;
    o.two_level = facts_of(qtype).two_level;
    if (o.codec != nullptr) o.law = law_of(qtype, *o.codec, o.calibration, rule_.half_step, compat_);
    return o;
  }

  void tiles(const Operand& names, OperandRecipe& o, const config::TileSize& contracted, int64_t length,
             const config::TileSize& other = {}, int64_t other_length = 0) const {
    if (!o.quantized()) return;
    o.contracted = tile_of(contracted, length);
    o.other = tile_of(other, other_length);
    const int64_t block = facts_of(o.qtype).block;
    if (block == 0) {
      if (o.tiled() && !o.calibration.measured)
        refuse("{}: tiles would be ignored: \"{}\" is one range for the whole {}.", rule_.place(names.tile_field),
               o.calibration.text, names.words);
      return;
    }
    if (o.contracted.given() && o.contracted.size != block)
      refuse("{}: {} shares a scale among {} elements by its definition; tiles of {} cannot be had.", rule_.place(names.tile_field),
             o.qtype, block, o.contracted.size > 0 ? std::to_string(o.contracted.size) : to_string(contracted));
    o.contracted = {block, 0};
  }

  void delay(OperandRecipe& o, const std::optional<DelayedScaling>& delayed) const {
    if (!o.quantized() || !delayed) return;
    if (facts_of(o.qtype).block > 0)
      refuse("{}: {} has scales of blocks by its definition; one range for a tensor from a history (bwd_delayed_scaling) cannot be had with it.", rule_.place("bwd_qtype"),
             o.qtype);
    o.scaling = Scaling::delayed;
    o.delayed = *delayed;
    o.granularity = Granularity::per_tensor;
  }

  void round(const Operand& names, OperandRecipe& o) const {
    if (!o.quantized()) return;
    o.rounding = rule_.bwd_rounding;
    if (o.rounding != Rounding::nearest && !compat_.empty()) o.noise_axes = rule_.noise_axes;
    if (facts_of(o.qtype).weights_only)
      refuse("{}: {} is a type of weights alone; a gradient cannot be quantized to it.", rule_.place(names.type_field), o.qtype);
  }

 private:
  void check_zero_point(const Operand& names, const OperandRecipe& o) const {
    const std::string& place = rule_.place(names.calibration_field);
    const Calibration& c = o.calibration;
    if (!c.zero_point && facts_of(o.qtype).is_unsigned && compat_.empty())
      refuse("{}: {} has no negative codes, so a symmetric range (\"{}\") loses half of the {}; \"minmax\" has a zero point.", place,
             o.qtype, c.text, names.words);
    if (!c.zero_point) return;
    const std::string instead =
        c.measured ? "\"absmax\" is the symmetric method"
                   : fmt::format("\"fixed,{}\" is the symmetric range that holds it", std::max(-c.low, c.high));
    if (!facts_of(o.qtype).zero_point && !facts_of(o.qtype).is_unsigned && !(o.codec != nullptr && o.codec->integer()))
      refuse("{}: the calibration \"{}\" is not symmetric, which needs a zero point, and {} has none; {}.", place, c.text, o.qtype, instead);
    if ((!rule_.bwd_qtype.empty() || !rule_.drhs_qtype.empty()) && !rule_.original_residuals)
      refuse("{}: the calibration \"{}\" is not symmetric, which needs a zero point, and quantized gradients cannot be multiplied "
             "with codes that have one; {}, and use_original_residuals keeps the operand itself.",
             place, c.text, instead);
  }

  const Rule& rule_;
  const MatmulSite& site_;
  const Scheme* scheme_;
  const std::string& compat_;
};

/// Qwix dot_general_qt, backward, step 1 (qwix-semantics 5.3); ours: the codes of square blocks serve both products.
Residual residual_of(const Rule& rule, const OperandRecipe& forward, const OperandRecipe& gradient, const std::string& again, bool ours) {
  if (!forward.quantized()) return Residual::original;
  const bool square = forward.contracted.given() && forward.contracted == forward.other;
  if (ours && square && gradient.quantized() && !rule.original_residuals && again.empty()) return Residual::codes;
  if (rule.original_residuals || !gradient.quantized() || forward.tiled()) return again.empty() ? Residual::original : Residual::requantized;
  return Residual::codes;
}

void check_transform(const Rule& rule, const char* field, Transform transform, const char* axis, int64_t length, const MatmulSite& site) {
  if (transform == Transform::hadamard16 && length % 16 != 0)
    refuse("{}: hadamard16 takes 16 elements at a time, and {} has {} {}.", rule.place(field), site.path, length, axis);
}

/// After a transform no element of the operand itself is clipped, so none can be told to have no gradient.
void check_mask(const Rule& rule, const Recipe& r, const MatmulSite& site) {
  if (r.forward == Transform::none || !r.mask_gradients || site.kind == SiteKind::grouped) return;
  const auto check = [&](const Operand& names, const OperandRecipe& o) {
    if (o.quantized() && o.calibration.clips())
      refuse("{}: the calibration \"{}\" clips, and a gradient is 0 where the {} was clipped; after forward_transform that is no element of the {} "
             "({}). \"absmax\" clips nothing; disable_gradient_clipping = true lets all gradients pass.",
             rule.place(names.calibration_field), o.calibration.text, names.words, names.words, site.path);
  };
  check(weight_fields, r.weight);
  check(act_fields, r.act);
}

/// The reference rounds gradients of dense products to integers with noise, and all else to nearest whatever the rule says.
void check_reference_noise(const Rule& rule, const Recipe& r, const MatmulSite& site, const std::string& compat) {
  for (const OperandRecipe* o : {&r.grad_input, &r.grad_weight}) {
    if (o->rounding == Rounding::nearest) continue;
    if (site.kind == SiteKind::grouped)
      refuse("{}: qwix_compat = \"{}\": the reference rounds gradients of grouped products ({}) to nearest, whatever bwd_stochastic_rounding says; "
             "give op_names = [\"gmm\"] a rule of its own, without it.",
             rule.place("bwd_stochastic_rounding"), compat, site.path);
    const QtypeFacts& facts = facts_of(o->qtype);
    if (!facts.integer || facts.named_only)
      refuse("{}: qwix_compat = \"{}\": the reference rounds {} to nearest, whatever bwd_stochastic_rounding says; int4, int8 and int16 have noise.",
             rule.place("bwd_stochastic_rounding"), compat, o->qtype);
  }
}

void check_reference(const Rule& rule, const Recipe& r, const MatmulSite& site, const std::string& compat) {
  if (compat.empty()) return;
  if (site.kind == SiteKind::grouped && (rule.act_tile.given() || rule.weight_tile.given() || rule.dgrad_tile.given() || rule.wgrad_tile.given()))
    refuse("{}: qwix_compat = \"{}\": the reference has no tiles in grouped products ({}).", rule.place("tile_size"), compat, site.path);
  const auto unreadable = [&](Residual residual, const OperandRecipe& forward, const char* field) {
    if (residual == Residual::codes && forward.quantized() && facts_of(forward.qtype).named_only)
      refuse("{}: qwix_compat = \"{}\": the reference's backward cannot read codes of {}; use_original_residuals can.", rule.place(field),
             compat, forward.qtype);
  };
  unreadable(r.weight_residual, r.weight, "weight_qtype");
  unreadable(r.act_residual, r.act, "act_qtype");
  // To the reference a tile of 1 is no tile but a channel, whose scale its backward cannot move to the gradient.
  const auto channels = [&](const OperandRecipe& forward, const OperandRecipe& gradient) {
    return forward.quantized() && gradient.quantized() && !rule.original_residuals && forward.contracted.size == 1;
  };
  if (channels(r.weight, r.grad_input) || channels(r.act, r.grad_weight))
    refuse("{}: qwix_compat = \"{}\": the reference has no quantized gradients of tiles of 1; use_original_residuals has.",
           rule.place("tile_size"), compat);
  check_reference_noise(rule, r, site, compat);
  if (r.act.calibration.zero_point && r.weight.calibration.zero_point)
    refuse("{}: qwix_compat = \"{}\": the reference multiplies with one zero point at most; \"absmax\" is the symmetric method.",
           rule.place("act_calibration_method"), compat);
  if (site.kind == SiteKind::grouped && r.weight.quantized() && !r.act.quantized())
    refuse("{}: qwix_compat = \"{}\": the reference quantizes both operands of a grouped product ({}); give act_qtype.",
           rule.place("weight_qtype"), compat, site.path);
}

/// The tile of an axis in a setting that names axes, or in one that names the contracted axis.
config::TileSize on_axis(const config::TileSetting& setting, int64_t axis, bool contracted) {
  if (setting.axes.empty()) return contracted ? setting.contracted : config::TileSize{};
  for (const auto& [number, tile] : setting.axes)
    if (number == axis) return tile;
  return {};
}

}  // namespace

Recipe resolve_recipe(const Rule& rule, const MatmulSite& site, const Scheme* scheme, const std::string& compat) {
  require(site.kind != SiteKind::attention, "A product of two activations has no recipe.");
  if (rule.weight_qtype.empty())
    refuse("{}: the rule \"{}\" has types but none for the weight, which means: leave plain; remove the others, or give weight_qtype.",
           rule.origin, rule.module_path);
  const bool per_expert = site.kind == SiteKind::grouped && compat.empty();
  const Granularity columns = per_expert ? Granularity::per_expert_column : Granularity::per_column;
  const std::string drhs_qtype = rule.plain_wgrad ? "" : rule.drhs_qtype.empty() ? rule.bwd_qtype : rule.drhs_qtype;
  const std::string& drhs_calibration = rule.drhs_calibration.empty() ? rule.bwd_calibration : rule.drhs_calibration;
  Resolver resolver(rule, site, scheme, compat);
  Recipe r;
  r.act = resolver.operand(act_fields, rule.act_qtype, rule.act_calibration, Granularity::per_row);
  r.weight = resolver.operand(weight_fields, rule.weight_qtype, rule.weight_calibration, columns);
  r.grad_input = resolver.operand(dgrad_fields, rule.bwd_qtype, rule.bwd_calibration, Granularity::per_row);
  r.grad_weight = resolver.operand(rule.drhs_calibration.empty() ? wgrad_fields : drhs_fields, drhs_qtype, drhs_calibration, columns);
  if (facts_of(rule.act_qtype).weights_only && compat.empty())  // the reference multiplies its values
    refuse("{}: {} is a type of weights alone.", rule.place("act_qtype"), rule.act_qtype);
  resolver.tiles(act_fields, r.act, on_axis(rule.act_tile, 1, true), site.k, on_axis(rule.act_tile, 0, false), 0);
  if (site.kind == SiteKind::grouped && r.act.quantized() && r.act.other.given())
    refuse("{}: tiles along the tokens of an activation would span the rows of several experts ({}), which would share scales; a rule of its own with "
           "tile_size = N has tiles of the contracted axis alone.",
           rule.place("tile_size"), site.path);
  resolver.tiles(weight_fields, r.weight, on_axis(rule.weight_tile, 0, true), site.k, on_axis(rule.weight_tile, 1, false), site.n);
  resolver.tiles(dgrad_fields, r.grad_input, rule.dgrad_tile, site.n);
  resolver.tiles(wgrad_fields, r.grad_weight, rule.wgrad_tile, 0);
  if (site.kind == SiteKind::grouped && r.grad_weight.contracted.parts > 1)
    refuse("{}: a share of the tokens is no tile of an expert's, whose number changes from step to step, and would be shared among experts ({}); a "
           "count such as 128 is.",
           rule.place("bwd_weight_grad_tile_size"), site.path);
  if (r.grad_weight.calibration.zero_point && r.grad_weight.calibration.measured && per_expert && !r.grad_weight.contracted.given())
    refuse("{}: the gradients of an expert's columns get no zero points (\"{}\", {}); \"absmax\" is the symmetric method, and bwd_weight_grad_tile_size has "
           "zero points of tiles.",
           rule.place(rule.drhs_calibration.empty() ? "bwd_calibration_method" : "drhs_grad_calibration_method"), r.grad_weight.calibration.text, site.path);
  resolver.delay(r.act, rule.delayed_forward);
  resolver.delay(r.weight, rule.delayed_forward);
  resolver.delay(r.grad_input, rule.delayed_backward);
  resolver.delay(r.grad_weight, rule.delayed_backward);
  resolver.round(dgrad_fields, r.grad_input);
  resolver.round(wgrad_fields, r.grad_weight);
  if (rule.act_static_scale && r.act.quantized()) {
    r.act.scaling = Scaling::running_mean;
    r.act.granularity = Granularity::per_tensor;
    if (rule.act_batch_axes != std::vector<int64_t>{0, 1})
      refuse("{}: act_batch_axes = [{}] would keep a range for each position, and the rows of an activation are tokens here, without "
             "positions; [0, 1] is one range for all of them.",
             rule.place("act_batch_axes"), fmt::join(rule.act_batch_axes, ", "));
    if (r.act.tiled()) refuse("{}: act_static_scale has one range for the whole activation; tiles cannot be had with it.", rule.place("tile_size"));
    r.act.batch_axes = rule.act_batch_axes;
  }
  r.weight_residual = residual_of(rule, r.weight, r.grad_input, rule.weight_residual_qtype, compat.empty());
  r.act_residual = residual_of(rule, r.act, r.grad_weight, rule.act_residual_qtype, compat.empty());
  // Forward codes are of no use to an arm that is transformed otherwise: the operand is quantized again, to its type if no other is given.
  const bool forward = rule.forward_transform != Transform::none;
  if ((forward || rule.dgrad_transform != Transform::none) && r.weight_residual == Residual::codes) r.weight_residual = Residual::requantized;
  if ((forward || rule.wgrad_transform != Transform::none) && r.act_residual == Residual::codes) r.act_residual = Residual::requantized;
  const auto idle = [&](Residual residual, const std::string& qtype, const char* field) {
    if (qtype.empty() || residual == Residual::requantized) return;
    refuse("{}: {} would be ignored: this arm of {} multiplies {}; use_original_residuals has operands that are quantized again.", rule.place(field), field,
           site.path, residual == Residual::codes ? "the codes of the forward product" : "an operand that is plain");
  };
  idle(r.weight_residual, rule.weight_residual_qtype, "dlhs_residual_qtype");
  idle(r.act_residual, rule.act_residual_qtype, "drhs_residual_qtype");
  const auto or_forward = [](const std::string& again, const std::string& forward) { return again.empty() ? forward : again; };
  if (r.weight_residual == Residual::requantized) {
    r.weight_again = resolver.operand(weight_fields, or_forward(rule.weight_residual_qtype, rule.weight_qtype), "absmax", Granularity::per_row);
    resolver.tiles(dgrad_fields, r.weight_again, rule.dgrad_tile, site.n);
  }
  if (r.act_residual == Residual::requantized) {
    r.act_again = resolver.operand(act_fields, or_forward(rule.act_residual_qtype, rule.act_qtype), "absmax", columns);
    resolver.tiles(wgrad_fields, r.act_again, rule.wgrad_tile, 0);
  }
  r.forward = rule.forward_transform, r.dgrad = rule.dgrad_transform, r.wgrad = rule.wgrad_transform;
  check_transform(rule, "forward_transform", r.forward, "inputs", site.k, site);
  check_transform(rule, "dgrad_transform", r.dgrad, "outputs", site.n, site);
  r.mask_gradients = rule.mask_gradients;
  check_mask(rule, r, site);
  check_reference(rule, r, site, compat);
  return r;
}

std::vector<std::string> indivisible(const Recipe& recipe, const MatmulSite& site, int64_t tokens) {
  std::vector<std::string> found;
  const auto check = [&](const OperandRecipe& o, const Tile& tile, int64_t length, const char* axis, const char* operand) {
    if (!o.quantized() || !tile.given() || length <= 0) return;
    const bool fits = tile.size > 0 ? length % tile.size == 0 : length % tile.parts == 0;
    if (!fits)
      found.push_back(fmt::format("{}{}: {} {} {} ({} {})", site.path, site.layer < 0 ? "" : fmt::format(" layer {}", site.layer), length,
                                  axis, tile.size > 0 ? fmt::format("by {}", tile.size) : fmt::format("in {} parts", tile.parts), operand, o.qtype));
  };
  const int64_t rows = site.kind == SiteKind::grouped ? 0 : tokens;  // groups have as many rows as the router sends
  check(recipe.weight, recipe.weight.contracted, site.k, "inputs", "weight");
  check(recipe.weight, recipe.weight.other, site.n, "outputs", "weight");
  check(recipe.act, recipe.act.contracted, site.k, "inputs", "activation");
  check(recipe.act, recipe.act.other, rows, "tokens", "activation");
  check(recipe.grad_input, recipe.grad_input.contracted, site.n, "outputs", "gradient for dx");
  check(recipe.grad_weight, recipe.grad_weight.contracted, rows, "tokens", "gradient for dw");
  if (recipe.wgrad == Transform::hadamard16 && rows % 16 != 0)
    found.push_back(fmt::format("{}: {} tokens by 16 (hadamard16 of dw)", site.path, rows));
  return found;
}

std::vector<std::string> too_long_for_integers(const Recipe& recipe, const MatmulSite& site, int64_t tokens) {
  std::vector<std::string> found;
  const std::tuple<Arm, const char*, int64_t, const char*> sums[] = {
      {Arm::forward, "forward", site.k, "inputs"}, {Arm::dgrad, "dx", site.n, "outputs"}, {Arm::wgrad, "dw", tokens, "tokens of a micro-batch"}};
  for (const auto& [arm, name, length, what] : sums)
    if (length > max_int8_contraction && product_of(recipe, arm, site.groups > 0) == Product::integers)
      found.push_back(fmt::format("{}: {} sums integer products over {} {}; beyond {} an int32 sum could overflow. Leave the site plain, give it another type or tiles, "
                                  "or make micro-batches smaller (gradient_accumulation_steps)",
                                  site.path, name, length, what, max_int8_contraction));
  return found;
}

}  // namespace kvant::quant
