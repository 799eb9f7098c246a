#include "app/plugin_skeleton.hpp"

#include "base/error.hpp"
#include "plugin/abi.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

namespace kvant::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* cmake_lists = R"text(# A plugin of Kvant: cmake -S . -B build -DCMAKE_PREFIX_PATH=<Kvant's prefix> && cmake --build build && ctest --test-dir build
cmake_minimum_required(VERSION 3.25)
project(@NAME@ VERSION 0.1 LANGUAGES CXX)
find_package(Kvant REQUIRED)
kvant_add_plugin(@NAME@ KIND @KIND@ SOURCES @NAME@.cpp)

include(CTest)
find_program(KVANT_PROGRAM kvant HINTS "${Kvant_DIR}/../../../bin" NO_DEFAULT_PATH)
find_program(KVANT_PROGRAM kvant REQUIRED)
set(run "${CMAKE_BINARY_DIR}/run")
add_test(NAME loads COMMAND "${KVANT_PROGRAM}" plugins $<TARGET_FILE:kvant_@NAME@>)
add_test(NAME explains COMMAND "${KVANT_PROGRAM}" explain "${PROJECT_SOURCE_DIR}/try.toml")
add_test(NAME clears COMMAND "${CMAKE_COMMAND}" -E rm -rf "${run}")
add_test(NAME trains COMMAND "${KVANT_PROGRAM}" train "${PROJECT_SOURCE_DIR}/try.toml" --run-dir "${run}")
set_tests_properties(trains PROPERTIES DEPENDS clears)
set_tests_properties(explains PROPERTIES PASS_REGULAR_EXPRESSION "@EXPECTED@")
set_tests_properties(explains trains PROPERTIES ENVIRONMENT "KVANT_PLUGIN_PATH=${CMAKE_BINARY_DIR}/plugins")
)text";

constexpr const char* scheme_source = R"text(// @NAME@: what runs in low precision, and how. This one: int8 in the dense and expert products of all layers but the first
// ones, with calibrations, the head and the prediction modules as the flags of [quant] say.
#include "plugin/plugin.hpp"
#include "quant/scheme.hpp"

#include <fmt/format.h>

namespace {

using namespace kvant;

class @CLASS@ final : public quant::Scheme {
 public:
  std::string description() const override { return "int8 in all layers but the first ones"; }

  // The keys of [quant.plugins.@NAME@]; any other key there is refused.
  void configure(config::Section& section) override {
    plain_ = section.take_int({"plain_layers", "layers at the bottom that stay plain", "layers"}, plain_, config::at_least(0));
  }

  // In order: the first rule that matches a product decides, and one without types leaves it plain.
  std::vector<quant::Rule> rules(const config::QuantSettings& settings) const override {
    std::vector<quant::Rule> rules = quant::full_rules(settings, {"int8", "int8", "int8", "int8"});
    if (plain_ == 0) return rules;
    quant::Rule first = quant::plain_rule(settings, "decoder/.*", {}, "@NAME@ leaves the first layers plain");
    first.layers = fmt::format("first:{}", plain_);
    rules.insert(rules.begin(), first);
    return rules;
  }

 private:
  int64_t plain_ = 1;
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<@CLASS@>("@NAME@"))
)text";

constexpr const char* calibrator_source = R"text(// @NAME@: how the range of a tensor is found. This one: @NAME@[,f] is f·max|x| of whatever shares a scale; a factor below 1
// clips, and the gradient of a dense product is then zero where it did.
#include "base/error.hpp"
#include "plugin/plugin.hpp"
#include "quant/calibrator.hpp"

namespace {

class @CLASS@ final : public kvant::quant::Calibrator {
 public:
  // The grammar and what it does: shown where arguments are refused.
  std::string description() const override { return "@NAME@[,f]: the range f·max|x|, f > 0 (0.95 where it is not given)"; }

