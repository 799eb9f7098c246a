#include "nn/param.hpp"

#include "base/error.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/initialise.hpp"
#include "tensor/arena.hpp"

#include <utility>

namespace kvant::nn {

ParamTable::ParamTable() = default;
ParamTable::~ParamTable() = default;
ParamTable::ParamTable(ParamTable&&) noexcept = default;

int64_t ParamTable::count() const {
  int64_t n = 0;
  for (const Param* p : params_) n += p->shape.numel();
  return n;
}

namespace {
constexpr int64_t floats_per_line = 16;
int64_t padded(int64_t n) { return (n + floats_per_line - 1) / floats_per_line * floats_per_line; }
}  // namespace

void ParamTable::allocate() {
  require(!allocated(), "The parameters have memory already.");
  int64_t all_elements = 0, trained_elements = 0;
  for (const Param* p : params_) {
    all_elements += padded(p->shape.numel());
    if (p->trained) trained_elements += padded(p->shape.numel());
  }
  values_ = std::make_unique<Arena>("parameters");
  gradients_ = std::make_unique<Arena>("gradients");
  value_block_ = values_->allocate(DType::f32, {all_elements});
  gradient_block_ = gradients_->allocate(DType::f32, {trained_elements});
  int64_t value_at = 0, gradient_at = 0;
  for (Param* p : params_) {
    const int64_t n = p->shape.numel();
    p->value = value_block_.slice_rows(value_at, n).reshaped(p->shape);
    value_at += padded(n);
    if (!p->trained) continue;
    p->gradient = gradient_block_.slice_rows(gradient_at, n).reshaped(p->shape);
    gradient_at += padded(n);
  }
}

void ParamTable::initialise(const Exec& exec, uint64_t seed) {
  fill(exec, value_block_, 0.0f);
  for (Param* p : params_) {
    switch (p->init) {
      case Init::zeros: break;
      case Init::ones: fill(exec, p->value, 1.0f); break;
      case Init::normal: initialise_normal(exec, p->value, seed, stream_of(p->path), p->std, false); break;
      case Init::truncated_normal: initialise_normal(exec, p->value, seed, stream_of(p->path), p->std, true); break;
    }
    ++p->epoch;
  }
  zero_gradients(exec);
}

void ParamTable::zero_gradients(const Exec& exec) { fill(exec, gradient_block_, 0.0f); }

void Builder::name(Param& param, const std::string& path, const Shape& shape, Init init, double maxtext_std) const {
  param.path = path;
  param.shape = shape;
  param.init = init;
  param.std = maxtext_std;
  const bool drawn = init == Init::normal || init == Init::truncated_normal;
  if (drawn && model.init == config::Initialiser::normal) {
    param.init = Init::normal;
    param.std = model.init_std;
  }
  params.add(param);
}

}  // namespace kvant::nn
