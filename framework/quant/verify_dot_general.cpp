#include "kernels/tile_values.hpp"
#include "numerics/bf16.hpp"
#include "quant/detail/recorded_product.hpp"
#include "quant/detail/refused_rules.hpp"
#include "quant/qtype.hpp"
#include "quant/recipe.hpp"
#include "quant/verify_matmul.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kvant::quant {
namespace {

using namespace detail;
using nlohmann::json;

/// What the reference knows by name and not as a type: codes that its backward cannot read and rounds without noise. A
/// recorded int2 is the type of that name.
bool by_name_only(const std::string& qtype) {
  const QtypeFacts* facts = find_qtype(qtype);
  return facts != nullptr && facts->named_only && qtype != "int2";
}
bool in_blocks(const std::string& qtype) {
  const QtypeFacts* facts = find_qtype(qtype);
  return facts != nullptr && facts->block > 0;
}

std::vector<int> counted(int first, std::size_t count) {
  std::vector<int> axes(count);
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

/// The settings of one case: those that it lists, and the defaults of the file.
class Config {
 public:
  Config(const json& given, const json& defaults) : given_(given), defaults_(defaults) {
    for (const auto& [key, value] : given.items())
      if (!defaults.contains(key)) refuse("The setting \"{}\" is not among config_defaults.", key);
    for (const auto& [key, value] : defaults.items())
      if (std::ranges::find(known, key) == std::end(known)) refuse("The setting \"{}\" of config_defaults is not known.", key);
  }

  const json& at(const std::string& key) const { return given_.contains(key) ? given_.at(key) : defaults_.at(key); }
  bool flag(const std::string& key) const { return at(key).get<bool>(); }
  bool has(const std::string& key) const { return !at(key).is_null(); }
  std::string text(const std::string& key) const { return at(key).get<std::string>(); }

 private:
  static constexpr std::string_view known[] = {"lhs_qtype",
                                               "rhs_qtype",
                                               "tile_size",
                                               "lhs_calibration_method",
                                               "rhs_calibration_method",
                                               "lhs_disable_channelwise_axes",
                                               "rhs_disable_channelwise_axes",
                                               "dlhs_grad_qtype",
                                               "dlhs_grad_calibration_method",
                                               "dlhs_tile_size",
                                               "dlhs_stochastic_rounding_noise_fn",
                                               "dlhs_grad_disable_channelwise_axes",
                                               "drhs_grad_qtype",
                                               "drhs_grad_calibration_method",
                                               "drhs_tile_size",
                                               "drhs_stochastic_rounding_noise_fn",
                                               "drhs_grad_disable_channelwise_axes",
                                               "disable_gradient_clipping",
                                               "use_original_residuals",
                                               "dlhs_residual_qtype",
                                               "dlhs_residual_calibration_method",
                                               "dlhs_residual_disable_channelwise_axes",
                                               "drhs_residual_qtype",
                                               "drhs_residual_calibration_method",
                                               "drhs_residual_disable_channelwise_axes",
                                               "sparsity_rule"};
  const json &given_, &defaults_;
};

/// Tiles of an operand: of the last contracted axis, or of axes by their numbers.
std::vector<AxisTile> tiles_of(const json& size, const std::vector<int>& contracted) {
  std::vector<AxisTile> tiles;
  if (size.is_object()) {
    for (const auto& [axis, tile] : size.items()) tiles.push_back(axis_tile(axis_number(parsed(axis)), tile));
  } else if (!size.is_null() && size != 0 && !contracted.empty()) {
    tiles.push_back(axis_tile(contracted.back(), size));
  }
  return tiles;
}

How how_of(const Config& config, const std::string& prefix, const Shape& shape, const std::vector<int>& contracted, const json& tile_size) {
  How how;
  how.qtype = config.text(prefix + "_qtype");
  how.calibration = config.text(prefix + "_calibration_method");
  how.tiles = tiles_of(tile_size, contracted);
  std::vector<int> tiled;
  for (const AxisTile& t : how.tiles) tiled.push_back(t.axis);
  if (!config.flag(prefix + "_disable_channelwise_axes")) how.channels = other_axes(shape, contracted, tiled);
  return how;
}

class DotVerifier {
 public:
  DotVerifier(const data::SafetensorsFile& file, const Exec& exec) : r_(file, exec) {}

  VerifiedFile run() {
    r_.described("The metadata \"config_defaults\"", [&] {
      defaults_ = parsed(r_.file().metadata("config_defaults"));
      if (!defaults_.is_object()) refuse("They are no JSON object.");
    });
    r_.each_case([&](const std::string& name, const json& entry) { verify(name, entry); });
    verify_refused_rules(r_);
    return r_.finish();
  }

 private:
  /// One operand of the forward product.
  struct Operand {
    Side plain, forward;
    std::vector<int> contract, batch, rest;
  };

  Operand operand(const std::string& name, const Config& config, const std::string& prefix, Side plain, std::vector<int> contract, std::vector<int> batch) {
    Operand o;
    o.rest = other_axes(plain.shape, contract, batch);
    o.forward = config.has(prefix + "_qtype")
                    ? quantize_side(r_, plain, how_of(config, prefix, plain.shape, contract, config.at("tile_size")), name + "/fwd_" + prefix)
                    : plain;
    o.plain = std::move(plain);
    o.contract = std::move(contract);
    o.batch = std::move(batch);
    return o;
  }

  void verify(const std::string& name, const json& entry) {
    const Config config(entry.at("config"), defaults_);
    if (config.has("sparsity_rule")) {
      r_.not_offered(name, "N:M sparsity");
      r_.pass_over(name);
      return;
    }
    const Side lhs = read_side(r_, entry.at("lhs")), rhs = read_side(r_, entry.at("rhs")), g = read_side(r_, entry.at("g"));
    const DotAxes axes = dot_axes_from(entry.at("dimension_numbers"), lhs.shape, rhs.shape);
    const Operand left = operand(name, config, "lhs", lhs, axes.left_contract, axes.left_batch);
    const Operand right = operand(name, config, "rhs", rhs, axes.right_contract, axes.right_batch);

    const Shape out = product_shape(lhs.shape, rhs.shape, axes);
    if (g.shape != out) refuse("The gradient is of the shape {}, the product of {}.", to_string(g.shape), to_string(out));

    compare_side(r_, name + "/fwd_lhs", left.forward);
    compare_side(r_, name + "/fwd_rhs", right.forward);
    check_words(entry, "fwd", left.forward, right.forward, axes);
    // Before anything is multiplied: as many numbers as the file really has.
    r_.expect(name + "/out", result_type(left.forward, right.forward), out);
    compare_product(r_, name + "/out", out, multiply(r_, left.forward, right.forward, axes, result_type(left.forward, right.forward)));

    const std::vector<float> noise = noise_of(name, g.shape);
    const auto batch = static_cast<int>(left.batch.size()), own = static_cast<int>(left.rest.size());
    backward(name, entry, config, "dlhs", left, right, counted(batch + own, right.rest.size()), g, noise);
    backward(name, entry, config, "drhs", right, left, counted(batch, left.rest.size()), g, noise);
  }

  /// The recorded noise, if there is any, for each element of the gradient.
  std::vector<float> noise_of(const std::string& name, const Shape& shape) {
    const std::string tensor = name + "/noise";
    if (!r_.file().has(tensor)) return {};
    const Shape given = r_.shape_of(tensor);
    const std::vector<float> values = r_.floats(tensor);
    TileShape shared{1, 1, 1, 1};
    bool fits = given.rank == shape.rank;
    for (int a = 0; fits && a < shape.rank; ++a) {
      fits = given[a] == 1 || given[a] == shape[a];
      if (given[a] == 1) shared[static_cast<std::size_t>(a)] = shape[a];
    }
    if (!fits) refuse("Noise of the shape {} does not fit a gradient of {}.", to_string(given), to_string(shape));
    std::vector<float> noise;
    for (const int64_t i : scale_offsets_of(shape, shared, other_axes(shape, {}))) noise.push_back(values[static_cast<std::size_t>(i)]);
    return noise;
  }

  /// Noise is drawn for integers alone; the reference ignores the setting for all else.
  void add_noise(const Config& config, const std::string& arm, const std::vector<float>& noise, How& how) {
    const json& setting = config.at(arm + "_stochastic_rounding_noise_fn");
    if (setting.is_null()) return;
    const std::string method = setting.at("method");
    if (method != "uniform" && method != "low_bit_uniform") refuse("Stochastic rounding \"{}\" is not known.", method);
    if (noise.empty()) refuse("Gradients are rounded with noise, and none is recorded.");
    if (!r_.codec_of(how.qtype).integer() || by_name_only(how.qtype)) return;
    how.rounding = rounding_named(method);
    how.noise = noise;
  }

  /// What the arm multiplies the gradient with (qwix-semantics 5.3, step 1).
  static Side residual_of(const Config& config, const Operand& other) {
    const Side& forward = other.forward;
    bool original = !forward.quantized() || config.flag("use_original_residuals") || in_blocks(forward.qtype);
    for (int a = 0; !original && a < forward.shape.rank; ++a) original = forward.tiled(a);
    return original ? other.plain : forward;
  }

  /// g · scales of the residual: along the axes that the two share.
  Side scaled_gradient(const Side& g, const Side& y, const DotAxes& axes) {
    for (int a = 0; a < y.shape.rank; ++a)
      if (std::ranges::find(axes.right_batch, a) == axes.right_batch.end() && std::ranges::find(axes.right_contract, a) == axes.right_contract.end() && y.scales_along(a) != 1)
        refuse("The scales of {} along axis {} cannot be moved to the gradient; the reference refuses them, too.", words_of(y), a);
    const std::vector<float> scale = r_.bench().read(y.scale);
    const DType type = g.type == DType::f32 || y.type == DType::f32 ? DType::f32 : DType::bf16;
    std::vector<float> values = g.values;
    const auto shared = [](const std::vector<int>& a, const std::vector<int>& b) {
      std::vector<int> both = a;
      both.insert(both.end(), b.begin(), b.end());
      return both;
    };
    const std::vector<int> g_shared = shared(axes.left_batch, axes.left_contract), y_shared = shared(axes.right_batch, axes.right_contract);
    const std::vector<int64_t> at = offsets_of(g.shape, g_shared), from = scale_offsets_of(y.shape, y.tile, y_shared);
    for (const int64_t own : offsets_of(g.shape, other_axes(g.shape, g_shared)))
      for (std::size_t i = 0; i < at.size(); ++i) {
        float& v = values[static_cast<std::size_t>(own + at[i])];
        v *= scale[static_cast<std::size_t>(from[i])];
        if (type == DType::bf16) v = to_float(to_bf16(v));
      }
    return plain_side(r_, g.shape, type, std::move(values));
  }

  void backward(const std::string& name, const json& entry, const Config& config, const std::string& arm, const Operand& x, const Operand& other,
                const std::vector<int>& contracted, Side g, const std::vector<float>& noise) {
    const DotAxes axes{contracted, other.rest, counted(0, x.batch.size()), other.batch};
    const json& tile_size = config.at(arm + "_tile_size");
    Side y = residual_of(config, other);
    if (config.has(arm + "_grad_qtype")) {
      if (y.quantized()) {
        if (y.has_zero_point() || by_name_only(y.qtype))
          refuse("A quantized gradient is multiplied with {}{}; the reference cannot read such codes there.", words_of(y), y.has_zero_point() ? " with zero points" : "");
        g = scaled_gradient(g, y, axes);
        y = raw_side(y);
      }
      How how = how_of(config, arm + "_grad", g.shape, axes.left_contract, tile_size);
      add_noise(config, arm, noise, how);
      g = quantize_side(r_, g, how, name + "/" + arm + "_lhs");
    }
    if (!y.quantized() && config.has(arm + "_residual_qtype"))
      y = quantize_side(r_, y, how_of(config, arm + "_residual", y.shape, axes.right_contract, tile_size), name + "/" + arm + "_rhs");
    compare_side(r_, name + "/" + arm + "_lhs", g);
    compare_side(r_, name + "/" + arm + "_rhs", y);
    check_words(entry, arm, g, y, axes);
    const DType type = result_type(g, y);
    r_.expect(name + "/" + arm, type, x.plain.shape);
    DotResult product = in_layout_of(x, other, multiply(r_, g, y, axes, type));
    if (!config.flag("disable_gradient_clipping") && x.forward.quantized() && x.forward.clips) mask(x.forward, product);
    compare_product(r_, name + "/" + arm, x.plain.shape, product);
  }

  /// From [batch, own axes, contracted axes in the order of the other operand's] to the operand's own layout.
  static DotResult in_layout_of(const Operand& x, const Operand& other, DotResult product) {
    std::vector<std::pair<int, int>> pairs;
    for (std::size_t i = 0; i < x.contract.size(); ++i) pairs.emplace_back(other.contract[i], x.contract[i]);
    std::ranges::sort(pairs);
    std::vector<int> order = x.batch;
    order.insert(order.end(), x.rest.begin(), x.rest.end());
    for (const auto& [theirs, ours] : pairs) order.push_back(ours);
    const std::vector<int64_t> to = offsets_of(x.plain.shape, order);
    DotResult turned = product;
    for (std::size_t i = 0; i < to.size(); ++i) {
      turned.values[static_cast<std::size_t>(to[i])] = product.values[i];
      turned.sizes[static_cast<std::size_t>(to[i])] = product.sizes[i];
    }
    return turned;
  }

  /// The straight-through gradient: nothing where the operand was clipped.
  void mask(const Side& x, DotResult& product) {
    const TileMask mask{x.source, x.tile, x.low, x.high};
    const auto masked = [&](DType type, const std::vector<float>& values) {
      const TensorView result = r_.arena().allocate(type, x.shape);
      store_where_unclipped(r_.exec(), mask, r_.bench().floats(DType::f32, x.shape, values), result, false);
      return r_.bench().read(result);
    };
    product.values = masked(product.type, product.values);
    const std::vector<float> passes = masked(DType::f32, std::vector<float>(product.values.size(), 1.0f));
    for (std::size_t i = 0; i < passes.size(); ++i) product.sizes[i] *= static_cast<double>(passes[i]);
  }

  /// The file says what each product was made of; what the configuration gives must be the same.
  static void check_words(const json& entry, const std::string& dot, const Side& left, const Side& right, const DotAxes& axes) {
    const json& said = entry.at("dots").at(dot);
    const auto check = [&](const char* side, const Side& ours) {
      if (said.at(side) != words_of(ours))
        refuse("The {} operand of {} is {} as recorded; its configuration makes it {}.", side, dot, said.at(side).dump(), words_of(ours));
    };
    check("lhs", left);
    check("rhs", right);
    if (dot_axes_from(said.at("dimension_numbers"), left.shape, right.shape) != axes)
      refuse("The dimension numbers {} of {} are not those that its configuration gives.", said.at("dimension_numbers").dump(), dot);
  }

  Recording r_;
  json defaults_;
};

}  // namespace

VerifiedFile verify_dot_general(const data::SafetensorsFile& file, const Exec& exec) { return DotVerifier(file, exec).run(); }

}  // namespace kvant::quant
