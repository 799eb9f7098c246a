// Recorded training: the reference's losses, step after step, against those of this build.
#pragma once

#include "data/safetensors.hpp"
#include "train/verify.hpp"

namespace kvant::train {

/// A file of kind "trajectory": SCHEME/metrics [steps, columns] for each scheme, tokens [steps, batch, positions + 1], metadata
/// "optimizer" and "columns". A scheme holds where its loss stays within three times the gap that the reference has to itself when its
/// first weights move by 1e-6 of their size (SCHEME.jitter1e-6/metrics), the largest over the first sixth, half and all of the steps.
/// Learning rates are compared too; of the metrics the others are not.
Verification verify_trajectory(const data::SafetensorsFile& file, const Exec& exec, comm::Communicator& world);

}  // namespace kvant::train
