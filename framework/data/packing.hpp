// Which tokens stand in which row. Rows are planned once, when the text is read, and only their order changes later.
#pragma once

#include "data/batch.hpp"
#include "data/text.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvant::data {

enum class Packing {
  none,               ///< one document a row, padded; a longer one takes several rows
  first_fit,          ///< every document goes whole into the first row that has room; only one longer than a row is cut
  concat_then_split,  ///< documents one after the other, cut every seq tokens: no padding but in the last row
};

/// "none", "first_fit" or "concat_then_split"; refuses anything else.
Packing parse_packing(std::string_view name);
std::string_view to_string(Packing packing);

/// A run of tokens of one document in a row.
struct Piece {
  int64_t first_token = 0;  ///< in TokenizedText::tokens
  int32_t count = 0;        ///< inputs, at least 1
  bool has_next = false;    ///< whether first_token + count belongs to the document too: the target of the last input
};

class PackedRows {
 public:
  /// `rows` pieces by row, in the order in which they stand there.
  PackedRows(int64_t seq, std::vector<Piece> pieces, std::vector<int64_t> row_begin);

  int64_t rows() const { return static_cast<int64_t>(row_begin_.size()) - 1; }
  int64_t seq() const { return seq_; }
  std::span<const Piece> pieces(int64_t row) const;
  int64_t valid_targets() const { return valid_targets_; }
  int64_t inputs() const { return inputs_; }

  /// Writes row `row` over row `place` of `batch`, which has been cleared, and counts its valid targets.
  void fill(const TokenizedText& text, int64_t row, int64_t place, Batch& batch) const;

 private:
  int64_t seq_;
  std::vector<Piece> pieces_;
  std::vector<int64_t> row_begin_;
  int64_t valid_targets_ = 0;
  int64_t inputs_ = 0;
};

/// Plans the rows of `documents`, which are taken in the order given. `seq` >= 1 tokens a row, at most
/// `max_segments` documents a row (-1 = no limit). A rest of one token, which has no target, is left out by none and
/// first_fit; concat_then_split keeps it as an input without a target. A pure function of its arguments;
/// O(documents · log(rows)).
PackedRows pack(const TokenizedText& text, std::span<const int64_t> documents, Packing packing, int64_t seq,
                int64_t max_segments = -1);

}  // namespace kvant::data
