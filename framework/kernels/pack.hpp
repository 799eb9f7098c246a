// Dense storage of rows of codes of 2 and 4 bits (numerics/packing.hpp): half a byte or a quarter for each, every row
// from a byte on.
#pragma once

#include "tensor/tensor.hpp"

namespace kvant {

struct Exec;

/// packed (u8 [R, packed_row_bytes(C, bits)]) = the low bits of codes ([R, C], one byte each; rows are all axes but the
/// last). bits: 2 or 4.
void pack_codes(const Exec& exec, const TensorView& codes, int bits, const TensorView& packed);
/// The way back. An i8 tensor of codes gets them with their sign, every other type as they are.
void unpack_codes(const Exec& exec, const TensorView& packed, int bits, const TensorView& codes);

}  // namespace kvant
