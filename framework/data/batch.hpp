// One batch of rows, as the model takes it.
#pragma once

#include <cstdint>
#include <vector>

namespace kvant::data {

/// Six arrays of [batch, seq], row major. A row holds one document or several, one after the other, then padding.
///   inputs                token ids; 0 in padding
///   inputs_segmentation   0 = padding, 1, 2, … = the documents of the row; attention stays within equal numbers
///   inputs_position       0, 1, 2, … within each document of the row; 0 in padding
///   targets               the token that follows in the same document, 0 where there is none
///   targets_segmentation  as inputs_segmentation where there is a target, else 0: no loss there
///   targets_position      equal to inputs_position
/// A document that is cut at the end of a row goes on in another row (as a document of its own, positions from 0),
/// whose first input is the last target of this row: rows are cut from windows of seq + 1 tokens, so no target is lost.
struct Batch {
  std::vector<int32_t> inputs, targets;
  std::vector<int32_t> inputs_position, inputs_segmentation;
  std::vector<int32_t> targets_position, targets_segmentation;
  /// The token after the last target of each row [batch], where the source knows it and every row is one document: it
  /// lets multi-token prediction use the last place too. Empty otherwise.
  std::vector<int32_t> beyond;
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t valid_targets = 0;  ///< entries of targets_segmentation that are not 0, counted from the data

  /// All rows padding. Allocates only when the batch grows.
  void clear(int64_t rows, int64_t tokens) {
    batch = rows;
    seq = tokens;
    valid_targets = 0;
    beyond.clear();
    for (auto* array :
         {&inputs, &targets, &inputs_position, &inputs_segmentation, &targets_position, &targets_segmentation}) {
      array->assign(static_cast<size_t>(rows * tokens), 0);
    }
  }
};

}  // namespace kvant::data
