#include "quant/scheme.hpp"

#include "plugin/loader.hpp"
#include "quant/guarded_codec.hpp"

namespace kvant::quant {

Scheme::~Scheme() = default;

const Codec* Scheme::codec(std::string_view) const { return nullptr; }

const Codec* Scheme::guarded_codec(std::string_view qtype) const {
  if (const auto found = guarded_.find(qtype); found != guarded_.end()) return found->second.get();
  const plugin::Origin& origin = plugin::Registry<Scheme>::origin(name_);
  const Codec* own = plugin::guard(origin, fmt::format("naming the codec of {}", qtype), [&] { return codec(qtype); });
  if (own == nullptr) return nullptr;
  return guarded_.emplace(qtype, std::make_unique<GuardedCodec>(*own, origin)).first->second.get();
}

void Scheme::configure(config::Section&) {}

Scheme& use_scheme(const std::string& name) {
  Scheme& scheme = plugin::use<Scheme>(name);
  scheme.set_name(name);
  return scheme;
}

}  // namespace kvant::quant
