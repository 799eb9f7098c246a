// A model that the reference was recorded with: its settings as a configuration, its weights, its metadata.
#pragma once

#include "config/settings.hpp"
#include "data/safetensors.hpp"
#include "tensor/tensor.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace kvant {
struct Exec;
}

namespace kvant::train::detail {

/// A text of the metadata as the object that it must be.
nlohmann::json metadata_object(const data::SafetensorsFile& file, const char* key);

/// A number inside of it, by its path "/logits/mean".
double number_in(const data::SafetensorsFile& file, const nlohmann::json& object, const char* key, const std::string& path);

/// `given` (the reference's names and values) as a configuration, so that it passes the same checks as a user's. `compat` is the
/// arithmetic that it ran in, `more` further sections.
config::Settings settings_from(const data::SafetensorsFile& file, const nlohmann::json& given, const std::string& compat, int64_t batch,
                               const std::string& more);

/// Those of a file of kind "model".
config::Settings recorded_settings(const data::SafetensorsFile& file);

/// The file with the weights, which lies in the same folder.
std::string weights_beside(const data::SafetensorsFile& file);

/// Downloads a tensor of f32 or bf16.
std::vector<float> floats_of(const Exec& exec, const TensorView& tensor);

}  // namespace kvant::train::detail
