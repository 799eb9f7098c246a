#include "train/parameters_file.hpp"

#include "data/safetensors.hpp"
#include "data/safetensors_writer.hpp"
#include "kernels/transfer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace kvant::train {

namespace {

/// What save_parameters writes, and the recorded weights that `kvant verify` starts from.
constexpr std::string_view known_formats[] = {"kvant-parameters/1", "kvant-golden-maxtext/1"};

}  // namespace

bool same_order(const std::vector<int64_t>& stored, const Shape& wanted) {
  std::size_t i = 0;
  int j = 0;
  while (i < stored.size() && j < wanted.rank) {
    const int64_t a = stored[i++], b = wanted[j++];
    int64_t merged_a = a, merged_b = b;
    while (merged_a < b && i < stored.size()) merged_a *= stored[i++];
    while (merged_b < a && j < wanted.rank) merged_b *= wanted[j++];
    if (merged_a != merged_b) return false;  // [64, 128] and [128, 64] would only agree with both sides merged
  }
  const auto is_one = [](int64_t d) { return d == 1; };
  return std::all_of(stored.begin() + static_cast<long>(i), stored.end(), is_one) &&
         std::all_of(wanted.dim.begin() + j, wanted.dim.begin() + wanted.rank, is_one);
}

void save_parameters(const std::string& file, Model& model, const Exec& exec) {
  std::vector<data::TensorToWrite> tensors;
  for (const nn::Param* p : model.params().all()) {
    const std::vector<int64_t> shape(p->shape.dim.begin(), p->shape.dim.begin() + p->shape.rank);
    tensors.push_back({p->path, DType::f32, shape, [p, &exec](std::vector<char>& bytes) {
                         bytes.resize(p->value.bytes());
                         download(exec, p->value, bytes.data());
                       }});
  }
  data::write_safetensors(file, {{"format", std::string(known_formats[0])}}, tensors);
}

void load_parameters(const std::string& path, Model& model, const Exec& exec) {
  const data::SafetensorsFile file(path);
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end() || std::find(std::begin(known_formats), std::end(known_formats), format->second) == std::end(known_formats))
    refuse("{} {}; weights are read from files whose metadata names the format {}.", path,
           format == file.metadata().end() ? std::string("names no format") : fmt::format("has the format \"{}\"", format->second),
           fmt::join(known_formats, " or "));
  const auto& params = model.params().all();
  for (nn::Param* p : params) {
    if (!file.has(p->path)) refuse("{} has no tensor {}, which the model needs.", path, p->path);
    const std::vector<int64_t>& stored = file.tensor(p->path).shape;
    if (!same_order(stored, p->shape))
      refuse("{}: {} has the shape [{}], the model needs {}.", path, p->path, fmt::join(stored, ", "), to_string(p->shape));
    const std::vector<float> values = file.read_floats(p->path);
    upload(exec, values.data(), p->value);
    ++p->epoch;
  }
  for (const data::StoredTensor& t : file.tensors())
    if (std::none_of(params.begin(), params.end(), [&](const nn::Param* p) { return p->path == t.name; }))
      refuse("{}: {} belongs to no parameter of the model.", path, t.name);
}

}  // namespace kvant::train
