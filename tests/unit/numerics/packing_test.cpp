#include "numerics/packing.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

using namespace kvant;

namespace {

template <int bits>
int wrong_round_trips() {
  constexpr int per = Packing<bits>::per_byte, values = 1 << bits;
  int wrong = 0;
  for (int pattern = 0; pattern < 256; ++pattern) {  // every byte is some row of codes
    int8_t codes[per];
    for (int i = 0; i < per; ++i) codes[i] = static_cast<int8_t>((pattern >> (bits * i)) % values);
    for (int i = 0; i < per; ++i)  // as a signed format stores them
      if (codes[i] >= values / 2) codes[i] = static_cast<int8_t>(codes[i] - values);
    const uint8_t byte = Packing<bits>::pack(codes, per);
    wrong += byte != pattern;
    for (int i = 0; i < per; ++i) {
      wrong += Packing<bits>::signed_code(byte, i) != codes[i];
      wrong += Packing<bits>::code(byte, i) != (static_cast<uint8_t>(codes[i]) & Packing<bits>::mask);
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("codes of 2 and 4 bits survive packing, the first one in the lowest bits", "[numerics]") {
  CHECK(wrong_round_trips<2>() == 0);
  CHECK(wrong_round_trips<4>() == 0);
  const int8_t codes[] = {-8, 7, 3};
  CHECK(Packing<4>::pack(codes, 2) == 0x78);
  CHECK(Packing<4>::pack(codes + 2, 1) == 0x03);
  const uint8_t pairs[] = {3, 0, 1, 2};
  CHECK(Packing<2>::pack(pairs, 4) == 0x93);
  CHECK(Packing<2>::pack(pairs, 3) == 0x13);
}

TEST_CASE("every packed row starts at a byte", "[numerics]") {
  CHECK(packed_row_bytes(0, 4) == 0);
  CHECK(packed_row_bytes(5, 4) == 3);
  CHECK(packed_row_bytes(5, 2) == 2);
  CHECK(packed_row_bytes(5, 8) == 5);
  CHECK(packed_row_bytes(5, 16) == 10);
}
