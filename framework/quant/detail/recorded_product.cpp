#include "quant/detail/recorded_product.hpp"

#include "kernels/gemm.hpp"
#include "kernels/grouped_gemm.hpp"
#include "kernels/scaled_gemm.hpp"
#include "numerics/bf16.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

namespace kvant::quant::detail {

using nlohmann::json;

namespace {

constexpr int64_t shortest_block = 128;  ///< of the contracted axes that the reference multiplies as codes
using Offsets = std::vector<int64_t>;

/// Numbers on the host, from which matrices are cut.
struct Source {
  DType type;
  std::vector<std::byte> bytes;
};

Source source_of(DType type, const std::vector<float>& values) {
  Source s{type, std::vector<std::byte>(values.size() * size_of(type))};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == DType::f32) {
      std::memcpy(s.bytes.data() + i * sizeof(float), &values[i], sizeof(float));
    } else {
      const bf16_t narrow = to_bf16(values[i]);
      std::memcpy(s.bytes.data() + i * sizeof narrow, &narrow, sizeof narrow);
    }
  }
  return s;
}

/// Elements base + rows[i] + cols[j] as a dense matrix in execution memory.
TensorView cut(Recording& r, const Source& source, const Offsets& bases, const Offsets& rows, const Offsets& cols) {
  const std::size_t size = size_of(source.type);
  std::vector<std::byte> bytes(bases.size() * rows.size() * cols.size() * size);
  std::byte* to = bytes.data();
  for (const int64_t base : bases)
    for (const int64_t row : rows)
      for (const int64_t col : cols) {
        std::memcpy(to, source.bytes.data() + static_cast<std::size_t>(base + row + col) * size, size);
        to += size;
      }
  const Shape shape = bases.size() == 1 ? Shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(cols.size())}
                                        : Shape{static_cast<int64_t>(bases.size()), static_cast<int64_t>(rows.size()), static_cast<int64_t>(cols.size())};
  return r.bench().bytes(source.type, shape, bytes);
}

/// Where the elements and the scales of one operand lie: of its batch (or groups), its own axes, the contracted ones.
struct Layout {
  Offsets batch, own, contracted;
  Offsets scale_batch, scale_own, scale_contracted;
};

Layout layout_of(const Side& side, const std::vector<int>& batch, const std::vector<int>& contracted) {
  const std::vector<int> own = other_axes(side.shape, batch, contracted);
  Layout l;
  l.batch = offsets_of(side.shape, batch);
  l.own = offsets_of(side.shape, own);
  l.contracted = offsets_of(side.shape, contracted);
  if (!side.quantized()) return l;
  l.scale_batch = scale_offsets_of(side.shape, side.tile, batch);
  l.scale_own = scale_offsets_of(side.shape, side.tile, own);
  l.scale_contracted = scale_offsets_of(side.shape, side.tile, contracted);
  return l;
}

bool scaled(const Side& side) { return side.quantized() && !side.raw; }

/// One operand of a product on codes.
struct Codes {
  Source source;
  std::vector<float> scale;  ///< empty: none

  Codes(Recording& r, const Side& side)
      : source(as_read(r, side)), scale(scaled(side) ? r.bench().read(side.scale) : std::vector<float>()) {}

  /// The scales of one block, for each index of `own` (of each group).
  TensorView scales(Recording& r, const Layout& l, const Offsets& groups, int64_t block) const {
    if (scale.empty()) return {};
    std::vector<float> all;
    for (const int64_t group : groups)
      for (const int64_t own : l.scale_own) all.push_back(scale[static_cast<std::size_t>(group + own + block)]);
    const auto g = static_cast<int64_t>(groups.size()), n = static_cast<int64_t>(l.scale_own.size());
    return r.bench().floats(DType::f32, g == 1 ? Shape{n} : Shape{g, n}, all);
  }

 private:
  /// As the GEMM reads them: codes, or numbers where it does not know the format or a zero point is to be subtracted.
  static Source as_read(Recording& r, const Side& side) {
    if (side.codec->readable_by_gemm() && !side.has_zero_point()) return {side.codes.dtype, r.bench().read_bytes(side.codes)};
    return source_of(DType::f32, bare_values(r, side));
  }
};

/// Contracted indices that share a scale on both sides.
struct Block {
  Offsets left, right;
  int64_t left_scale = 0, right_scale = 0;
};

std::vector<Block> blocks_of(const Side& left, const Layout& l, const Side& right, const Layout& r) {
  std::vector<Block> blocks;
  std::map<std::pair<int64_t, int64_t>, std::size_t> known;
  for (std::size_t k = 0; k < l.contracted.size(); ++k) {
    const int64_t a = scaled(left) ? l.scale_contracted[k] : 0, b = scaled(right) ? r.scale_contracted[k] : 0;
    const auto [found, fresh] = known.emplace(std::pair{a, b}, blocks.size());
    if (fresh) blocks.push_back({{}, {}, a, b});
    blocks[found->second].left.push_back(l.contracted[k]);
    blocks[found->second].right.push_back(r.contracted[k]);
  }
  return blocks;
}

