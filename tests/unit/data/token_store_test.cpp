#include "data/token_store.hpp"
#include "base/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using kvant::data::TokenStore;
using Ids = std::vector<int32_t>;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("the width follows from the vocabulary and no id wraps") {
  TokenStore narrow(65536), wide(70000);
  CHECK(narrow.bytes_per_token() == 2);
  CHECK(wide.bytes_per_token() == 4);
  narrow.append(Ids{0, 255, 65535});
  wide.append(Ids{4463, 69999});
  CHECK(narrow.read(0, 3) == Ids{0, 255, 65535});
  CHECK(wide.read(1, 1) == Ids{69999});
  CHECK(TokenStore(65537).bytes_per_token() == 4);
}

TEST_CASE("an id outside of the vocabulary is refused and nothing is stored") {
  TokenStore store(256);
  CHECK_THROWS_MATCHES(store.append(Ids{1, 256}), kvant::Error,
                       MessageMatches(ContainsSubstring("256") && ContainsSubstring("0 to 255")));
  CHECK_THROWS_AS(store.append(Ids{-1}), kvant::Error);
  CHECK(store.size() == 0);
}

TEST_CASE("reading past the end and empty vocabularies are refused") {
  TokenStore store(10);
  store.append(Ids{1, 2, 3});
  CHECK(store.read(3, 0).empty());
  CHECK_THROWS_MATCHES(store.read(2, 2), kvant::Error, MessageMatches(ContainsSubstring("3 are stored")));
  CHECK_THROWS_AS(store.read(-1, 1), kvant::Error);
  CHECK_THROWS_AS(TokenStore(0), kvant::Error);
  CHECK_THROWS_AS(TokenStore((int64_t{1} << 31) + 1), kvant::Error);
}
