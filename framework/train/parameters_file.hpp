// Weights alone, by the reference's names, in a safetensors file: what `kvant train` leaves at its end and `kvant eval` reads.
// No optimizer, no position: a run cannot go on from it.
#pragma once

#include "models/model.hpp"

#include <string>

namespace kvant {
struct Exec;
}

namespace kvant::train {

/// Whether both shapes name the elements in the same order: one is the other with neighbouring axes merged.
bool same_order(const std::vector<int64_t>& stored, const Shape& wanted);

/// float32, every parameter of the model.
void save_parameters(const std::string& file, Model& model, const Exec& exec);
/// Every parameter must be there in its shape (neighbouring axes may be merged or split) and no other tensor may be: refused
/// otherwise, naming it; a file of another format too.
void load_parameters(const std::string& file, Model& model, const Exec& exec);

}  // namespace kvant::train
