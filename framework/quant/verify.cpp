#include "quant/verify.hpp"

#include "base/error.hpp"
#include "quant/verify_matmul.hpp"
#include "quant/verify_quantizers.hpp"

#include <algorithm>
#include <string_view>

namespace kvant::quant {
namespace {

struct Kind {
  std::string_view name;
  VerifiedFile (*verify)(const data::SafetensorsFile&, const Exec&);
};
constexpr Kind kinds[] = {{"convert", &verify_quantizers},
                          {"quantize", &verify_quantizers},
                          {"dot_general_qt", &verify_dot_general},
                          {"ragged_dot_qt", &verify_ragged_dot},
                          {"qarray_matmul", &verify_stored_operands}};

const Kind* kind_of(const data::SafetensorsFile& file) {
  const auto value = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  if (value("format") != "kvant-golden/1") return nullptr;
  const auto* found = std::ranges::find(kinds, value("kind"), &Kind::name);
  return found == std::end(kinds) ? nullptr : found;
}

}  // namespace

bool is_recorded(const data::SafetensorsFile& file) { return kind_of(file) != nullptr; }

std::string recorded_kinds() {
  std::string list;
  for (const Kind& kind : kinds) list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", kind.name);
  return list;
}

VerifiedFile verify_recorded(const data::SafetensorsFile& file, const Exec& exec) {
  const Kind* kind = kind_of(file);
  require(kind != nullptr, "{} is of no kind that is verified here ({}).", file.path(), recorded_kinds());
  return kind->verify(file, exec);
}

}  // namespace kvant::quant
