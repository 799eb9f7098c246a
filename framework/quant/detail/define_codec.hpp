// For codec_<family>.cpp alone: compiles the kernels of a format, KVANT_DEFINE_CODEC(Int<8>).
#pragma once

#include "quant/detail/builtin_codecs.hpp"
#include "quant/format_codec.hpp"

#define KVANT_DEFINE_CODEC(...)                  \
  template <>                                    \
  const Codec& instance<__VA_ARGS__>() {         \
    static const FormatCodec<__VA_ARGS__> codec; \
    return codec;                                \
  }
