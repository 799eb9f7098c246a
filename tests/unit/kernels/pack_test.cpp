#include "kernels/pack.hpp"
#include "numerics/packing.hpp"
#include "support/device_buffer.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace kvant;
using kvant::test::DeviceBuffer;

TEST_CASE("rows of 2 and 4 bits come back, whatever their length", "[kernels][pack]") {
  for (const int bits : {2, 4}) {
    for (const int64_t cols : {1, 2, 3, 4, 5, 7, 8, 33}) {
      for (const DType type : {DType::i8, DType::e2m1}) {
        const int64_t rows = 5;
        const int values = 1 << bits;
        std::vector<int> codes(static_cast<std::size_t>(rows * cols));
        for (std::size_t i = 0; i < codes.size(); ++i)
          codes[i] = static_cast<int>(i * 7 % static_cast<std::size_t>(values)) - (type == DType::i8 ? values / 2 : 0);
        const DeviceBuffer in(type, {rows, cols}, codes);
        DeviceBuffer packed(DType::u8, {rows, packed_row_bytes(cols, bits)}), out(type, {rows, cols});
        packed.poison();
        out.poison();
        pack_codes(Exec{}, in, bits, packed);
        unpack_codes(Exec{}, packed, bits, out);
        Kokkos::fence();
        INFO(bits << " bits, " << cols << " columns");
        CHECK(out.integers() == codes);
        if (cols % (8 / bits) != 0)  // what is left of a row's last byte is zero
          CHECK(packed.integers().back() < 1 << (cols % (8 / bits) * bits));
      }
    }
  }
}

TEST_CASE("what cannot be packed is refused", "[kernels][pack]") {
  const DeviceBuffer codes(DType::i8, {3, 5}), packed(DType::u8, {3, 3}), wide(DType::i16, {3, 5});
  CHECK_THROWS_AS(pack_codes(Exec{}, codes, 3, packed), Error);
  CHECK_THROWS_AS(pack_codes(Exec{}, codes, 2, packed), Error);
  CHECK_THROWS_AS(pack_codes(Exec{}, wide, 4, packed), Error);
  CHECK_THROWS_AS(unpack_codes(Exec{}, packed, 2, codes), Error);
  pack_codes(Exec{}, codes, 4, packed);
}
