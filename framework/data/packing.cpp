#include "data/packing.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace kvant::data {
namespace {

/// The rows that are open to more pieces, as a tree of maxima over the room that each has left: the first row with
/// enough room is found in O(log rows).
class OpenRows {
 public:
  /// The first of rows 0 … size() - 1 with `room` tokens left, or -1.
  int64_t find(int64_t room) const {
    if (size_ == 0 || largest_[1] < room) return -1;
    size_t node = 1;
    while (node < capacity_) node = largest_[2 * node] >= room ? 2 * node : 2 * node + 1;
    return static_cast<int64_t>(node - capacity_);
  }

  int64_t room(int64_t row) const { return largest_[capacity_ + static_cast<size_t>(row)]; }

  void set_room(int64_t row, int64_t room) {
    size_t node = capacity_ + static_cast<size_t>(row);
    largest_[node] = room;
    for (node /= 2; node >= 1; node /= 2) largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]);
  }

  int64_t add(int64_t room) {
    if (size_ == capacity_) grow();
    set_room(static_cast<int64_t>(size_), room);
    return static_cast<int64_t>(size_++);
  }

 private:
  void grow() {
    const std::vector<int64_t> leaves(largest_.begin() + static_cast<std::ptrdiff_t>(capacity_), largest_.end());
    capacity_ *= 2;
    largest_.assign(2 * capacity_, 0);
    std::copy(leaves.begin(), leaves.end(), largest_.begin() + static_cast<std::ptrdiff_t>(capacity_));
    for (size_t node = capacity_ - 1; node >= 1; --node)
      largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]);
  }

  size_t capacity_ = 1024, size_ = 0;
  std::vector<int64_t> largest_ = std::vector<int64_t>(2 * capacity_, 0);
};

/// Calls take(piece) for the pieces of at most seq inputs into which a document is cut. A rest of one token is left
/// out.
template <class Take>
void for_each_piece(const TokenizedText& text, int64_t document, int64_t seq, const Take& take) {
  const int64_t first = text.document_begin[static_cast<size_t>(document)];
  const int64_t size = text.document_size(document);
  for (int64_t at = 0; at + 1 < size; at += seq) {
    const int64_t count = std::min(seq, size - at);
    take(Piece{first + at, static_cast<int32_t>(count), at + count < size});
  }
}

PackedRows pack_none(const TokenizedText& text, std::span<const int64_t> documents, int64_t seq) {
  std::vector<Piece> pieces;
  std::vector<int64_t> row_begin{0};
  for (const int64_t document : documents) {
    for_each_piece(text, document, seq, [&](const Piece& piece) {
      pieces.push_back(piece);
      row_begin.push_back(static_cast<int64_t>(pieces.size()));
    });
  }
  return {seq, std::move(pieces), std::move(row_begin)};
}

PackedRows pack_first_fit(const TokenizedText& text, std::span<const int64_t> documents, int64_t seq,
                          int64_t max_segments) {
  OpenRows open;
  std::vector<int64_t> segments;  // of each row
  std::vector<std::pair<int64_t, Piece>> placed;
  for (const int64_t document : documents) {
    for_each_piece(text, document, seq, [&](const Piece& piece) {
      int64_t row = open.find(piece.count);
      if (row < 0) {
        row = open.add(seq);
        segments.push_back(0);
      }
      int64_t& count = segments[static_cast<size_t>(row)];
      ++count;
      open.set_room(row, count == max_segments ? 0 : open.room(row) - piece.count);
      placed.emplace_back(row, piece);
    });
  }
  std::vector<int64_t> row_begin(segments.size() + 1, 0);
  for (size_t row = 0; row < segments.size(); ++row) row_begin[row + 1] = row_begin[row] + segments[row];
  std::vector<int64_t> next(row_begin.begin(), row_begin.end() - 1);
  std::vector<Piece> pieces(placed.size());
  for (const auto& [row, piece] : placed) pieces[static_cast<size_t>(next[static_cast<size_t>(row)]++)] = piece;
  return {seq, std::move(pieces), std::move(row_begin)};
}

