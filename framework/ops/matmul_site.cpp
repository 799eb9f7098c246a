#include "ops/matmul_site.hpp"

#include "base/error.hpp"

namespace kvant {

std::string MatmulSite::op_name() const {
  std::string name = op;
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.pop_back();
  return name;
}

std::string MatmulSite::numbered_path() const {
  if (layer < 0) return path;
  // The number belongs to the element that names the stack: the second one of "decoder/moe_layers/…".
  const auto first = path.find('/');
  const auto second = first == std::string::npos ? std::string::npos : path.find('/', first + 1);
  const std::string number = "_" + std::to_string(layer);
  if (second == std::string::npos) return path + number;
  return path.substr(0, second) + number + path.substr(second);
}

MatmulOp& MatmulSite::op_ref() const {
  require(bound != nullptr, "The site {} {} has no arithmetic bound to it.", path, op);
  return *bound;
}

}  // namespace kvant
