// What makes a step comparable with the same step in other frameworks: the same tokens and the same initial parameters.
#pragma once

#include "data/batch.hpp"
#include "models/model.hpp"

#include <cstdint>
#include <string>

namespace kvant::app {

/// [batch][seq + 2] ids from a skewed distribution, id = min(⌊V u³⌋, V - 1), u = Python's random.Random(seed).random() in this order
/// (MT19937, 53 bits from two words): row r holds inputs 0..S-1, targets 1..S, and the target of the multi-token prediction
/// module at the last place (Batch::beyond).
data::Batch peer_batch(int64_t vocab, int64_t batch, int64_t seq, uint32_t seed);

/// Sets every parameter from a .npz file (arrays stored uncompressed, float32) under PyTorch names: embed.weight, head.weight,
/// layers.N.attn.wq_a.weight, layers.N.ffn.w13 …, mtp.proj.weight. Linear weights are [out, in] there. Refuses a file that misses
/// a parameter, has one too many, or has another shape, naming it.
void load_peer_parameters(const std::string& file, Model& model, const Exec& exec);

}  // namespace kvant::app