PackedRows pack_concat(const TokenizedText& text, std::span<const int64_t> documents, int64_t seq,
                       int64_t max_segments) {
  std::vector<Piece> pieces;
  std::vector<int64_t> row_begin{0};
  int64_t used = 0, segments = 0;  // of the open row
  const auto close_row = [&] {
    row_begin.push_back(static_cast<int64_t>(pieces.size()));
    used = segments = 0;
  };
  for (const int64_t document : documents) {
    const int64_t first = text.document_begin[static_cast<size_t>(document)];
    const int64_t size = text.document_size(document);
    for (int64_t at = 0; at < size;) {
      const int64_t count = std::min(seq - used, size - at);
      pieces.push_back({first + at, static_cast<int32_t>(count), at + count < size});
      at += count;
      used += count;
      ++segments;
      if (used == seq || segments == max_segments) close_row();
    }
  }
  if (used > 0) close_row();
  return {seq, std::move(pieces), std::move(row_begin)};
}

}  // namespace

Packing parse_packing(std::string_view name) {
  if (name == "none") return Packing::none;
  if (name == "first_fit") return Packing::first_fit;
  if (name == "concat_then_split") return Packing::concat_then_split;
  refuse("The packing \"{}\" is not known; \"none\", \"first_fit\" and \"concat_then_split\" are.", name);
}

std::string_view to_string(Packing packing) {
  switch (packing) {
    case Packing::none:
      return "none";
    case Packing::first_fit:
      return "first_fit";
    case Packing::concat_then_split:
      break;
  }
  return "concat_then_split";
}

PackedRows::PackedRows(int64_t seq, std::vector<Piece> pieces, std::vector<int64_t> row_begin)
    : seq_(seq), pieces_(std::move(pieces)), row_begin_(std::move(row_begin)) {
  for (const Piece& piece : pieces_) {
    inputs_ += piece.count;
    valid_targets_ += piece.count - (piece.has_next ? 0 : 1);
  }
}

std::span<const Piece> PackedRows::pieces(int64_t row) const {
  require(row >= 0 && row < rows(), "Row {} was asked for, but {} rows are packed.", row, rows());
  const int64_t begin = row_begin_[static_cast<size_t>(row)];
  return std::span(pieces_).subspan(static_cast<size_t>(begin),
                                    static_cast<size_t>(row_begin_[static_cast<size_t>(row) + 1] - begin));
}

void PackedRows::fill(const TokenizedText& text, int64_t row, int64_t place, Batch& batch) const {
  require(batch.seq == seq_ && place >= 0 && place < batch.batch,
          "Row {} of {} tokens does not fit a batch of [{}, {}].", place, seq_, batch.batch, batch.seq);
  int64_t at = place * seq_;
  int32_t segment = 0;
  for (const Piece& piece : pieces(row)) {
    const auto begin = static_cast<size_t>(at);
    const auto targets = static_cast<size_t>(piece.has_next ? piece.count : piece.count - 1);
    ++segment;
    text.tokens.copy(piece.first_token, piece.count, &batch.inputs[begin]);
    if (targets > 0) text.tokens.copy(piece.first_token + 1, static_cast<int64_t>(targets), &batch.targets[begin]);
    for (int32_t i = 0; i < piece.count; ++i) {
      batch.inputs_position[begin + static_cast<size_t>(i)] = i;
      batch.targets_position[begin + static_cast<size_t>(i)] = i;
      batch.inputs_segmentation[begin + static_cast<size_t>(i)] = segment;
    }
    std::fill_n(&batch.targets_segmentation[begin], targets, segment);
    batch.valid_targets += static_cast<int64_t>(targets);
    at += piece.count;
  }
}

PackedRows pack(const TokenizedText& text, std::span<const int64_t> documents, Packing packing, int64_t seq,
                int64_t max_segments) {
  require(seq >= 1 && seq < int64_t{1} << 31, "A row of {} tokens cannot be packed; 1 to 2^31 - 1 can.", seq);
  require(max_segments == -1 || max_segments >= 1,
          "At most {} documents a row cannot be packed; -1 (no limit) or 1 and more can.", max_segments);
  switch (packing) {
    case Packing::none:
      return pack_none(text, documents, seq);
    case Packing::first_fit:
      return pack_first_fit(text, documents, seq, max_segments);
    case Packing::concat_then_split:
      break;
  }
  return pack_concat(text, documents, seq, max_segments);
}

}  // namespace kvant::data