  kvant::quant::Calibration calibrate(std::span<const float> arguments) const override {
    if (arguments.size() > 1) kvant::refuse("It has {} arguments.", arguments.size());
    kvant::quant::Calibration calibration;
    calibration.factor = arguments.empty() ? 0.95f : arguments[0];
    if (!(calibration.factor > 0)) kvant::refuse("The factor is {}.", calibration.factor);
    return calibration;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<@CLASS@>("@NAME@"))
)text";

constexpr const char* try_toml = R"text(# A model that trains in a second, for the tests of this plugin.
[run]
steps = 3

[model]
vocab_size = 64
max_target_length = 16
base_emb_dim = 32
base_num_query_heads = 2
base_num_decoder_layers = 2
first_num_dense_layers = 1
base_mlp_dim = 64
base_moe_mlp_dim = 32
num_experts = 4
num_experts_per_tok = 2
kv_lora_rank = 16
qk_nope_head_dim = 16
qk_rope_head_dim = 16
v_head_dim = 16

[quant]
@QUANT@

[data]
dataset_type = "synthetic"
global_batch_size = 2

[metrics]
eval_steps = 0
)text";

constexpr const char* readme = R"text(# @NAME@

A @KIND@ for Kvant. `@NAME@.cpp` is all of it; `docs/plugins.md` of Kvant says what else the interface offers.

    cmake -S . -B build -DCMAKE_PREFIX_PATH=<Kvant's prefix> -DCMAKE_BUILD_TYPE=Release
    cmake --build build
    ctest --test-dir build --output-on-failure

    export KVANT_PLUGIN_PATH=$PWD/build/plugins
    kvant explain try.toml
    kvant train try.toml

The compiler must be the one that Kvant was built with (the last lines of `kvant plugins` name it); give it with -DCMAKE_CXX_COMPILER.
)text";

/// "my_scheme" → "MyScheme"
std::string class_name(const std::string& name) {
  std::string out;
  bool upper = true;
  for (const char c : name) {
    if (c == '_') {
      upper = true;
      continue;
    }
    out += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = false;
  }
  return out;
}

std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [key, value] : values)
    for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + value.size()))
      text.replace(at, key.size(), value);
  return text;
}

void check_name(const std::string& name, const std::vector<std::string>& taken) {
  const bool letters = !name.empty() && name.front() >= 'a' && name.front() <= 'z' &&
                       std::ranges::all_of(name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
  if (!letters || name.size() >= sizeof(KvantPluginRecord::name))
    refuse("'{}' is no plugin's name: it is made of a-z, 0-9 and _, starts with a letter and has at most {} characters.", name,
           sizeof(KvantPluginRecord::name) - 1);
  if (std::ranges::find(taken, name) != taken.end()) refuse("There is a plugin '{}' already; give another name.", name);
}

}  // namespace

std::vector<fs::path> write_plugin_skeleton(plugin::Kind kind, const std::string& name, const fs::path& folder,
                                            const std::vector<std::string>& taken) {
  require(kind != plugin::Kind::comm, "There is no skeleton of a comm strategy.");
  check_name(name, taken);
  const fs::path home = folder / name;
  std::error_code error;
  if (fs::exists(home, error)) refuse("'{}' exists already; nothing was written.", home.string());
  if (!fs::create_directories(home, error)) refuse("The folder '{}' cannot be made: {}.", home.string(), error.message());
  const bool scheme = kind == plugin::Kind::scheme;
  const std::string quant = scheme ? fmt::format("quantization = \"{}\"", name)
                                   : fmt::format("quantization = \"int8_full\"\nquantization_calibration_method = \"{}\"", name);
  const std::vector<std::pair<std::string, std::string>> values = {
      {"@NAME@", name},
      {"@KIND@", plugin::name_of(kind)},
      {"@CLASS@", class_name(name)},
      {"@QUANT@", quant},
      {"@EXPECTED@", scheme ? "[1-9][0-9]* of [0-9]+ sites quantized" : "int8 " + name}};
  const std::pair<std::string, const char*> files[] = {{"CMakeLists.txt", cmake_lists},
                                                       {name + ".cpp", scheme ? scheme_source : calibrator_source},
                                                       {"try.toml", try_toml},
                                                       {"README.md", readme}};
  std::vector<fs::path> written;
  for (const auto& [file, text] : files) {
    written.push_back(home / file);
    std::ofstream out(written.back(), std::ios::binary);
    out << filled(text, values);
    out.flush();
    if (!out) refuse("'{}' cannot be written.", written.back().string());
  }
  return written;
}

}  // namespace kvant::app
