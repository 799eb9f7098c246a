#include "data/packing.hpp"
#include "base/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <numeric>

using namespace kvant::data;
using Ids = std::vector<int32_t>;

namespace {

/// Document d of size n holds the ids 100·(d + 1) + 0 … n - 1.
TokenizedText text_of(const std::vector<int64_t>& sizes) {
  TokenizedText text{{}, {0}, TokenStore(65536)};
  for (size_t d = 0; d < sizes.size(); ++d) {
    Ids ids(static_cast<size_t>(sizes[d]));
    std::iota(ids.begin(), ids.end(), static_cast<int32_t>(100 * (d + 1)));
    text.tokens.append(ids);
    text.document_begin.push_back(text.tokens.size());
  }
  return text;
}

std::vector<int64_t> all_documents(const TokenizedText& text) {
  std::vector<int64_t> documents(static_cast<size_t>(text.documents()));
  std::iota(documents.begin(), documents.end(), 0);
  return documents;
}

Batch fill_all(const TokenizedText& text, const PackedRows& rows) {
  Batch batch;
  batch.clear(rows.rows(), rows.seq());
  for (int64_t row = 0; row < rows.rows(); ++row) rows.fill(text, row, row, batch);
  return batch;
}

/// What holds for every batch, whatever the packing; returns how often each (input, target) pair occurs.
std::map<std::pair<int32_t, int32_t>, int> check_batch(const Batch& batch) {
  std::map<std::pair<int32_t, int32_t>, int> pairs;
  int64_t valid = 0;
  CHECK(batch.inputs_position == batch.targets_position);
  for (int64_t row = 0; row < batch.batch; ++row) {
    for (int64_t t = 0; t < batch.seq; ++t) {
      const auto at = static_cast<size_t>(row * batch.seq + t);
      const int32_t segment = batch.inputs_segmentation[at], target_segment = batch.targets_segmentation[at];
      const int32_t before = t == 0 ? 0 : batch.inputs_segmentation[at - 1];
      if (segment == 0) {  // padding: zeros to the end of the row
        CHECK(
            (batch.inputs[at] == 0 && batch.targets[at] == 0 && batch.inputs_position[at] == 0 && target_segment == 0));
        if (t + 1 < batch.seq) CHECK(batch.inputs_segmentation[at + 1] == 0);
        continue;
      }
      if (segment == before) {
        CHECK(batch.inputs_position[at] == batch.inputs_position[at - 1] + 1);
      } else {
        CHECK(segment == before + 1);
        CHECK(batch.inputs_position[at] == 0);
      }
      if (target_segment == 0) {
        CHECK(batch.targets[at] == 0);
      } else {
        CHECK(target_segment == segment);
        CHECK(batch.targets[at] == batch.inputs[at] + 1);  // consecutive within a document
        CHECK(batch.targets[at] / 100 == batch.inputs[at] / 100);
        if (t + 1 < batch.seq) CHECK(batch.inputs[at + 1] == batch.targets[at]);
        ++pairs[{batch.inputs[at], batch.targets[at]}];
        ++valid;
      }
    }
  }
  CHECK(batch.valid_targets == valid);
  return pairs;
}

}  // namespace

TEST_CASE("first_fit: documents go whole into the first row with room, with segments and positions") {
  const auto text = text_of({5, 6, 3, 2});
  const auto rows = pack(text, all_documents(text), Packing::first_fit, 8);
  REQUIRE(rows.rows() == 2);
  const Batch batch = fill_all(text, rows);
  CHECK(batch.inputs == Ids{100, 101, 102, 103, 104, 300, 301, 302, 200, 201, 202, 203, 204, 205, 400, 401});
  CHECK(batch.targets == Ids{101, 102, 103, 104, 0, 301, 302, 0, 201, 202, 203, 204, 205, 0, 401, 0});
  CHECK(batch.inputs_segmentation == Ids{1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 2, 2});
  CHECK(batch.targets_segmentation == Ids{1, 1, 1, 1, 0, 2, 2, 0, 1, 1, 1, 1, 1, 0, 2, 0});
  CHECK(batch.inputs_position == Ids{0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3, 4, 5, 0, 1});
  CHECK(batch.targets_position == batch.inputs_position);
  CHECK(batch.valid_targets == 12);
  CHECK(rows.valid_targets() == 12);
  CHECK(rows.inputs() == 16);
}

TEST_CASE("concat_then_split: a stream cut every seq tokens, whose windows overlap by one token") {
  const auto text = text_of({5, 6});
  const auto rows = pack(text, all_documents(text), Packing::concat_then_split, 4);
  REQUIRE(rows.rows() == 3);
  const Batch batch = fill_all(text, rows);
  CHECK(batch.inputs == Ids{100, 101, 102, 103, 104, 200, 201, 202, 203, 204, 205, 0});
  CHECK(batch.targets == Ids{101, 102, 103, 104, 0, 201, 202, 203, 204, 205, 0, 0});
  CHECK(batch.inputs_segmentation == Ids{1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 0});
  CHECK(batch.targets_segmentation == Ids{1, 1, 1, 1, 0, 2, 2, 2, 1, 1, 0, 0});
  CHECK(batch.inputs_position == Ids{0, 1, 2, 3, 0, 0, 1, 2, 0, 1, 2, 0});
  CHECK(batch.valid_targets == 9);
}

