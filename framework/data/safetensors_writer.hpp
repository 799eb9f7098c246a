// Writes a safetensors file: header padded to 8 bytes, data without holes. Written aside and renamed when whole, so that a
// file of this name is never half written.
#pragma once

#include "tensor/dtype.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kvant::data {

/// One tensor to be written. `fill` is called when its turn comes and gives exactly `bytes` bytes, so that the whole need never
/// be in host memory at once.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::function<void(std::vector<char>& bytes)> fill;
};

/// Throws kvant::Error with the reason where the file cannot be written (no space, no permission); nothing is left behind then.
void write_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata, const std::vector<TensorToWrite>& tensors);

}  // namespace kvant::data
