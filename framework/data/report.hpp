// What a dataset holds, for a person to read: counts, where documents end, and rows as text.
#pragma once

#include "data/dataset.hpp"

#include <string>

namespace kvant::data {

/// Several lines, the last one ended. `rows` training rows from the first step's on are shown, decoded, one document of
/// a row after the other; bytes that are no printable text are written as \xNN.
std::string report(const Dataset& dataset, int64_t rows);

}  // namespace kvant::data
