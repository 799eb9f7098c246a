// A SentencePiece model file as a Tokenizer.
#pragma once

#include "data/tokenizer.hpp"

namespace kvant::data::detail {

/// bos, eos and the number of ids are the model file's. Refuses a file that is missing or no SentencePiece model.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& path);

}  // namespace kvant::data::detail
