#include "data/dataset.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/rng.hpp"
#include "data/named_text.hpp"

#include <algorithm>

namespace kvant::data {
namespace {

Packing packing_of(const config::DataSettings& settings) {
  return settings.packing ? parse_packing(settings.packing_type) : Packing::none;
}

TokenizedText read_text(const config::DataSettings& settings, const Tokenizer& tokenizer) {
  const DocumentSeparator separator = parse_document_separator(settings.document_separator);
  if (!settings.dataset_name.empty() && !settings.dataset_path.empty()) {
    refuse("Both dataset_name (\"{}\") and dataset_path ('{}') are given; a run reads one of them.",
           settings.dataset_name, settings.dataset_path[0]);
  }
  if (!settings.dataset_name.empty())
    return tokenize_text(named_text_files(settings.dataset_name), separator, tokenizer);
  if (settings.dataset_path.empty()) {
    refuse(
        "dataset_type \"text\" needs dataset_path (text files or folders) or dataset_name (\"gcide\"); neither is "
        "given.");
  }
  return tokenize_text(settings.dataset_path, separator, tokenizer);
}

int64_t count_tokens(const TokenizedText& text, const std::vector<int64_t>& documents) {
  int64_t tokens = 0;
  for (const int64_t document : documents) tokens += text.document_size(document);
  return tokens;
}

std::string where(const TokenizedText& text) {
  const std::string first = "'" + text.files[0].path.string() + "'";
  return text.files.size() == 1 ? first : fmt::format("{} files from {} on", text.files.size(), first);
}

Split split_text(const TokenizedText& text, const config::DataSettings& settings, uint64_t seed, int64_t seq) {
  const int64_t all = text.tokens.size();
  if (all < seq + 1) {
    refuse("The text ({}) has {} tokens, fewer than the {} (max_target_length + 1) that one sequence takes.",
           where(text), all, seq + 1);
  }
  Split split = hold_out(text.documents(), settings.eval_fraction, seed);
  const int64_t left = count_tokens(text, split.train);
  if (left < seq + 1) {
    refuse(
        "The text ({}) has {} tokens, of which eval_fraction = {} leaves {} for training, fewer than the {} "
        "(max_target_length + 1) "
        "that one sequence takes.",
        where(text), all, settings.eval_fraction, left, seq + 1);
  }
  return split;
}

}  // namespace

TextDataset::TextDataset(const config::DataSettings& settings, uint64_t seed, int64_t vocab_size, int64_t seq)
    : seed_(seed),
      seq_(seq),
      tokenizer_(make_tokenizer(settings.tokenizer_type, settings.tokenizer_path, vocab_size)),
      text_(read_text(settings, *tokenizer_)),
      split_(split_text(text_, settings, seed, seq)),
      train_(pack(text_, split_.train, packing_of(settings), seq, settings.max_segments_per_seq)),
      eval_(pack(text_, split_.eval, packing_of(settings), seq, settings.max_segments_per_seq)),
      sampler_(seed, std::max<int64_t>(train_.rows(), 1)) {
  if (train_.valid_targets() == 0) {
    refuse("No document of the text ({}) has two tokens, so there is nothing to predict; document_separator is \"{}\".",
           where(text_), settings.document_separator);
  }
  if (!split_.eval.empty() && eval_.valid_targets() == 0) {
    refuse(
        "The {} held-out documents of the text ({}) have one token each, so there is nothing to validate on; raise "
        "eval_fraction ({}).",
        split_.eval.size(), where(text_), settings.eval_fraction);
  }
}

std::string TextDataset::describe() const {
  const double full = 100.0 * static_cast<double>(train_.inputs()) / static_cast<double>(train_.rows() * seq_);
  return fmt::format(
      "{}: {} bytes, {} documents, {} tokens ({}); {} documents in {} rows of {} tokens for training ({:.1f}% filled), "
      "{} documents in {} rows held out.",
      where(text_), text_.bytes(), text_.documents(), text_.tokens.size(), tokenizer_->name(), split_.train.size(),
      train_.rows(), seq_, full, split_.eval.size(), eval_.rows());
}

void TextDataset::fill_train(SamplerPosition position, int64_t rows, Batch& batch) const {
  batch.clear(rows, seq_);
  for (int64_t place = 0; place < rows; ++place)
    train_.fill(text_, sampler_.row(sampler_.advance(position, place)), place, batch);
}

void TextDataset::fill_eval(int64_t first, int64_t rows, Batch& batch) const {
  require(first >= 0, "Held-out row {} was asked for; rows count from 0.", first);
  batch.clear(rows, seq_);
  for (int64_t place = 0; place < rows && first + place < eval_.rows(); ++place) {
    // Shuffled, so that the first rows stand for all of them where an evaluation takes only some.
    const int64_t row = shuffled(seed_, stream_of("data/eval"), first + place, eval_.rows());
    eval_.fill(text_, row, place, batch);
  }
}

SyntheticDataset::SyntheticDataset(int64_t vocab_size, int64_t rows, int64_t seq)
    : vocab_size_(vocab_size), rows_(rows), seq_(seq) {
  require(vocab_size >= 1 && rows >= 1 && seq >= 1,
          "Synthetic data of {} rows of {} tokens from {} ids cannot be made; at least one of each is needed.", rows,
          seq, vocab_size);
}

std::string SyntheticDataset::describe() const {
  return fmt::format("Synthetic data: the same {} rows of {} random tokens (ids 0 to {}) in every step.", rows_, seq_,
                     vocab_size_ - 1);
}

SamplerPosition SyntheticDataset::advance(SamplerPosition position, int64_t rows) const {
  const int64_t index = position.index + rows;
  return {position.epoch + index / rows_, index % rows_};
}

void SyntheticDataset::fill_row(int64_t row, int64_t place, Batch& batch) const {
  const auto id = [&](int64_t t) {
    const uint32_t word =
        philox(0, stream_of("data/synthetic"), static_cast<uint64_t>(row) << 32 | static_cast<uint64_t>(t)).word[0];
    return static_cast<int32_t>((uint64_t{word} * static_cast<uint64_t>(vocab_size_)) >> 32);
  };
  const auto begin = static_cast<size_t>(place * seq_);
  for (int64_t t = 0; t < seq_; ++t) {
    const size_t at = begin + static_cast<size_t>(t);
    batch.inputs[at] = t == 0 ? id(0) : batch.targets[at - 1];
    batch.targets[at] = id(t + 1);
    batch.inputs_position[at] = batch.targets_position[at] = static_cast<int32_t>(t);
    batch.inputs_segmentation[at] = batch.targets_segmentation[at] = 1;
  }
  batch.valid_targets += seq_;
}

void SyntheticDataset::fill_train(SamplerPosition position, int64_t rows, Batch& batch) const {
  batch.clear(rows, seq_);
  for (int64_t place = 0; place < rows; ++place) fill_row(advance(position, place).index, place, batch);
}

void SyntheticDataset::fill_eval(int64_t first, int64_t rows, Batch& batch) const {
  require(first >= 0, "Held-out row {} was asked for; rows count from 0.", first);
  batch.clear(rows, seq_);
  for (int64_t place = 0; place < rows && first + place < rows_; ++place) fill_row(first + place, place, batch);
}

std::unique_ptr<Dataset> make_dataset(const config::Settings& settings, int ranks) {
  const config::DataSettings& data = settings.data;
  const int64_t seq = settings.model.max_target_length;
  const int64_t rows = config::sequences_per_step(data, ranks);
  if (data.dataset_type == "synthetic") return std::make_unique<SyntheticDataset>(settings.model.vocab_size, rows, seq);
  if (data.dataset_type != "text")
    refuse("dataset_type is \"{}\"; \"text\" and \"synthetic\" are known.", data.dataset_type);
  const uint64_t seed = data.data_shuffle_seed >= 0 ? static_cast<uint64_t>(data.data_shuffle_seed) : settings.run.seed;
  auto dataset = std::make_unique<TextDataset>(data, seed, settings.model.vocab_size, seq);
  if (dataset->train_rows() < rows) {
    log::warning("One step takes {} rows, but the text has only {} rows of {} tokens: rows repeat within a step.", rows,
                 dataset->train_rows(), seq);
  }
  return dataset;
}

}  // namespace kvant::data