bool short_blocks(const Side& side, const std::vector<int>& contracted) {
  if (!scaled(side)) return false;
  return std::ranges::any_of(contracted, [&](int a) {
    return side.scales_along(a) > 1 && side.tile[static_cast<std::size_t>(a)] < shortest_block;
  });
}

bool integers(const Side& left, const Side& right) {
  return left.quantized() && right.quantized() && left.codec->integer() && right.codec->integer();
}

/// The bound of golden/README.md for what a result is made of, and whether there is nothing to bound.
void judge(DotResult& product, const Side& left, const Side& right, bool on_codes, std::size_t blocks) {
  const bool exact_sums = integers(left, right) && left.codec->storage() == DType::i8 && right.codec->storage() == DType::i8;
  // The reference rounds an integer sum to bfloat16 before a scale of that type.
  const bool rounds = integers(left, right) && on_codes && (scaled(left) ? left.type : right.type) == DType::bf16;
  product.limit = product.type == DType::bf16 ? 8e-3 : rounds ? 4e-3 : integers(left, right) ? 4e-7 : 5e-7;
  product.every_bit = product.type == DType::f32 && exact_sums && on_codes && blocks == 1 && !rounds && !left.has_zero_point() && !right.has_zero_point();
}

void check_zero_points(const Side& left, const Side& right) {
  if (left.has_zero_point() && right.has_zero_point()) refuse("Both operands have a zero point; the reference multiplies with one at most.");
}

/// A result in float32 that is to be of `type`.
void round_to(DType type, std::vector<float>& values) {
  if (type == DType::bf16)
    for (float& v : values) v = to_float(to_bf16(v));
}

TensorView offsets_tensor(Recording& r, const std::vector<int32_t>& sizes, int64_t rows) {
  std::vector<int32_t> offsets{0};
  int64_t sum = 0;
  for (const int32_t size : sizes) {
    sum += size;
    if (size < 0 || sum > rows) refuse("Groups of {} rows do not fit {} rows.", fmt::join(sizes, ", "), rows);
    offsets.push_back(static_cast<int32_t>(sum));
  }
  return r.bench().integers({static_cast<int64_t>(offsets.size())}, offsets);
}

}  // namespace

DotAxes dot_axes_from(const json& numbers, const Shape& left, const Shape& right) {
  DotAxes axes{axes_from(numbers.at(0).at(0), left), axes_from(numbers.at(0).at(1), right), axes_from(numbers.at(1).at(0), left),
               axes_from(numbers.at(1).at(1), right)};
  const auto pair = [&](const std::vector<int>& a, const std::vector<int>& b) {
    bool fits = a.size() == b.size();
    for (std::size_t i = 0; fits && i < a.size(); ++i) fits = left[a[i]] == right[b[i]];
    if (!fits) refuse("The dimension numbers {} do not fit operands of the shapes {} and {}.", numbers.dump(), to_string(left), to_string(right));
  };
  pair(axes.left_contract, axes.right_contract);
  pair(axes.left_batch, axes.right_batch);
  const auto apart = [&](const std::vector<int>& a, const std::vector<int>& b) {
    for (const int axis : a)
      if (std::ranges::find(b, axis) != b.end()) refuse("The dimension numbers {} contract axis {} and batch it.", numbers.dump(), axis);
  };
  apart(axes.left_contract, axes.left_batch);
  apart(axes.right_contract, axes.right_batch);
  return axes;
}

Shape product_shape(const Shape& left, const Shape& right, const DotAxes& axes) {
  Shape out;
  const auto take = [&](const Shape& from, const std::vector<int>& which) {
    for (const int a : which) {
      if (out.rank == max_rank) refuse("The product of operands of the shapes {} and {} has more than {} axes.", to_string(left), to_string(right), max_rank);
      out.dim[static_cast<std::size_t>(out.rank++)] = from[a];
    }
  };
  take(left, axes.left_batch);
  take(left, other_axes(left, axes.left_contract, axes.left_batch));
  take(right, other_axes(right, axes.right_contract, axes.right_batch));
  return out;
}

DType result_type(const Side& left, const Side& right) {
  const auto wide = [](const Side& side) { return !side.raw && side.type == DType::f32; };
  return wide(left) || wide(right) ? DType::f32 : DType::bf16;
}

