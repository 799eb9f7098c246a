// Recorded training: the reference's losses, step after step, against those of this build.
#pragma once

#include "data/safetensors.hpp"
#include "train/verify.hpp"

namespace kvant::train {

/// A file of kind "trajectory": SCHEME/metrics for each scheme, tokens, optimizer. A scheme holds where its loss stays within three
/// times the gap that the reference has to itself when its first weights move by 1e-6 of their size ("jitter_gap.SCHEME": the
/// largest over the first sixth, half and all of the steps).
Verification verify_trajectory(const data::SafetensorsFile& file, const Exec& exec, comm::Communicator& world);

}  // namespace kvant::train