TEST_CASE("none: one document a row, padded; a longer one takes several rows") {
  const auto text = text_of({3, 9, 1});
  const auto rows = pack(text, all_documents(text), Packing::none, 4);
  REQUIRE(rows.rows() == 3);  // 3; 9 = 4 + 4 and a rest of one token, which is a target only; 1 has no target
  const Batch batch = fill_all(text, rows);
  CHECK(batch.inputs == Ids{100, 101, 102, 0, 200, 201, 202, 203, 204, 205, 206, 207});
  CHECK(batch.targets == Ids{101, 102, 0, 0, 201, 202, 203, 204, 205, 206, 207, 208});
  CHECK(batch.inputs_segmentation == Ids{1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("every (token, next token) of every document occurs exactly once, whatever the packing and length") {
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < 60; ++d) sizes.push_back(1 + (d * 37 + d * d) % 29);
  const auto text = text_of(sizes);
  int64_t expected = 0;
  for (const int64_t size : sizes) expected += size - 1;
  for (const Packing packing : {Packing::none, Packing::first_fit, Packing::concat_then_split}) {
    for (const int64_t seq : {1, 2, 7, 16, 29, 64}) {
      for (const int64_t max_segments : {-1, 1, 3}) {
        const auto rows = pack(text, all_documents(text), packing, seq, max_segments);
        const Batch batch = fill_all(text, rows);
        const auto pairs = check_batch(batch);
        CHECK(static_cast<int64_t>(pairs.size()) == expected);
        for (const auto& [pair, count] : pairs) CHECK(count == 1);
        CHECK(rows.valid_targets() == expected);
        for (int64_t row = 0; row < rows.rows(); ++row) {
          CHECK((max_segments < 0 || static_cast<int64_t>(rows.pieces(row).size()) <= max_segments));
        }
      }
    }
  }
}

TEST_CASE("first_fit is exact: the same rows as a search from the first row on, beyond the first growth of its tree") {
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < 5000; ++d) sizes.push_back(2 + (d * 7919) % 31);
  const int64_t seq = 32;
  TokenizedText text{{}, {0}, TokenStore(65536)};
  for (const int64_t size : sizes) {
    text.tokens.append(Ids(static_cast<size_t>(size), 1));
    text.document_begin.push_back(text.tokens.size());
  }
  const auto rows = pack(text, all_documents(text), Packing::first_fit, seq);
  std::vector<int64_t> room;
  std::vector<std::vector<int64_t>> expected;
  for (size_t d = 0; d < sizes.size(); ++d) {
    size_t row = 0;
    while (row < room.size() && room[row] < sizes[d]) ++row;
    if (row == room.size()) {
      room.push_back(seq);
      expected.emplace_back();
    }
    room[row] -= sizes[d];
    expected[row].push_back(text.document_begin[d]);
  }
  REQUIRE(rows.rows() == static_cast<int64_t>(expected.size()));
  REQUIRE(rows.rows() > 2048);
  for (int64_t row = 0; row < rows.rows(); ++row) {
    std::vector<int64_t> firsts;
    for (const Piece& piece : rows.pieces(row)) firsts.push_back(piece.first_token);
    REQUIRE(firsts == expected[static_cast<size_t>(row)]);
  }
}

TEST_CASE("only the documents that are given are packed") {
  const auto text = text_of({3, 3, 3});
  const std::vector<int64_t> some{2, 0};
  const Batch batch = fill_all(text, pack(text, some, Packing::first_fit, 6));
  CHECK(batch.inputs == Ids{300, 301, 302, 100, 101, 102});
}

TEST_CASE("packings have names, and what cannot be packed is refused") {
  for (const char* name : {"none", "first_fit", "concat_then_split"}) CHECK(to_string(parse_packing(name)) == name);
  CHECK_THROWS_MATCHES(parse_packing("best_fit"), kvant::UsageError,
                       Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring("\"best_fit\"") &&
                                                       Catch::Matchers::ContainsSubstring("\"first_fit\"")));
  const auto text = text_of({3});
  CHECK_THROWS_AS(pack(text, all_documents(text), Packing::none, 0), kvant::Error);
  CHECK_THROWS_AS(pack(text, all_documents(text), Packing::none, 4, 0), kvant::Error);
  const auto rows = pack(text, all_documents(text), Packing::none, 4);
  Batch batch;
  batch.clear(1, 5);
  CHECK_THROWS_AS(rows.fill(text, 0, 0, batch), kvant::Error);
  batch.clear(1, 4);
  CHECK_THROWS_AS(rows.fill(text, 1, 0, batch), kvant::Error);
  CHECK_THROWS_AS(rows.fill(text, 0, 1, batch), kvant::Error);
}
