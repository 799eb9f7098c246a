// CommStrategy (plugin kind "comm"): how the bytes of weights and of routed tokens move. Two interfaces, because they
// are chosen for different reasons (bandwidth of a gather, latency of an exchange), and one object that makes both for
// a grid of ranks. A payload is bytes with an owner elsewhere: a tensor of any type, u8 when it holds codes and scales
// that a codec packed.
#pragma once

#include "comm/process_grid.hpp"
#include "plugin/registry.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace kvant::comm {

/// Parameters that are held in parts along the fsdp axis.
class WeightGather {
 public:
  virtual ~WeightGather();
  /// full = the parts of all ranks of the axis, by rank. Queued on exec.
  virtual void gather(const Exec& exec, const TensorView& part, const TensorView& full) = 0;
  /// part = this rank's part of the sum of full over the axis (f32). Queued on exec.
  virtual void scatter_sum(const Exec& exec, const TensorView& full, const TensorView& part) = 0;
};

/// How many rows this rank sends to and gets from each rank of the expert axis.
struct TokenCounts {
  std::vector<int64_t> send, receive;
  int64_t rows_received() const;
};

/// Rows of tokens that visit the ranks where their experts live, and come back.
class TokenExchange {
 public:
  virtual ~TokenExchange();
  /// send[r] rows go to rank r. Completes when it returns: the caller allocates by what it says.
  virtual TokenCounts plan(std::span<const int64_t> send) = 0;
  /// rows: sorted by the rank that they go to; received: ordered by sender. Queued on exec.
  virtual void dispatch(const Exec& exec, const TokenCounts& counts, const TensorView& rows,
                        const TensorView& received) = 0;
  /// The way back: `rows` as dispatch left them in `received`; each returns to the place that it came from. Queued on
  /// exec.
  virtual void combine(const Exec& exec, const TokenCounts& counts, const TensorView& rows,
                       const TensorView& returned) = 0;
};

class CommStrategy {
 public:
  using PluginInterface = CommStrategy;
  static constexpr plugin::Kind plugin_kind = plugin::Kind::comm;

  virtual ~CommStrategy();
  /// The grid outlives what is made. Throws UsageError where the strategy cannot serve it.
  virtual std::unique_ptr<WeightGather> make_weight_gather(ProcessGrid& grid) = 0;
  virtual std::unique_ptr<TokenExchange> make_token_exchange(ProcessGrid& grid) = 0;
};

/// Offers the strategies that are part of Kvant: "one_rank": on a grid of one rank a gather is a copy and an exchange
/// hands rows back.
void register_builtin_strategies();

}  // namespace kvant::comm
