#include "quant/codec.hpp"

#include "kernels/quantize_kernel.hpp"  // instantiated here: .ci/compile_for_devices looks for it
#include "quant/format_codec.hpp"

namespace kvant::quant {
namespace {

struct Builtin {
  std::string_view qtype;
  const Codec& (*codec)();
};

template <NumericFormat Format>
const Codec& instance() {
  static const FormatCodec<Format> codec;
  return codec;
}

constexpr Builtin builtins[] = {
    {"int8", &instance<Int<8>>},
    {"float8_e4m3fn", &instance<E4M3fn>},
    {"float8_e5m2", &instance<E5M2>},
};

}  // namespace

const Codec* builtin_codec(std::string_view qtype) {
  for (const Builtin& b : builtins)
    if (b.qtype == qtype) return &b.codec();
  return nullptr;
}

std::vector<std::string_view> builtin_qtypes() {
  std::vector<std::string_view> names;
  for (const Builtin& b : builtins) names.push_back(b.qtype);
  return names;
}

}  // namespace kvant::quant
