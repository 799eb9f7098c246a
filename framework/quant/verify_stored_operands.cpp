#include "quant/detail/recorded_product.hpp"
#include "quant/verify_matmul.hpp"

namespace kvant::quant {
namespace {

using namespace detail;
using nlohmann::json;

class StoredVerifier {
 public:
  StoredVerifier(const data::SafetensorsFile& file, const Exec& exec) : r_(file, exec) {}

  VerifiedFile run() {
    r_.each_case([&](const std::string& name, const json& entry) { verify(name, entry); });
    return r_.finish();
  }

 private:
  Side operand(const std::string& name, const json& entry, const std::string& which) {
    Side side = read_side(r_, entry.at(which));
    if (const json& how = entry.at(which + "_how"); !how.is_null())
      side = quantize_side(r_, side, {how.at("qtype"), how.at("calibration"), axes_from(how.at("channelwise_axes"), side.shape), recorded_tiles(how)}, name + "/" + which);
    if (entry.at(which + "_is") != words_of(side))
      refuse("The {} operand is {} as recorded; its quantizer makes it {}.", which, entry.at(which + "_is").dump(), words_of(side));
    compare_side(r_, name + "/" + which, side);
    return side;
  }

  static DType preferred(const json& entry, DType otherwise) {
    const auto found = entry.find("preferred_element_type");
    if (found == entry.end() || found->is_null()) return otherwise;
    if (*found == "float32") return DType::f32;
    if (*found == "bfloat16") return DType::bf16;
    refuse("The preferred type {} is neither null, \"float32\" nor \"bfloat16\".", found->dump());
  }

  void verify(const std::string& name, const json& entry) {
    const Side left = operand(name, entry, "lhs"), right = operand(name, entry, "rhs");
    const DType type = preferred(entry, result_type(left, right));
    const std::string op = entry.at("op"), out = name + "/out";
    if (op == "dot_general") {
      const DotAxes axes = dot_axes_from(entry.at("dimension_numbers"), left.shape, right.shape);
      const Shape shape = product_shape(left.shape, right.shape, axes);
      r_.expect(out, type, shape);
      compare_product(r_, out, shape, multiply(r_, left, right, axes, type));
    } else if (op == "ragged_dot") {
      if (left.shape.rank != 2 || right.shape.rank != 3 || left.shape[1] != right.shape[1])
        refuse("Operands of the shapes {} and {} are no grouped product.", to_string(left.shape), to_string(right.shape));
      const std::vector<int32_t> sizes = r_.integers(entry.at("group_sizes"), static_cast<std::size_t>(right.shape[0]));
      const Shape shape{left.shape[0], right.shape[2]};
      r_.expect(out, type, shape);
      compare_product(r_, out, shape, multiply_groups(r_, left, right, sizes, type));
    } else {
      refuse("The operation \"{}\" is neither \"dot_general\" nor \"ragged_dot\".", op);
    }
  }

  Recording r_;
};

}  // namespace

VerifiedFile verify_stored_operands(const data::SafetensorsFile& file, const Exec& exec) { return StoredVerifier(file, exec).run(); }

}  // namespace kvant::quant
