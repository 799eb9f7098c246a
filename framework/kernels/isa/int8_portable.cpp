// int8 in plain C++: the twin of the others, and what other processors run.
#include "kernels/isa/int8_tile.hpp"

namespace kvant::isa {
namespace {

constexpr int panel_rows = 4, panel_columns = 32;

int8_t element(const Int8Source& x, int64_t lane, int64_t step) { return x.data[x.steps_outer ? step * x.ld + lane : lane * x.ld + step]; }

/// Panels of `panel` lanes, whole ones: to[panel][step][lane].
void pack(const Int8Source& from, int panel, int64_t lanes, int64_t k, int8_t* to) {
  for (int64_t i = 0; i < lanes; i += panel)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t x = i; x < i + panel; ++x) *to++ = x < lanes ? element(from, x, p) : int8_t{0};
}

void pack_rows(const Int8Source& from, int64_t m, int64_t k, void* to) { pack(from, panel_rows, m, k, static_cast<int8_t*>(to)); }

void pack_columns(const Int8Source& from, int64_t n, int64_t k, int8_t* to, int32_t* sums) {
  pack(from, panel_columns, n, k, to);
  for (int64_t j = 0; j < (n + panel_columns - 1) / panel_columns * panel_columns; ++j) {
    sums[j] = 0;
    for (int64_t p = 0; p < k; ++p) sums[j] += to[j / panel_columns * panel_columns * k + p * panel_columns + j % panel_columns];
  }
}

void block(const Int8Part& t, int64_t rows, const int8_t* a, const int8_t* b) {
  int32_t acc[panel_rows][panel_columns] = {};
  for (int64_t p = 0; p < t.k; ++p, a += panel_rows, b += panel_columns)
    for (int x = 0; x < panel_rows; ++x)
      for (int y = 0; y < panel_columns; ++y) acc[x][y] += a[x] * b[y];
  for (int64_t x = 0; x < rows; ++x)
    for (int64_t y = 0; y < panel_columns && y < t.columns; ++y) {
      float* c = t.c + x * t.ldc + y;
      const float v = static_cast<float>(acc[x][y]) * t.row_scale[x * t.row_stride] * t.column_scale[y * t.column_stride];
      *c = t.add ? *c + v : v;
    }
}

template <int Rows>
void rows_left(int64_t rows, const Int8Tile& t, const int8_t* a, const int8_t* b, int64_t i, int64_t j) {
  if (rows >= Rows)
    in_blocks<Rows, panel_columns>(t, i, j, [&](const Int8Part& part, int64_t q) { block(part, Rows, a + q * t.a_step, b + q * t.b_step); });
  else if constexpr (Rows > 1)
    rows_left<Rows - 1>(rows, t, a, b, i, j);
}

void multiply(const Int8Tile& t) {
  for (int64_t j = 0; j < t.n; j += panel_columns)
    for (int64_t i = 0; i < t.m; i += panel_rows) rows_left<panel_rows>(t.m - i, t, static_cast<const int8_t*>(t.a) + i * t.k, t.b + j * t.k, i, j);
}

}  // namespace

const Int8Leaf& int8_portable() {
  static constexpr Int8Leaf leaf = {
      {panel_rows, 1, panel_columns, panel_columns, 1}, pack_rows, pack_columns, multiply};
  return leaf;
}

}  // namespace kvant::isa
