// Room nn: the layers, forward and backward by hand. A layer is a struct with parameters, a Saved struct and two functions.
// nn/ never learns what arithmetic its products run in: it owns MatmulSites and calls what is bound to them.
// This header: parameters, by name, and where they live.
#pragma once

#include "config/settings.hpp"
#include "ops/matmul_site.hpp"
#include "tensor/tensor.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kvant {
struct Exec;
class Arena;
}  // namespace kvant

namespace kvant::nn {

/// Initial distributions (maxtext-semantics: "Initialisers"). std is given by whoever names the parameter.
enum class Init : uint8_t { zeros, ones, normal, truncated_normal };

struct Param {
  std::string path;        ///< the reference's unscanned name: decoder/moe_layers_0/self_attention/wq_a/kernel
  Shape shape;
  Init init = Init::normal;
  double std = 0;          ///< of the distribution that is drawn (a truncated normal is drawn so that this is its deviation)
  bool trained = true;     ///< false: no gradient, no optimizer (router bias: only its own update rule moves it)
  TensorView value;        ///< f32, empty until ParamTable::allocate
  TensorView gradient;     ///< f32, empty for parameters that are not trained
  uint64_t epoch = 1;      ///< moves whenever the value changes; see WeightRef
};

/// All parameters of a model in the order of its forward pass. Addresses stay valid as long as the model lives.
class ParamTable {
 public:
  ParamTable();
  ~ParamTable();
  ParamTable(ParamTable&&) noexcept;

  void add(Param& param) { params_.push_back(&param); }
  const std::vector<Param*>& all() const { return params_; }
  int64_t count() const;  ///< elements, all parameters

  /// Gives memory to values and gradients: one block each, every parameter on a 64-byte boundary, padding zero.
  void allocate();
  bool allocated() const { return values_ != nullptr; }
  /// Draws the initial values: a function of (seed, path, element) alone.
  void initialise(const Exec& exec, uint64_t seed);
  void zero_gradients(const Exec& exec);
  /// The whole gradient block [n], padding included (it is zero): what a norm reads in one go.
  const TensorView& gradients() const { return gradient_block_; }
  const TensorView& values() const { return value_block_; }

 private:
  std::vector<Param*> params_;
  std::unique_ptr<Arena> values_, gradients_;
  TensorView value_block_, gradient_block_;
};

/// What a layer needs to name its parts while a model is built.
struct Builder {
  const config::ModelSettings& model;
  ParamTable& params;
  SiteTable& sites;

  DType dtype() const { return model.dtype == config::ComputeType::bfloat16 ? DType::bf16 : DType::f32; }
  /// Names a parameter. `maxtext_std`: the deviation the reference starts it with; `init = "normal"` replaces it.
  void name(Param& param, const std::string& path, const Shape& shape, Init init, double maxtext_std = 0) const;
};

/// Where a layer stands: "decoder/moe_layers" and 3, or "decoder/decoder_norm" and -1.
struct Place {
  std::string stack;
  int layer = -1;
  std::string inner;  ///< path inside the layer, with a leading slash, or empty

  Place operator/(const std::string& name) const { return {stack, layer, inner + "/" + name}; }
  std::string scanned() const { return stack + inner; }
  std::string numbered() const { return layer < 0 ? scanned() : stack + "_" + std::to_string(layer) + inner; }
};

}  // namespace kvant::nn
