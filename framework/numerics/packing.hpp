// Dense storage of codes of 2 and 4 bits. Element i of a row lies in bits [bits·(i % per), bits·(i % per) + bits) of
// byte i / per, per = 8 / bits: the first element in the lowest bits. Every row starts at a byte; unused bits are zero.
// Negative codes are kept in two's complement, as their low bits.
#pragma once

#include "numerics/bits.hpp"

namespace kvant {

template <int bits>
struct Packing {
  static_assert(bits == 2 || bits == 4);
  static constexpr int per_byte = 8 / bits;
  static constexpr uint32_t mask = (1u << bits) - 1;

  /// The byte of up to per_byte codes; what is missing is zero.
  template <class Code>
  KVANT_FUNCTION static constexpr uint8_t pack(const Code* codes, int count) {
    uint32_t byte = 0;
    for (int i = 0; i < count && i < per_byte; ++i) byte |= (static_cast<uint32_t>(codes[i]) & mask) << (bits * i);
    return static_cast<uint8_t>(byte);
  }
  KVANT_FUNCTION static constexpr uint8_t code(uint8_t byte, int i) {
    return static_cast<uint8_t>((static_cast<uint32_t>(byte) >> (bits * i)) & mask);
  }
  KVANT_FUNCTION static constexpr int8_t signed_code(uint8_t byte, int i) {
    constexpr int sign = 1 << (bits - 1);
    return static_cast<int8_t>((static_cast<int>(code(byte, i)) ^ sign) - sign);
  }
};

/// Bytes of a row of codes that are stored with this many bits each (2, 4, 8 or 16).
constexpr int64_t packed_row_bytes(int64_t count, int bits) { return (count * bits + 7) / 8; }

}  // namespace kvant
