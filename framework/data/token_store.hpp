// Token ids of a whole text, 16 bits each where the vocabulary fits and 32 otherwise. The width follows from the
// vocabulary and every id is checked when it is stored, so none can wrap to another token.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace kvant::data {

class TokenStore {
 public:
  explicit TokenStore(int64_t vocab_size);

  int64_t size() const;
  int bytes_per_token() const;
  void reserve(int64_t tokens);

  /// Throws Error naming the id and the vocabulary if an id is not 0 … vocab_size - 1; nothing is then stored.
  void append(std::span<const int32_t> ids);
  /// Ids first … first + count - 1 as int32 to `out`.
  void copy(int64_t first, int64_t count, int32_t* out) const;
  std::vector<int32_t> read(int64_t first, int64_t count) const;

 private:
  int64_t vocab_size_;
  std::variant<std::vector<uint16_t>, std::vector<int32_t>> ids_;
};

}  // namespace kvant::data
