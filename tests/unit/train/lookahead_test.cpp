// The roll of multi-token prediction on the vectors of maxtext-semantics 5.4 (segment rolls of 10, 20, …, 80).
#include "train/lookahead.hpp"

#include <catch2/catch_test_macros.hpp>

namespace {

kvant::data::Batch row(const std::vector<int32_t>& ids, const std::vector<int32_t>& segments) {
  kvant::data::Batch b;
  b.clear(1, static_cast<int64_t>(ids.size()));
  b.inputs = ids;
  b.targets = ids;
  b.inputs_segmentation = segments;
  b.targets_segmentation = segments;
  return b;
}

std::vector<int32_t> rolled(const std::vector<int32_t>& ids, const std::vector<int32_t>& segments, int k = 1) {
  kvant::train::Lookahead a;
  kvant::train::look_ahead(row(ids, segments), k, a);
  return a.inputs;
}

using V = std::vector<int32_t>;

}  // namespace

TEST_CASE("looking ahead stays inside the document") {
  const V x = {10, 20, 30, 40, 50, 60, 70, 80};
  CHECK(rolled(x, V{1, 1, 1, 1, 1, 1, 1, 1}) == V{20, 30, 40, 50, 60, 70, 80, 0});
  CHECK(rolled(x, V{1, 1, 1, 1, 2, 2, 2, 2}) == V{20, 30, 40, 0, 60, 70, 80, 0});
  CHECK(rolled(x, V{1, 1, 2, 2, 2, 3, 3, 3}) == V{20, 0, 40, 50, 0, 70, 80, 0});
  CHECK(rolled(V{10, 20, 30, 40, 0, 0, 0, 0}, V{1, 1, 1, 1, 0, 0, 0, 0}) == V{20, 30, 40, 0, 0, 0, 0, 0});
  CHECK(rolled(V(8, 99), V{1, 1, 3, 3, 3, 7, 7, 0}) == V{99, 0, 99, 99, 0, 99, 0, 0});
}

TEST_CASE("the second module never predicts inside the next document") {
  // The reference compares neighbours only and would leave place 3 valid.
  CHECK(rolled(V{1, 2, 3, 4, 5, 6, 7, 8}, V{1, 1, 1, 1, 2, 2, 2, 2}, 2) == V{3, 4, 0, 0, 7, 8, 0, 0});
}

TEST_CASE("masks count the targets of every depth") {
  kvant::data::Batch b = row(V(8, 5), V(8, 1));
  b.targets_segmentation = {1, 1, 2, 2, 3, 3, 0, 0};
  kvant::train::Lookahead a;
  kvant::train::look_ahead(b, 1, a);
  CHECK(a.valid == 5);
  kvant::train::look_ahead(b, 2, a);
  CHECK(a.valid == 4);
}

TEST_CASE("a known token beyond the row makes its last place valid") {
  kvant::data::Batch b = row(V{1, 2, 3}, V(3, 1));
  b.targets = {2, 3, 4};
  b.beyond = {5};
  kvant::train::Lookahead a;
  kvant::train::look_ahead(b, 1, a);
  CHECK(a.inputs == V{2, 3, 4});
  CHECK(a.targets == V{3, 4, 5});
  CHECK(a.valid == 3);
}
