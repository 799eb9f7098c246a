// Tiles: how many elements along an axis share a scale.
#include "base/error.hpp"
#include "config/detail/state.hpp"
#include "config/quant_settings.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace kvant::config {

using detail::Kind;
using detail::Node;

namespace {

constexpr const char* accepted = "0 (no tiles), a count of at least 1, or a share 1/n of the axis such as 0.25";

/// False: the node is no tile size.
bool read(const Node& node, TileSize& tile) {
  tile = {};
  if (node.kind == Kind::integer) {
    tile.count = node.integer;
    return node.integer >= 0;
  }
  if (node.kind != Kind::real || !(node.real > 0) || node.real > 1) return false;
  tile.share = node.real;
  const double tiles = 1 / node.real;
  return std::isfinite(tiles) && tiles <= 1e9 && std::abs(tiles - std::round(tiles)) < 1e-6 * tiles;
}

/// The number that a key of a table of axes is, -1 if it is none.
int64_t axis_of(const std::string& name) {
  int64_t axis = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), axis);
  return error == std::errc{} && end == name.data() + name.size() ? axis : -1;
}

std::string to_toml(const TileSetting& tiles) {
  if (tiles.axes.empty()) return to_string(tiles.contracted);
  std::string out;
  for (const auto& [axis, tile] : tiles.axes) out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", axis, to_string(tile));
  return "{ " + out + " }";
}

}  // namespace

std::string to_string(const TileSize& tile) {
  if (tile.share == 0) return fmt::format("{}", tile.count);
  std::string text = fmt::format("{}", tile.share);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

TileSize Section::take_tile(const Key& key) {
  TileSize tile;
  const Node* node = declare(key, "integer or real", "0", "a count, or a share 1/n of the axis; 0 = no tiles");
  if (node == nullptr) return tile;
  if (!config::read(*node, tile)) {
    note(node->place, fmt::format("{} in section [{}] must be {}; found {}", key.name, path_, accepted, describe(*node)));
    return {};
  }
  settle(key, to_string(tile));
  return tile;
}

TileSetting Section::take_tiles(const Key& key) {
  TileSetting tiles;
  const Node* node = declare(key, "integer, real or table", "0",
                             "a count, or a share 1/n of the axis; { axis = tile, … }; 0 = no tiles");
  if (node == nullptr) return tiles;
  if (node->kind != Kind::table) {
    if (!config::read(*node, tiles.contracted)) {
      note(node->place, fmt::format("{} in section [{}] must be {}, or a table of axes such as {{ 0 = 128, 1 = 128 }}; found {}",
                                    key.name, path_, accepted, describe(*node)));
      return {};
    }
  }
  for (const auto& [name, item] : node->entries) {
    TileSize tile;
    const int64_t axis = axis_of(name);
    if (axis != 0 && axis != 1)
      note(item.key_place, fmt::format("{} in section [{}] has the axis '{}'; operands are matrices, so an axis is 0 or 1",
                                       key.name, path_, name));
    else if (!config::read(item, tile))
      note(item.place, fmt::format("axis {} of {} in section [{}] must be {}; found {}", name, key.name, path_, accepted,
                                   describe(item)));
    else if (tile.given())
      tiles.axes.emplace_back(axis, tile);
  }
  settle(key, to_toml(tiles));
  return tiles;
}

}  // namespace kvant::config
