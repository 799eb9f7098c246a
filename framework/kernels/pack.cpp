#include "kernels/pack.hpp"

#include "base/kokkos.hpp"
#include "numerics/packing.hpp"

namespace kvant {
namespace pack_detail {
namespace {

void check(const TensorView& codes, int bits, const TensorView& packed) {
  require(bits == 2 || bits == 4, "Codes of {} bits are not packed; those of 2 and 4 bits are.", bits);
  const int64_t bytes = packed_row_bytes(codes.cols(), bits);
  require(size_of(codes.dtype) == 1 && codes.contiguous() && packed.contiguous() && packed.dtype == DType::u8 &&
              packed.rows() == codes.rows() && packed.cols() == bytes,
          "Codes of {} of shape {} take {} bytes a row at {} bits each; they do not fit a tensor of {} of shape {}.",
          name_of(codes.dtype), to_string(codes.shape), bytes, bits, name_of(packed.dtype), to_string(packed.shape));
}

template <int bits>
void pack(const Exec& exec, const TensorView& codes, const TensorView& packed) {
  using Bits = Packing<bits>;
  const auto* in = static_cast<const uint8_t*>(codes.data);
  auto* out = static_cast<uint8_t*>(packed.data);
  const long cols = codes.cols(), bytes = packed.cols();
  Kokkos::parallel_for(
      "kvant::pack_codes", Range(exec.space, 0, packed.numel()), KOKKOS_LAMBDA(const long i) {
        const long r = i / bytes, first = i % bytes * Bits::per_byte, left = cols - first;
        out[i] = Bits::pack(in + r * cols + first, left < Bits::per_byte ? static_cast<int>(left) : Bits::per_byte);
      });
}

template <int bits>
void unpack(const Exec& exec, const TensorView& packed, const TensorView& codes) {
  using Bits = Packing<bits>;
  const auto* in = static_cast<const uint8_t*>(packed.data);
  auto* out = static_cast<uint8_t*>(codes.data);
  const long cols = codes.cols(), bytes = packed.cols();
  const bool with_sign = codes.dtype == DType::i8;
  Kokkos::parallel_for(
      "kvant::unpack_codes", Range(exec.space, 0, packed.numel()), KOKKOS_LAMBDA(const long i) {
        const long r = i / bytes, first = i % bytes * Bits::per_byte;
        for (int k = 0; k < Bits::per_byte && first + k < cols; ++k)
          out[r * cols + first + k] =
              with_sign ? static_cast<uint8_t>(Bits::signed_code(in[i], k)) : Bits::code(in[i], k);
      });
}

}  // namespace
}  // namespace pack_detail

void pack_codes(const Exec& exec, const TensorView& codes, int bits, const TensorView& packed) {
  pack_detail::check(codes, bits, packed);
  if (packed.numel() == 0) return;
  bits == 2 ? pack_detail::pack<2>(exec, codes, packed) : pack_detail::pack<4>(exec, codes, packed);
}

void unpack_codes(const Exec& exec, const TensorView& packed, int bits, const TensorView& codes) {
  pack_detail::check(codes, bits, packed);
  if (packed.numel() == 0) return;
  bits == 2 ? pack_detail::unpack<2>(exec, packed, codes) : pack_detail::unpack<4>(exec, packed, codes);
}

}  // namespace kvant
