#include "comm/process_grid.hpp"

#include "base/error.hpp"

namespace kvant::comm {
namespace {

/// Each axis of a grid of one rank is the world; world.size() is 1 today, so no other grid passes.
Communicator checked(const Communicator& world, const ProcessGrid::Sizes& sizes) {
  const auto [data, fsdp, expert] = sizes;
  if (data < 1 || fsdp < 1 || expert < 1)
    refuse("A grid of {} (data) × {} (fsdp) × {} (expert) ranks was asked for; every axis has at least one rank.", data,
           fsdp, expert);
  if (int64_t{data} * fsdp * expert != world.size())
    refuse(
        "A grid of {} (data) × {} (fsdp) × {} (expert) = {} ranks was asked for, but the job has {}. This version of "
        "Kvant runs "
        "on one rank: 1 × 1 × 1.",
        data, fsdp, expert, int64_t{data} * fsdp * expert, world.size());
  return world;
}

}  // namespace

ProcessGrid::ProcessGrid(const Communicator& world, const Sizes& sizes)
    : sizes_(sizes), world_(checked(world, sizes)), data_(world_), fsdp_(world_), expert_(world_) {}

}  // namespace kvant::comm
