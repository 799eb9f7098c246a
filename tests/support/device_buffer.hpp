// A tensor in execution memory with its way to and from the host, for tests of kernels.
#pragma once

#include "base/kokkos.hpp"
#include "numerics/bf16.hpp"
#include "tensor/tensor.hpp"

#include <cstring>
#include <vector>

namespace kvant::test {

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DType dtype, const Shape& shape)
      : bytes_("kvant::test", static_cast<std::size_t>(shape.numel()) * size_of(dtype) + 64),
        view_(make_view(bytes_.data(), dtype, shape, exec_is_host ? MemorySpace::host : MemorySpace::device)) {}

  /// Values rounded to the type (f32, bf16), or converted (i32).
  template <class T>
  DeviceBuffer(DType dtype, const Shape& shape, const std::vector<T>& values) : DeviceBuffer(dtype, shape) {
    put(values);
  }

  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }  // NOLINT: a buffer stands for its tensor

  template <class T>
  void put(const std::vector<T>& values) {
    auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), bytes_);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<float>(values[i]);
      if (view_.dtype == DType::f32)
        store(host.data(), i, value);
      else if (view_.dtype == DType::bf16)
        store(host.data(), i, to_bf16(value));
      else if (view_.dtype == DType::i32)
        store(host.data(), i, static_cast<int32_t>(values[i]));
      else if (view_.dtype == DType::i16)
        store(host.data(), i, static_cast<int16_t>(values[i]));
      else
        store(host.data(), i, static_cast<uint8_t>(static_cast<int>(values[i])));
    }
    Kokkos::deep_copy(bytes_, host);
  }

  /// The stored numbers: floats widened, one-byte codes as they are (i8 with its sign).
  std::vector<float> floats() const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), bytes_);
    std::vector<float> values(static_cast<std::size_t>(view_.numel()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = view_.dtype == DType::f32 ? load<float>(host.data(), i) : to_float(load<bf16_t>(host.data(), i));
    return values;
  }
  std::vector<int> integers() const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), bytes_);
    std::vector<int> values(static_cast<std::size_t>(view_.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (view_.dtype == DType::i32)
        values[i] = load<int32_t>(host.data(), i);
      else if (view_.dtype == DType::i8)
        values[i] = load<int8_t>(host.data(), i);
      else if (view_.dtype == DType::i16)
        values[i] = load<int16_t>(host.data(), i);
      else
        values[i] = load<uint8_t>(host.data(), i);
    }
    return values;
  }

  /// What a kernel that forgets to write would leave behind.
  void poison() { Kokkos::deep_copy(bytes_, static_cast<char>(0x7f)); }

 private:
  template <class T>
  static void store(char* memory, std::size_t i, T value) {
    std::memcpy(memory + i * sizeof(T), &value, sizeof(T));
  }
  template <class T>
  static T load(const char* memory, std::size_t i) {
    T value;
    std::memcpy(&value, memory + i * sizeof(T), sizeof(T));
    return value;
  }

  Kokkos::View<char*, MemSpace> bytes_;
  TensorView view_;
};

}  // namespace kvant::test
