// Reader of NumPy's .npz: a zip archive whose members are .npy arrays, stored without compression (numpy.savez).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kvant::app {

struct NpzArray {
  std::vector<int64_t> shape;
  std::vector<float> values;  ///< row-major
};

/// Every array by its name without ".npy". Refuses what is not little-endian float32 in C order, compressed members and
/// damaged archives, naming file and member.
std::map<std::string, NpzArray> read_npz(const std::string& file);

}  // namespace kvant::app
