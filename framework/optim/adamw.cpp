#include "optim/adamw.hpp"

#include "base/error.hpp"
#include "kernels/adamw.hpp"
#include "kernels/elementwise.hpp"
#include "tensor/arena.hpp"

#include <cmath>
#include <regex>

namespace kvant::optim {

Adamw::Adamw(const config::OptimizerSettings& settings, nn::ParamTable& params) : settings_(settings), params_(params) {
  for (nn::Param* p : params.all())
    if (p->trained) entries_.push_back({p, true, {}, {}});
  for (const std::string& text : settings.adamw_mask) {
    bool found = false;
    try {
      const std::regex mask(text);
      for (Entry& e : entries_) {
        if (!std::regex_search(e.param->path, mask)) continue;
        e.decay = false;
        found = true;
      }
    } catch (const std::regex_error& error) {
      refuse("optimizer.adamw_mask: \"{}\" is not a regular expression ({}).", text, error.what());
    }
    if (!found) refuse("optimizer.adamw_mask: no parameter's path contains a match of \"{}\" (the first path is \"{}\").", text,
                       entries_.empty() ? "" : entries_.front().param->path);
  }
}

Adamw::~Adamw() = default;

void Adamw::allocate(const Exec& exec) {
  memory_ = std::make_unique<Arena>("optimizer");
  const TensorView& gradients = params_.gradients();
  const TensorView m = memory_->allocate(DType::f32, gradients.shape), v = memory_->allocate(DType::f32, gradients.shape);
  fill(exec, m, 0.0f);
  fill(exec, v, 0.0f);
  for (Entry& e : entries_) {
    // The moments of a parameter stand where its gradient stands in the gradient block.
    const int64_t at = static_cast<const float*>(e.param->gradient.data) - static_cast<const float*>(gradients.data);
    const int64_t n = e.param->gradient.numel();
    e.m = m.slice_rows(at, n).reshaped(e.param->shape);
    e.v = v.slice_rows(at, n).reshaped(e.param->shape);
  }
}

void Adamw::step(const Exec& exec, double learning_rate, const TensorView& factor) {
  ++count_;
  AdamwHyper h;
  h.lr = static_cast<float>(learning_rate);
  h.b1 = static_cast<float>(settings_.adam_b1), h.b2 = static_cast<float>(settings_.adam_b2);
  h.eps = static_cast<float>(settings_.adam_eps), h.eps_root = static_cast<float>(settings_.adam_eps_root);
  h.bias_correction1 = static_cast<float>(1.0 - std::pow(settings_.adam_b1, static_cast<double>(count_)));
  h.bias_correction2 = static_cast<float>(1.0 - std::pow(settings_.adam_b2, static_cast<double>(count_)));
  for (Entry& e : entries_) {
    h.weight_decay = e.decay ? static_cast<float>(settings_.adam_weight_decay) : 0.0f;
    adamw_step(exec, e.param->value, e.param->gradient, e.m, e.v, h, factor, true);
    ++e.param->epoch;
  }
}

}  // namespace kvant::optim
