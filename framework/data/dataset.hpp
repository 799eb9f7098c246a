// What a run trains on: rows of token ids, by position for training and by number for evaluation. A dataset does not
// change once it is made; two threads may use one.
#pragma once

#include "config/settings.hpp"
#include "data/batch.hpp"
#include "data/packing.hpp"
#include "data/sampler.hpp"
#include "data/split.hpp"

#include <memory>
#include <string>

namespace kvant::data {

class Dataset {
 public:
  virtual ~Dataset() = default;

  /// For the log: one sentence that says what the data are.
  virtual std::string describe() const = 0;

  /// Rows of one epoch, at least 1.
  virtual int64_t train_rows() const = 0;
  /// Rows of the held-out part; 0 = there is none.
  virtual int64_t eval_rows() const = 0;

  /// Row r of step s of a run with B rows a step stands at advance({}, s·B + r); a rank or micro-batch takes its share
  /// by advancing further, and a resumed run by starting from the position that was saved.
  virtual SamplerPosition advance(SamplerPosition position, int64_t rows) const = 0;
  /// Fills `batch` with the `rows` training rows from `position` on, over the end of an epoch if need be.
  virtual void fill_train(SamplerPosition position, int64_t rows, Batch& batch) const = 0;
  /// Fills `batch` with the held-out rows first … first + rows - 1, in an order that never changes; rows past
  /// eval_rows() are padding, so that every held-out row counts once whatever the batch size.
  virtual void fill_eval(int64_t first, int64_t rows, Batch& batch) const = 0;
};

/// Text files. See make_dataset for what is refused.
class TextDataset final : public Dataset {
 public:
  TextDataset(const config::DataSettings& settings, uint64_t seed, int64_t vocab_size, int64_t seq);

  std::string describe() const override;
  int64_t train_rows() const override { return train_.rows(); }
  int64_t eval_rows() const override { return eval_.rows(); }
  SamplerPosition advance(SamplerPosition position, int64_t rows) const override {
    return sampler_.advance(position, rows);
  }
  void fill_train(SamplerPosition position, int64_t rows, Batch& batch) const override;
  void fill_eval(int64_t first, int64_t rows, Batch& batch) const override;

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TokenizedText& text() const { return text_; }
  const Split& split() const { return split_; }
  const PackedRows& packed_train() const { return train_; }
  const PackedRows& packed_eval() const { return eval_; }

 private:
  uint64_t seed_;
  int64_t seq_;
  std::unique_ptr<Tokenizer> tokenizer_;
  TokenizedText text_;
  Split split_;
  PackedRows train_, eval_;
  Sampler sampler_;
};

/// Random ids that never change: every step sees the same `rows` rows (the first `rows` of one endless table), one
/// segment each, no padding. Uniform over the vocabulary; element t of row r is a function of (r, t) alone.
class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(int64_t vocab_size, int64_t rows, int64_t seq);

  std::string describe() const override;
  int64_t train_rows() const override { return rows_; }
  int64_t eval_rows() const override { return rows_; }
  SamplerPosition advance(SamplerPosition position, int64_t rows) const override;
  void fill_train(SamplerPosition position, int64_t rows, Batch& batch) const override;
  void fill_eval(int64_t first, int64_t rows, Batch& batch) const override;

 private:
  void fill_row(int64_t row, int64_t place, Batch& batch) const;

  int64_t vocab_size_, rows_, seq_;
};

/// The dataset that a configuration asks for. Order and split follow [data] data_shuffle_seed, or [run] seed where it
/// is not given. Refuses an unknown dataset_type, a text that is missing, empty, not UTF-8 where the tokenizer needs
/// it, or shorter than one sequence, a tokenizer that does not fit the model, and a fraction that cannot be held out;
/// warns when one step (of all `ranks` together) takes more rows than an epoch has.
std::unique_ptr<Dataset> make_dataset(const config::Settings& settings, int ranks = 1);

}  // namespace kvant::data
