// An f32 tile in plain C++: the twin of the others, and what other processors run. Same order of sums, so same results.
#include "kernels/isa/float_tile.hpp"
#include "kernels/isa/leaves.hpp"
#include "numerics/bf16.hpp"
#include "numerics/formats.hpp"

namespace kvant::isa {
namespace {

constexpr int64_t columns_at_once = 64;

float value(SourceF32, float x) { return x; }
float value(SourceBf16, uint16_t x) { return to_float(bf16_t{x}); }
float value(SourceI8, int8_t x) { return x; }
float value(SourceE4m3fn, uint8_t x) { return E4M3fn::decode(x); }
float value(SourceE5m2, uint8_t x) { return E5M2::decode(x); }
float value(SourceE4m3fnuz, uint8_t x) { return E4M3fnuz::decode(x); }
float value(SourceE5m2fnuz, uint8_t x) { return E5M2fnuz::decode(x); }
float value(SourceE2m1, uint8_t x) { return E2M1::decode(x); }

/// Rows [row, row + rows) and columns [column, column + columns) of op(x) as f32, dense.
template <class S>
void widen(S s, const FloatOperand& x, int64_t row, int64_t column, int64_t rows, int64_t columns, float* to) {
  const auto* from = static_cast<const typename S::Element*>(x.data) + (x.trans ? column * x.ld + row : row * x.ld + column);
  const int64_t down = x.trans ? 1 : x.ld, right = x.trans ? x.ld : 1;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[i * columns + j] = value(s, from[i * down + j * right]);
}

void widen_any(const FloatOperand& x, int64_t row, int64_t column, int64_t rows, int64_t columns, float* to) {
  switch (x.type) {
    case FloatSource::f32: return widen(SourceF32{}, x, row, column, rows, columns, to);
    case FloatSource::bf16: return widen(SourceBf16{}, x, row, column, rows, columns, to);
    case FloatSource::i8: return widen(SourceI8{}, x, row, column, rows, columns, to);
    case FloatSource::e4m3fn: return widen(SourceE4m3fn{}, x, row, column, rows, columns, to);
    case FloatSource::e5m2: return widen(SourceE5m2{}, x, row, column, rows, columns, to);
    case FloatSource::e4m3fnuz: return widen(SourceE4m3fnuz{}, x, row, column, rows, columns, to);
    case FloatSource::e5m2fnuz: return widen(SourceE5m2fnuz{}, x, row, column, rows, columns, to);
    case FloatSource::e2m1: return widen(SourceE2m1{}, x, row, column, rows, columns, to);
  }
}

/// Lanes of op(a) are its rows: steps go right; those of op(b) its columns: steps go down.
void scale_lanes(const FloatOperand& x, int64_t block, int64_t lane, int64_t lanes, int64_t lane_step, int64_t p, int64_t steps, int64_t step, float* to) {
  if (x.scale == nullptr) return;
  for (int64_t q = 0; q < steps; ++q)
    for (int64_t i = 0; i < lanes; ++i) to[i * lane_step + q * step] *= x.scale[(p + q) / block * x.scale_step + (lane + i) * x.scale_stride];
}

}  // namespace

void float_tile_portable(const FloatTile& t) {
  float* a = t.scratch;
  float* b = t.scratch + float_tile_k * padded_rows(t.m);
  if (t.k == 0) sgemm_portable(static_cast<int>(t.m), static_cast<int>(t.n), 0, a, 0, false, b, 0, false, t.c, t.ldc, 1.0f, t.add);
  for (int64_t p = 0; p < t.k; p += float_tile_k) {
    const int64_t depth = t.k - p < float_tile_k ? t.k - p : float_tile_k;
    widen_any(t.a, 0, p, t.m, depth, a);
    scale_lanes(t.a, t.block, 0, t.m, depth, p, depth, 1, a);
    for (int64_t j = 0; j < t.n; j += columns_at_once) {
      const int64_t columns = t.n - j < columns_at_once ? t.n - j : columns_at_once;
      widen_any(t.b, p, j, depth, columns, b);
      scale_lanes(t.b, t.block, j, columns, 1, p, depth, columns, b);
      sgemm_portable(static_cast<int>(t.m), static_cast<int>(columns), static_cast<int>(depth), a, depth, false, b, columns,
                     false, t.c + j, t.ldc, 1.0f, t.add || p > 0);
    }
  }
}

}  // namespace kvant::isa
