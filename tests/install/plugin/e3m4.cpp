#include "plugin/plugin.hpp"
#include "quant/block_scheme.hpp"

#include <cmath>

namespace {

struct E3M4 {  // sign, 3 bits of exponent, 4 of mantissa, bias 3; the largest exponent holds infinity and NaN
  using storage = uint8_t;
  static constexpr float max_finite = 15.5f;

  KVANT_FUNCTION static float power_of_two(int n) { return kvant::float_of(static_cast<uint32_t>(n + 127) << 23); }

  KVANT_FUNCTION static storage encode(float value) {
    if (value != value) return 0x78;  // NaN
    const float size = fminf(fabsf(value), max_finite);
    const int binade = static_cast<int>(kvant::bits_of(size) >> 23) - 127, exponent = binade < -2 ? -2 : binade;
    // In steps of the last place: 16 … 32, or less if subnormal. rintf rounds ties to even.
    const int steps = static_cast<int>(rintf(size * power_of_two(4 - exponent)));
    return static_cast<storage>((value < 0 ? 0x80 : 0) + 16 * (exponent + 2) + steps);
  }

  KVANT_FUNCTION static float decode(storage code) {
    const int field = code >> 4 & 7, mantissa = code & 15;
    const float size = field == 0 ? mantissa * power_of_two(-6) : (16 + mantissa) * power_of_two(field - 7);
    return (field == 7 ? (mantissa == 0 ? INFINITY : NAN) : size) * (code & 0x80 ? -1.0f : 1.0f);
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<kvant::quant::BlockScheme<E3M4>>("e3m4"))