DotResult multiply(Recording& r, const Side& left, const Side& right, const DotAxes& axes, DType type) {
  const Layout l = layout_of(left, axes.left_batch, axes.left_contract), rl = layout_of(right, axes.right_batch, axes.right_contract);
  const auto m = static_cast<int64_t>(l.own.size()), n = static_cast<int64_t>(rl.own.size());
  const bool decoded_first = !left.quantized() || !right.quantized() || left.qtype == "nf4" || right.qtype == "nf4" ||
                             short_blocks(left, axes.left_contract) || short_blocks(right, axes.right_contract);
  DotResult product;
  product.type = type;
  const auto append = [&](const TensorView& c) {
    const std::vector<float> values = r.bench().read(c);
    product.values.insert(product.values.end(), values.begin(), values.end());
  };
  if (decoded_first) {
    const Source a = source_of(left.raw ? DType::f32 : left.type, dequantized(r, left)), b = source_of(right.raw ? DType::f32 : right.type, dequantized(r, right));
    for (std::size_t batch = 0; batch < l.batch.size(); ++batch) {
      ArenaScope workspace(r.arena());
      const TensorView c = r.arena().allocate(type, {m, n});
      gemm(r.exec(), false, false, cut(r, a, {l.batch[batch]}, l.own, l.contracted), cut(r, b, {rl.batch[batch]}, rl.contracted, rl.own), c,
           Write::overwrite, r.arena());
      append(c);
    }
    judge(product, left, right, false, 1);
  } else {
    check_zero_points(left, right);
    const Codes a(r, left), b(r, right);
    const std::vector<Block> blocks = blocks_of(left, l, right, rl);
    for (std::size_t batch = 0; batch < l.batch.size(); ++batch) {
      ArenaScope workspace(r.arena());
      const TensorView c = r.arena().allocate(blocks.size() == 1 ? type : DType::f32, {m, n});
      for (const Block& block : blocks) {
        const ScaledOperand lhs{cut(r, a.source, {l.batch[batch]}, l.own, block.left), false,
                                a.scales(r, l, {a.scale.empty() ? 0 : l.scale_batch[batch]}, block.left_scale), nullptr};
        const ScaledOperand rhs{cut(r, b.source, {rl.batch[batch]}, block.right, rl.own), false,
                                b.scales(r, rl, {b.scale.empty() ? 0 : rl.scale_batch[batch]}, block.right_scale), nullptr};
        scaled_gemm(r.exec(), lhs, rhs, c, &block == &blocks.front() ? Write::overwrite : Write::accumulate, r.arena());
      }
      append(c);
    }
    judge(product, left, right, true, blocks.size());
  }
  round_to(type, product.values);

  const std::vector<double> a = magnitudes(r, left), b = magnitudes(r, right);
  product.sizes.assign(product.values.size(), 0.0);
  double* size = product.sizes.data();
  for (std::size_t batch = 0; batch < l.batch.size(); ++batch)
    for (const int64_t row : l.own) {
      for (std::size_t k = 0; k < l.contracted.size(); ++k) {
        const double factor = a[static_cast<std::size_t>(l.batch[batch] + row + l.contracted[k])];
        for (std::size_t j = 0; j < rl.own.size(); ++j) size[j] += factor * b[static_cast<std::size_t>(rl.batch[batch] + rl.contracted[k] + rl.own[j])];
      }
      size += n;
    }
  return product;
}

