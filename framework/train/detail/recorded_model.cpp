#include "train/detail/recorded_model.hpp"

#include "base/error.hpp"
#include "base/json_depth.hpp"
#include "config/document.hpp"
#include "config/settings.hpp"
#include "kernels/transfer.hpp"
#include "numerics/bf16.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace kvant::train::detail {

using data::SafetensorsFile;
using nlohmann::json;

json metadata_object(const SafetensorsFile& file, const char* key) {
  if (json_depth(file.metadata(key)) > 32) fail("{}: the metadata \"{}\" nests {} brackets.", file.path(), key, json_depth(file.metadata(key)));
  json object = json::parse(file.metadata(key), nullptr, false);
  if (!object.is_object()) fail("{}: the metadata \"{}\" is no JSON object.", file.path(), key);
  return object;
}

double number_in(const SafetensorsFile& file, const json& object, const char* key, const std::string& path) {
  const json::json_pointer pointer(path);
  if (!object.contains(pointer) || !object.at(pointer).is_number()) fail("{}: the metadata \"{}\" has no number {}.", file.path(), key, path);
  return object.at(pointer).get<double>();
}

namespace {

/// What the reference's model names stand for where a file does not say otherwise (its deepseek3 family; RoPE and router).
const char* family_defaults(const std::string& model_name) {
  if (model_name.starts_with("deepseek3"))
    return R"(
normalization_layer_epsilon = 1e-6
rope_type = "yarn"
rope_max_timescale = 10000.0
original_max_position_embeddings = 4096
max_position_embeddings = 163840
rope_factor = 40.0
beta_fast = 32.0
beta_slow = 1.0
mscale = 1.0
rope_interleave = true
routed_score_func = "sigmoid"
routed_bias = true
routed_scaling_factor = 2.5
dtype = "float32"
)";
  refuse("The file was made with model_name \"{}\"; this version verifies the deepseek3 family.", model_name);
}

/// What all recorded programs have in common, besides what a configuration says; another value is refused.
const std::map<std::string, json>& common_settings() {
  static const std::map<std::string, json> common = {
      {"attention", "dot_product"}, {"dtype", "float32"},       {"weight_dtype", "float32"}, {"grad_dtype", "float32"}, {"matmul_precision", "highest"},
      {"enable_dropout", false},    {"remat_policy", "none"},   {"scan_layers", false},      {"hardware", "cpu"},       {"override_model_config", true}};
  return common;
}
/// Of running the reference, not of what it computes.
const std::set<std::string> bookkeeping = {"run_name", "enable_checkpointing", "skip_jax_distributed_system", "log_config", "dataset_type", "per_device_batch_size"};

}  // namespace

config::Settings settings_from(const SafetensorsFile& file, const json& recorded, const std::string& compat, int64_t batch, const std::string& more) {
  json given = recorded;
  if (const auto forced = given.find("FORCE"); forced != given.end()) {  // set behind the reference's own validation
    const json settings = *forced;
    given.erase("FORCE");
    if (!settings.is_object()) fail("{}: FORCE in the metadata \"config\" is no JSON object.", file.path());
    given.update(settings);
  }
  if (!given.contains("model_name") || !given.at("model_name").is_string()) fail("{}: the metadata \"config\" names no model (model_name).", file.path());
  const std::string name = given.at("model_name");
  std::string model = std::string("[model]\n") + family_defaults(name), quant = "[quant]\n";
  const std::set<std::string> quant_keys = {"quantization", "use_qwix_quantization", "quantize_router_proj", "quantize_mtp",
                                            "quantize_logits_proj", "weight_quantization_calibration_method",
                                            "act_quantization_calibration_method", "bwd_quantization_calibration_method"};
  if (given.contains("quantization")) {
    // The arithmetic that the file was made with, and the reference's defaults where they are not ours.
    quant += "qwix_compat = \"" + compat + "\"\n";
    if (!given.contains("quantize_router_proj")) {
      quant += "quantize_router_proj = true\n";
      model += "float32_gate_logits = false\n";
    }
  }
  for (const auto& [key, value] : given.items()) {
    // megablox says which of the reference's kernels ran; they agree (golden values of both are recorded).
    if (key == "model_name" || key == "megablox" || bookkeeping.contains(key)) continue;
    if (const auto common = common_settings().find(key); common != common_settings().end()) {
      if (value != common->second) refuse("{}: {} = {}; values recorded with {} are verified.", file.path(), key, value.dump(), common->second.dump());
      continue;
    }
    // Latent attention has as many key as query heads; the reference's key is there all the same.
    if (key == "base_num_kv_heads") {
      if (value != given.value("base_num_query_heads", json())) refuse("{}: base_num_kv_heads differs from base_num_query_heads.", file.path());
      continue;
    }
    (quant_keys.contains(key) ? quant : model) += key + " = " + value.dump() + "\n";
  }
  const std::string rest = fmt::format("[data]\ndataset_type = \"synthetic\"\nglobal_batch_size = {}\n", batch) + more;
  config::Document document = config::Document::parse(model + quant + rest, file.path());
  const config::Settings settings = config::read_settings(document);
  document.finish();
  config::check(settings);
  return settings;
}

config::Settings recorded_settings(const SafetensorsFile& file) {
  return settings_from(file, metadata_object(file, "config"), file.metadata("qwix_compat"), file.tensor("data/inputs").shape.at(0), "[run]\nsteps = 1\n");
}

std::string weights_beside(const SafetensorsFile& file) {
  const std::filesystem::path path = std::filesystem::path(file.path()).parent_path() / file.metadata("params");
  if (!std::filesystem::exists(path)) refuse("{}: its weights are in {}, which is not beside it.", file.path(), file.metadata("params"));
  return path.string();
}

std::vector<float> floats_of(const Exec& exec, const TensorView& t) {
  std::vector<float> out(static_cast<std::size_t>(t.numel()));
  if (t.dtype == DType::f32) {
    download(exec, t, out.data());
  } else {
    std::vector<bf16_t> raw(out.size());
    require(t.dtype == DType::bf16, "A tensor of {} cannot be compared.", name_of(t.dtype));
    download(exec, t, raw.data());
    std::transform(raw.begin(), raw.end(), out.begin(), [](bf16_t b) { return to_float(b); });
  }
  return out;
}

}  // namespace kvant::train::detail
