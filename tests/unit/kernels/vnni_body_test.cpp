// The template of the VNNI kernels with the instruction emulated, against the portable leaf in every bit: where the processor has no
// vpdpbusd, everything around it is tested all the same (packing, sums of columns, remainders, blocks with scales).
#include "kernels/isa/int8_vnni_body.hpp"
#include "kernels/isa/isa.hpp"
#include "numerics/noise.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstring>
#include <vector>

namespace {

struct EmulatedVnni {
  static constexpr int width = 8, vectors = 3, rows = 8;
  struct Sum {
    uint32_t lane[width];
  };
  struct Float {
    float lane[width];
  };
  static Sum zero() { return {}; }
  static Sum load(const void* x) {
    Sum s;
    std::memcpy(s.lane, x, sizeof(s.lane));
    return s;
  }
  static Sum broadcast(const uint8_t* x) {
    Sum s;
    for (uint32_t& l : s.lane) std::memcpy(&l, x, 4);
    return s;
  }
  /// Four unsigned bytes of a by four signed bytes of b, modulo 2^32.
  static void multiply_add(Sum& acc, const Sum& a, const Sum& b) {
    for (int i = 0; i < width; ++i)
      for (int q = 0; q < 4; ++q) {
        const auto x = static_cast<int32_t>(a.lane[i] >> (8 * q) & 0xffu);
        const int32_t y = static_cast<int8_t>(b.lane[i] >> (8 * q) & 0xffu);
        acc.lane[i] += static_cast<uint32_t>(x * y);
      }
  }
  static Sum times_128(Sum s) {
    for (uint32_t& l : s.lane) l <<= 7;
    return s;
  }
  static Sum subtract(Sum a, const Sum& b) {
    for (int i = 0; i < width; ++i) a.lane[i] -= b.lane[i];
    return a;
  }
  static Float to_float(const Sum& s) {
    Float f;
    for (int i = 0; i < width; ++i) f.lane[i] = static_cast<float>(static_cast<int32_t>(s.lane[i]));
    return f;
  }
  static Float set(float x) {
    Float f;
    for (float& l : f.lane) l = x;
    return f;
  }
  static Float mul(Float a, const Float& b) {
    for (int i = 0; i < width; ++i) a.lane[i] *= b.lane[i];
    return a;
  }
  static Float load_scale(const float* x, int64_t at, int64_t stride, int64_t n) {
    Float f = {};
    for (int64_t i = 0; i < width && i < n; ++i) f.lane[i] = stride == 0 ? *x : x[at + i];
    return f;
  }
  static void store(float* c, int64_t n, const Float& v, bool add) {
    for (int64_t i = 0; i < width && i < n; ++i) c[i] = add ? c[i] + v.lane[i] : v.lane[i];
  }
};

const Int8Leaf& emulated_leaf() {
  static constexpr Int8Leaf leaf = {{vnni_rows, 1, EmulatedVnni::vectors * EmulatedVnni::width, EmulatedVnni::width, 4},
                                    vnni_pack_rows,
                                    vnni_pack_columns<EmulatedVnni>,
                                    vnni_multiply<EmulatedVnni>};
  return leaf;
}

struct Problem {
  int64_t m, n, block, blocks;
  bool a_outer, b_outer, add;
  std::vector<int8_t> a, b;
  std::vector<float> rows, columns;
};

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

std::vector<float> run(const Int8Leaf& leaf, const Problem& p) {
  const int64_t k = p.block * p.blocks, a_step = rounded(leaf.layout.row_offset(p.m, p.block)), b_step = rounded(leaf.layout.column_offset(p.n, p.block)),
                sums_step = leaf.layout.padded_columns(p.n);
  std::vector<int8_t> a(static_cast<std::size_t>(a_step * p.blocks)), b(static_cast<std::size_t>(b_step * p.blocks));
  std::vector<int32_t> sums(static_cast<std::size_t>(sums_step * p.blocks));
  for (int64_t q = 0; q < p.blocks; ++q) {
    const int64_t step = q * p.block;
    leaf.pack_rows({p.a.data() + (p.a_outer ? step * p.m : step), p.a_outer ? p.m : k, p.a_outer}, p.m, p.block, a.data() + q * a_step);
    leaf.pack_columns({p.b.data() + (p.b_outer ? step * p.n : step), p.b_outer ? p.n : k, p.b_outer}, p.n, p.block, b.data() + q * b_step,
                      sums.data() + q * sums_step);
  }
  std::vector<float> c(static_cast<std::size_t>(p.m * p.n), 0.5f);
  Int8Tile t{};
  t.m = p.m, t.n = p.n, t.k = p.block, t.blocks = p.blocks;
  t.a = a.data(), t.b = b.data(), t.sums = sums.data();
  t.a_step = a_step, t.b_step = b_step, t.sums_step = sums_step;
  t.row_scale = p.rows.data(), t.row_stride = 1, t.row_scale_step = p.m;
  t.column_scale = p.columns.data(), t.column_stride = 1, t.column_scale_step = p.n;
  t.c = c.data(), t.ldc = p.n, t.add = p.add;
  leaf.multiply(t);
  return c;
}

}  // namespace

TEST_CASE("the VNNI template agrees with the portable leaf in every bit, whole and in blocks", "[kernels][gemm]") {
  for (const int64_t m : {1, 7, 8, 19})
    for (const int64_t n : {1, 8, 23, 24, 41})
      for (const int64_t block : {1, 4, 31, 36})
        for (const int64_t blocks : {1, 3}) {
          const uint32_t mix = kvant::philox(11, 0, static_cast<uint64_t>(m * 3 + n * 11 + block * 31 + blocks)).word[0];
          Problem p{m, n, block, blocks, (mix & 1) != 0, (mix & 2) != 0, (mix & 4) != 0, {}, {}, {}, {}};
          CAPTURE(m, n, block, blocks, p.a_outer, p.b_outer, p.add);
          const auto code = [](uint64_t seed, int64_t i) { return static_cast<int8_t>(kvant::philox(seed, 1, static_cast<uint64_t>(i)).word[0] & 0xffu); };
          for (int64_t i = 0; i < m * block * blocks; ++i) p.a.push_back(code(1, i));
          for (int64_t i = 0; i < n * block * blocks; ++i) p.b.push_back(code(2, i));
          for (int64_t i = 0; i < m * blocks; ++i) p.rows.push_back(0.01f * static_cast<float>(1 + i % 7));
          for (int64_t i = 0; i < n * blocks; ++i) p.columns.push_back(0.03f * static_cast<float>(1 + i % 5));
          CHECK(run(emulated_leaf(), p) == run(int8_portable(), p));
        }
}
