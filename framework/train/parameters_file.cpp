#include "train/parameters_file.hpp"

#include "data/safetensors.hpp"
#include "data/safetensors_writer.hpp"
#include "kernels/transfer.hpp"

#include <algorithm>

namespace kvant::train {

void save_parameters(const std::string& file, Model& model, const Exec& exec) {
  std::vector<data::TensorToWrite> tensors;
  for (const nn::Param* p : model.params().all()) {
    const std::vector<int64_t> shape(p->shape.dim.begin(), p->shape.dim.begin() + p->shape.rank);
    tensors.push_back({p->path, DType::f32, shape, [p, &exec](std::vector<char>& bytes) {
                         bytes.resize(p->value.bytes());
                         download(exec, p->value, bytes.data());
                       }});
  }
  data::write_safetensors(file, {{"format", "kvant-parameters/1"}}, tensors);
}

void load_parameters(const std::string& path, Model& model, const Exec& exec) {
  const data::SafetensorsFile file(path);
  const auto& params = model.params().all();
  for (nn::Param* p : params) {
    if (!file.has(p->path)) refuse("{} has no tensor {}, which the model needs.", path, p->path);
    const std::vector<float> values = file.read_floats(p->path);
    if (static_cast<int64_t>(values.size()) != p->shape.numel())
      refuse("{}: {} has {} elements, the model needs {}.", path, p->path, values.size(), p->shape.numel());
    upload(exec, values.data(), p->value);
    ++p->epoch;
  }
  for (const data::StoredTensor& t : file.tensors())
    if (std::none_of(params.begin(), params.end(), [&](const nn::Param* p) { return p->path == t.name; }))
      refuse("{}: {} belongs to no parameter of the model.", path, t.name);
}

}  // namespace kvant::train
