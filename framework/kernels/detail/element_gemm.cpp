#include "kernels/detail/element_gemm.hpp"

#include "base/kokkos.hpp"
#include "kernels/isa/half_tile.hpp"
#include "kernels/isa/int8_tile.hpp"
#include "kernels/math.hpp"
#include "numerics/bf16.hpp"
#include "numerics/formats.hpp"

namespace kvant::detail {
namespace {

constexpr int64_t depth = 256;  // isa::float_tile_k

KOKKOS_INLINE_FUNCTION float decoded(const GemmOperand& x, int64_t at) {
  switch (x.type) {
    case DType::f32: return static_cast<const float*>(x.data)[at];
    case DType::bf16: return to_float(static_cast<const bf16_t*>(x.data)[at]);
    case DType::i8: return static_cast<float>(static_cast<const int8_t*>(x.data)[at]);
    case DType::e4m3fn: return E4M3fn::decode(static_cast<const uint8_t*>(x.data)[at]);
    case DType::e4m3fnuz: return E4M3fnuz::decode(static_cast<const uint8_t*>(x.data)[at]);
    case DType::e5m2fnuz: return E5M2fnuz::decode(static_cast<const uint8_t*>(x.data)[at]);
    case DType::e2m1: return E2M1::decode(static_cast<const uint8_t*>(x.data)[at]);
    default: return E5M2::decode(static_cast<const uint8_t*>(x.data)[at]);
  }
}

/// Where op(x) (i, p) of a group is.
KOKKOS_INLINE_FUNCTION int64_t place(const GemmOperand& x, int64_t group, int64_t row, int64_t column) {
  return group * x.group_stride + (x.trans ? column * x.ld + row : row * x.ld + column);
}

/// The last group that begins at or before `row`, whose row it then is; `groups` when the row is beyond all.
KOKKOS_INLINE_FUNCTION int64_t group_of(const int32_t* offsets, int64_t groups, int64_t row) {
  if (row >= offsets[groups]) return groups;
  int64_t low = 0, high = groups;  // offsets[low] <= row < offsets[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (offsets[middle] <= row) low = middle;
    else high = middle;
  }
  return low;
}

struct ElementGemm {
  GemmProblem p;

  KOKKOS_FUNCTION void operator()(long index) const {
    const int64_t j = index % p.n;
    const int64_t row = index / p.n % p.m;
    int64_t group = index / (p.n * p.m), first = 0, k = p.k;
    bool belongs = true;
    if (p.grouping == Grouping::rows) {
      group = group_of(p.offsets, p.groups, row);
      belongs = group < p.groups;
    } else if (p.grouping == Grouping::contraction) {
      first = p.offsets[group];
      k = p.offsets[group + 1] - first;
    }
    const int64_t c_group = p.grouping == Grouping::contraction ? group : 0;
    if (!belongs) {
      if (!p.c.add) store(c_group, row, j, 0.0f);
      return;
    }
    const int64_t b_group = p.grouping == Grouping::rows ? group : 0;
    if (p.integer() || p.fixed_point) return finish(c_group, row, j, sum_of_blocks(group, b_group, row, j, first, k));
    const bool direct = p.c.type == DType::f32 && !p.scaled();
    if (!direct) return finish(c_group, row, j, scaled(group, row, j, 0, float_sum(group, b_group, row, j, first, k, 0.0f, false)));
    const float before = p.c.add ? read(c_group, row, j) : 0.0f;
    store(c_group, row, j, float_sum(group, b_group, row, j, first, k, before, p.c.add));
  }

  /// Sums in integers, each block's with its scales.
  KOKKOS_FUNCTION float sum_of_blocks(int64_t group, int64_t b_group, int64_t i, int64_t j, int64_t first, int64_t k) const {
    const int64_t length = p.block > 0 ? p.block : k, blocks = p.block > 0 ? k / p.block : 1;
    float sum = 0.0f;
    for (int64_t q = 0; q < blocks; ++q) {
      const int64_t at = first + q * length;
      const float part = p.integer() ? static_cast<float>(integer_sum(b_group, i, j, at, length)) : fixed_sum(b_group, i, j, at, length);
      sum = q > 0 ? sum + scaled(group, i, j, q, part) : scaled(group, i, j, q, part);
    }
    return sum;
  }

  KOKKOS_FUNCTION int32_t integer_sum(int64_t b_group, int64_t i, int64_t j, int64_t first, int64_t k) const {
    int32_t sum = 0;
    for (int64_t q = first; q < first + k; ++q)
      sum += static_cast<const int8_t*>(p.a.data)[place(p.a, 0, i, q)] * static_cast<const int8_t*>(p.b.data)[place(p.b, b_group, q, j)];
    return sum;
  }

