#include "quant/scheme.hpp"

#include "plugin/loader.hpp"

namespace kvant::quant {

Scheme::~Scheme() = default;

const Codec* Scheme::codec(std::string_view) const { return nullptr; }

void Scheme::configure(config::Section&) {}

Scheme& use_scheme(const std::string& name) {
  Scheme& scheme = plugin::use<Scheme>(name);
  scheme.set_name(name);
  return scheme;
}

}  // namespace kvant::quant
