#include "numerics/bf16.hpp"
#include "quant/detail/recorded_product.hpp"
#include "quant/verify_matmul.hpp"

#include <array>
#include <utility>

namespace kvant::quant {
namespace {

using namespace detail;
using nlohmann::json;

class RaggedVerifier {
 public:
  RaggedVerifier(const data::SafetensorsFile& file, const Exec& exec) : r_(file, exec) {}

  VerifiedFile run() {
    r_.each_case([&](const std::string& name, const json& entry) { verify(name, entry); });
    return r_.finish();
  }

 private:
  void verify(const std::string& name, const json& entry) {
    const Side x = read_side(r_, entry.at("lhs")), w = read_side(r_, entry.at("rhs")), g = read_side(r_, entry.at("g"));
    if (x.shape.rank != 2 || w.shape.rank != 3 || x.shape[1] != w.shape[1] || g.shape != Shape{x.shape[0], w.shape[2]})
      refuse("Operands of the shapes {} and {} and a gradient of {} are no grouped product.", to_string(x.shape), to_string(w.shape), to_string(g.shape));
    const std::vector<int32_t> sizes = r_.integers(entry.at("group_sizes"), static_cast<std::size_t>(w.shape[0]));

    const Side left = quantize_side(r_, x, {entry.at("lhs_qtype"), "absmax", {0}, {}}, name + "/fwd_lhs");
    const Side right = quantize_side(r_, w, {entry.at("rhs_qtype"), "absmax", {2}, {}}, name + "/fwd_rhs");  // shared by all groups
    compare(name, entry, "fwd", left, right);
    finish(name + "/out", {x.shape[0], w.shape[2]}, left, right, [&](DType type) { return multiply_groups(r_, left, right, sizes, type); });

    constexpr std::array turned{0, 2, 1};
    const Side back = transposed_side(r_, right, turned);
    if (const json& qtype = entry.at("grad_qtype"); !qtype.is_null()) {
      const Side for_x = quantize_side(r_, times(g, r_.bench().read(right.scale), 1, right.type), {qtype, "absmax", {0}, {}}, name + "/dlhs_lhs");
      const Side for_w = quantize_side(r_, times(g, r_.bench().read(left.scale), 0, left.type), {qtype, "absmax", {1}, {}}, name + "/drhs_rhs");
      gradients(name, entry, x, w, sizes, for_x, raw_side(back), raw_side(left), for_w);
    } else {
      gradients(name, entry, x, w, sizes, g, back, left, g);
    }
  }

  void gradients(const std::string& name, const json& entry, const Side& x, const Side& w, const std::vector<int32_t>& sizes, const Side& for_x,
                 const Side& weights, const Side& rows, const Side& for_w) {
    compare(name, entry, "dlhs", for_x, weights);
    finish(name + "/dlhs", x.shape, for_x, weights, [&](DType type) { return multiply_groups(r_, for_x, weights, sizes, type); });
    compare(name, entry, "drhs", rows, for_w);
    finish(name + "/drhs", w.shape, rows, for_w, [&](DType type) { return contract_groups(r_, rows, for_w, sizes, type); });
  }

  /// g · scales of an operand, one for each row (axis 0) or column.
  Side times(const Side& g, const std::vector<float>& scale, int axis, DType scale_type) {
    const DType type = g.type == DType::f32 || scale_type == DType::f32 ? DType::f32 : DType::bf16;
    std::vector<float> values = g.values;
    const auto columns = static_cast<std::size_t>(g.shape[1]);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] *= scale[axis == 0 ? i / columns : i % columns];
      if (type == DType::bf16) values[i] = to_float(to_bf16(values[i]));
    }
    return plain_side(r_, g.shape, type, std::move(values));
  }

  void compare(const std::string& name, const json& entry, const std::string& dot, const Side& left, const Side& right) {
    compare_side(r_, name + "/" + dot + "_lhs", left);
    compare_side(r_, name + "/" + dot + "_rhs", right);
    const json& said = entry.at("dots").at(dot);
    for (const auto& [side, ours] : {std::pair{"lhs", &left}, std::pair{"rhs", &right}})
      if (said.at(side) != words_of(*ours))
        refuse("The {} operand of {} is {} as recorded; its types make it {}.", side, dot, said.at(side).dump(), words_of(*ours));
  }

  template <class F>
  void finish(const std::string& tensor, const Shape& shape, const Side& left, const Side& right, F&& product) {
    const DType type = result_type(left, right);
    r_.expect(tensor, type, shape);
    compare_product(r_, tensor, shape, product(type));
  }

  Recording r_;
};

}  // namespace

VerifiedFile verify_ragged_dot(const data::SafetensorsFile& file, const Exec& exec) { return RaggedVerifier(file, exec).run(); }

}  // namespace kvant::quant