  KOKKOS_FUNCTION static int32_t fixed(const GemmOperand& x, int64_t at) {
    const float v = E4M3fn::decode(static_cast<const uint8_t*>(x.data)[at]) * isa::fixed_unit;
    const float whole = (v + 12582912.0f) - 12582912.0f;  // to nearest even; magnitudes are at most 4095
    return whole == whole ? static_cast<int32_t>(whole) : 0;
  }
  KOKKOS_FUNCTION float fixed_sum(int64_t b_group, int64_t i, int64_t j, int64_t first, int64_t k) const {
    float sum = 0.0f;
    for (int64_t begin = 0; begin < k; begin += isa::fixed_block) {
      const int64_t end = begin + isa::fixed_block < k ? begin + isa::fixed_block : k;
      int32_t part = 0;
      for (int64_t q = first + begin; q < first + end; ++q) part += fixed(p.a, place(p.a, 0, i, q)) * fixed(p.b, place(p.b, b_group, q, j));
      sum = begin > 0 ? sum + static_cast<float>(part) : static_cast<float>(part);
    }
    return sum * isa::fixed_step;
  }

  KOKKOS_FUNCTION static float scale_at(const GemmScale& s, int64_t group, int64_t index, int64_t q) {
    return s.data == nullptr ? 1.0f : s.data[q * s.block_stride + group * s.group_stride + index * s.stride];
  }
  KOKKOS_FUNCTION float float_sum(int64_t group, int64_t b_group, int64_t i, int64_t j, int64_t first, int64_t k, float sum, bool add) const {
    if (p.half_sums) return half_sum(b_group, i, j, first, k, sum, add);
    const bool in_values = p.scales_in_values();
    for (int64_t begin = 0; begin < k; begin += depth) {
      const int64_t end = begin + depth < k ? begin + depth : k;
      float part = 0.0f;
      for (int64_t q = begin; q < end; ++q) {
        float a = decoded(p.a, place(p.a, 0, i, first + q)), b = decoded(p.b, place(p.b, b_group, first + q, j));
        if (in_values) {
          a *= scale_at(p.scale_a, group, i, q / p.block);
          b *= scale_at(p.scale_b, group, j, q / p.block);
        }
        part = fused(a, b, part);
      }
      sum = add || begin > 0 ? sum + part : part;
    }
    return sum;
  }

  KOKKOS_FUNCTION float scaled(int64_t group, int64_t i, int64_t j, int64_t q, float v) const {
    if (p.scale_a.data != nullptr) v *= scale_at(p.scale_a, group, i, q);
    if (p.scale_b.data != nullptr) v *= scale_at(p.scale_b, group, j, q);
    return v;
  }
  /// The nearest f16, ties to even. Sums of two f16 products' sizes are exact in double, so this is the one rounding.
  KOKKOS_FUNCTION static double to_half(double v) {
    if (!(Kokkos::fabs(v) < 65520.0)) return v != v ? v : v > 0.0 ? Kokkos::Experimental::infinity_v<double> : -Kokkos::Experimental::infinity_v<double>;
    double unit = 0x1p-24;  // between neighbours
    for (double binade = 0x1p-13; binade <= Kokkos::fabs(v); binade *= 2.0) unit *= 2.0;
    return Kokkos::nearbyint(v / unit) * unit;
  }
  KOKKOS_FUNCTION static float half_factor(DType type) { return isa::half_factor(type == DType::e5m2 ? isa::FloatSource::e5m2 : isa::FloatSource::e4m3fn); }
  KOKKOS_FUNCTION float half_sum(int64_t b_group, int64_t i, int64_t j, int64_t first, int64_t k, float sum, bool add) const {
    const float down_a = half_factor(p.a.type), down_b = half_factor(p.b.type);
    for (int64_t begin = 0; begin < k; begin += isa::half_tile_k) {
      const int64_t end = begin + isa::half_tile_k < k ? begin + isa::half_tile_k : k;
      double part = 0.0;
      for (int64_t q = first + begin; q < first + end; ++q) {
        const double a = to_half(static_cast<double>(decoded(p.a, place(p.a, 0, i, q)) * down_a));
        part = to_half(a * to_half(static_cast<double>(decoded(p.b, place(p.b, b_group, q, j)) * down_b)) + part);
      }
      const float whole = static_cast<float>(part) * (1.0f / (down_a * down_b));
      sum = add || begin > 0 ? sum + whole : whole;
    }
    return sum;
  }

  KOKKOS_FUNCTION void finish(int64_t c_group, int64_t i, int64_t j, float v) const {
    store(c_group, i, j, p.c.add ? read(c_group, i, j) + v : v);
  }

  KOKKOS_FUNCTION int64_t at(int64_t group, int64_t i, int64_t j) const { return group * p.c.group_stride + i * p.c.ld + j; }
  KOKKOS_FUNCTION float read(int64_t group, int64_t i, int64_t j) const {
    return p.c.type == DType::bf16 ? to_float(static_cast<const bf16_t*>(p.c.data)[at(group, i, j)]) : static_cast<const float*>(p.c.data)[at(group, i, j)];
  }
  KOKKOS_FUNCTION void store(int64_t group, int64_t i, int64_t j, float v) const {
    if (p.c.type == DType::bf16) static_cast<bf16_t*>(p.c.data)[at(group, i, j)] = to_bf16(v);
    else static_cast<float*>(p.c.data)[at(group, i, j)] = v;
  }
};

}  // namespace

void element_gemm(const Exec& exec, const GemmProblem& p) {
  const int64_t elements = (p.grouping == Grouping::contraction ? p.groups : 1) * p.m * p.n;
  if (elements == 0) return;
  Kokkos::parallel_for("kvant::element_gemm", Range(exec.space, 0, elements), ElementGemm{p});
}

}  // namespace kvant::detail