DotResult multiply_groups(Recording& r, const Side& left, const Side& right, const std::vector<int32_t>& sizes, DType type) {
  const Layout l = layout_of(left, {}, {1}), rl = layout_of(right, {0}, {1});
  const int64_t rows = left.shape[0], n = right.shape[2];
  const TensorView offsets = offsets_tensor(r, sizes, rows);
  DotResult product;
  product.type = type;
  std::size_t blocks = 1;
  const bool decoded_first = !left.quantized() || !right.quantized() || left.has_zero_point() || right.has_zero_point();
  ArenaScope workspace(r.arena());
  if (decoded_first) {
    const Source a = source_of(left.raw ? DType::f32 : left.type, dequantized(r, left)), b = source_of(right.raw ? DType::f32 : right.type, dequantized(r, right));
    const TensorView c = r.arena().allocate(type, {rows, n});
    const TensorView weights = cut(r, b, rl.batch, rl.contracted, rl.own).reshaped({right.shape[0], right.shape[1], n});
    grouped_gemm(r.exec(), false, cut(r, a, {0}, l.own, l.contracted), weights, offsets, c, Write::overwrite, r.arena());
    product.values = r.bench().read(c);
  } else {
    const Codes a(r, left), b(r, right);
    const std::vector<Block> parts = blocks_of(left, l, right, rl);
    blocks = parts.size();
    const TensorView c = r.arena().allocate(blocks == 1 ? type : DType::f32, {rows, n});
    for (const Block& block : parts) {
      const TensorView weights = cut(r, b.source, rl.batch, block.right, rl.own).reshaped({right.shape[0], static_cast<int64_t>(block.right.size()), n});
      TensorView scales = b.scale.empty() ? TensorView{} : b.scales(r, rl, rl.scale_batch, block.right_scale);
      if (scales.data != nullptr) scales = scales.reshaped({right.shape[0], n});
      const ScaledOperand lhs{cut(r, a.source, {0}, l.own, block.left), false, a.scales(r, l, {0}, block.left_scale), nullptr};
      scaled_grouped_gemm(r.exec(), lhs, {weights, false, scales, nullptr}, offsets, c, &block == &parts.front() ? Write::overwrite : Write::accumulate,
                          r.arena());
    }
    product.values = r.bench().read(c);
  }
  judge(product, left, right, !decoded_first, blocks);
  round_to(type, product.values);

  const std::vector<double> a = magnitudes(r, left), b = magnitudes(r, right);
  product.sizes.assign(product.values.size(), 0.0);
  std::size_t row = 0;
  for (std::size_t g = 0; g < sizes.size(); ++g)
    for (int32_t i = 0; i < sizes[g]; ++i, ++row)
      for (std::size_t k = 0; k < l.contracted.size(); ++k)
        for (std::size_t j = 0; j < rl.own.size(); ++j)
          product.sizes[row * rl.own.size() + j] += a[row * l.contracted.size() + k] * b[static_cast<std::size_t>(rl.batch[g] + rl.contracted[k] + rl.own[j])];
  return product;
}

DotResult contract_groups(Recording& r, const Side& left, const Side& right, const std::vector<int32_t>& sizes, DType type) {
  const Layout l = layout_of(left, {}, {0}), rl = layout_of(right, {}, {0});
  const int64_t rows = left.shape[0], k = left.shape[1], n = right.shape[1];
  const TensorView offsets = offsets_tensor(r, sizes, rows);
  DotResult product;
  product.type = type;
  const bool decoded_first = !left.quantized() || !right.quantized() || left.has_zero_point() || right.has_zero_point();
  ArenaScope workspace(r.arena());
  const TensorView c = r.arena().allocate(type, {static_cast<int64_t>(sizes.size()), k, n});
  if (decoded_first) {
    const Source a = source_of(left.raw ? DType::f32 : left.type, dequantized(r, left)), b = source_of(right.raw ? DType::f32 : right.type, dequantized(r, right));
    grouped_gemm_wgrad(r.exec(), cut(r, a, {0}, l.contracted, l.own), cut(r, b, {0}, rl.contracted, rl.own), offsets, c, Write::overwrite, r.arena());
  } else {
    const Codes a(r, left), b(r, right);
    if (blocks_of(left, l, right, rl).size() != 1) refuse("Rows of groups are contracted with a scale for each row, which no product has.");
    scaled_grouped_gemm_wgrad(r.exec(), {cut(r, a.source, {0}, l.contracted, l.own), false, a.scales(r, l, {0}, 0), nullptr},
                              {cut(r, b.source, {0}, rl.contracted, rl.own), false, b.scales(r, rl, {0}, 0), nullptr}, offsets, c, Write::overwrite,
                              r.arena());
  }
  product.values = r.bench().read(c);
  judge(product, left, right, !decoded_first, 1);

  const std::vector<double> a = magnitudes(r, left), b = magnitudes(r, right);
  product.sizes.assign(product.values.size(), 0.0);
  std::size_t row = 0;
  for (std::size_t g = 0; g < sizes.size(); ++g)
    for (int32_t i = 0; i < sizes[g]; ++i, ++row)
      for (std::size_t x = 0; x < l.own.size(); ++x)
        for (std::size_t j = 0; j < rl.own.size(); ++j)
          product.sizes[(g * l.own.size() + x) * rl.own.size() + j] += a[row * l.own.size() + x] * b[row * rl.own.size() + j];
  return product;
}

void compare_product(Recording& r, const std::string& tensor, const Shape& shape, const DotResult& product) {
  r.expect(tensor, product.type, shape);
  const std::vector<float> expected = r.floats(tensor, product.values.size());
  if (product.every_bit) return r.compare_values(tensor, product.values);
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (same(product.values[i], expected[i])) continue;
    const double error = std::fabs(static_cast<double>(product.values[i]) - static_cast<double>(expected[i])) / product.sizes[i];
    const bool bounded = std::isfinite(product.sizes[i]) && !std::isnan(error);  // whatever is small beside an infinity
    worst = std::fmax(worst, bounded ? error : std::numeric_limits<double>::infinity());
  }
  r.add(tensor, "of sum |a||b|", worst, product.limit);
}

}  // namespace kvant::quant::detail
