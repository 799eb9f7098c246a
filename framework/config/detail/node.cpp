#include "config/detail/node.hpp"

#include <fmt/format.h>

namespace kvant::config::detail {

Node* Node::find(std::string_view name) {
  for (auto& [key, node] : entries)
    if (key == name) return &node;
  return nullptr;
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Kind::boolean:
      return node.boolean ? "true" : "false";
    case Kind::integer:
      return fmt::format("the integer {}", node.integer);
    case Kind::real:
      return fmt::format("the real number {}", node.real);
    case Kind::beyond:
      return node.string;
    case Kind::string:
      return fmt::format("the string \"{}\"", node.string);
    case Kind::date:
      return fmt::format("the date {}", node.string);
    case Kind::array:
      return fmt::format("a list of {}", node.items.size());
    case Kind::table:
      return "a table";
  }
  return "something unknown";
}

void lay_over(Node& lower, Node&& upper) {
  if (lower.kind != Kind::table || upper.kind != Kind::table) {
    lower = std::move(upper);
    return;
  }
  lower.place = upper.place;
  lower.key_place = upper.key_place;
  for (auto& [name, node] : upper.entries) {
    if (Node* below = lower.find(name))
      lay_over(*below, std::move(node));
    else
      lower.entries.emplace_back(name, std::move(node));
  }
}

}  // namespace kvant::config::detail
