#include "data/token_store.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace kvant::data {

TokenStore::TokenStore(int64_t vocab_size) : vocab_size_(vocab_size) {
  require(vocab_size > 0 && vocab_size <= int64_t{1} << 31, "A vocabulary of {} ids cannot be stored; 1 to 2^31 can.",
          vocab_size);
  if (vocab_size > int64_t{1} << 16) ids_ = std::vector<int32_t>();
}

int64_t TokenStore::size() const {
  return std::visit([](const auto& ids) { return static_cast<int64_t>(ids.size()); }, ids_);
}

int TokenStore::bytes_per_token() const {
  return std::visit([](const auto& ids) { return static_cast<int>(sizeof(ids[0])); }, ids_);
}

void TokenStore::reserve(int64_t tokens) {
  std::visit([&](auto& ids) { ids.reserve(static_cast<size_t>(tokens)); }, ids_);
}

void TokenStore::append(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    require(id >= 0 && id < vocab_size_, "Token id {} is not in the vocabulary, whose ids are 0 to {}.", id,
            vocab_size_ - 1);
  }
  std::visit([&](auto& stored) { stored.insert(stored.end(), ids.begin(), ids.end()); }, ids_);
}

void TokenStore::copy(int64_t first, int64_t count, int32_t* out) const {
  require(first >= 0 && count >= 0 && first + count <= size(), "Tokens {} to {} were asked for, but {} are stored.",
          first, first + count, size());
  std::visit([&](const auto& ids) { std::copy_n(ids.begin() + first, count, out); }, ids_);
}

std::vector<int32_t> TokenStore::read(int64_t first, int64_t count) const {
  std::vector<int32_t> ids(static_cast<size_t>(std::max<int64_t>(count, 0)));
  copy(first, count, ids.data());
  return ids;
}

}  // namespace kvant::data
