#include "base/log.hpp"
#include "comm/strategy.hpp"
#include "plugin/plugin.hpp"

namespace {

using namespace kvant::comm;

struct Gather final : WeightGather {
  explicit Gather(Communicator& ranks) : axis(ranks) {}
  ~Gather() override {
    kvant::log::info("measured: {} bytes of weights gathered", axis.traffic()[Collective::all_gather].payload_bytes);
  }
  void gather(const kvant::Exec& exec, const kvant::TensorView& part, const kvant::TensorView& full) override {
    axis.all_gather(exec, part, full);
  }
  void scatter_sum(const kvant::Exec& exec, const kvant::TensorView& full, const kvant::TensorView& part) override {
    axis.reduce_scatter_sum(exec, full, part);
  }
  Communicator& axis;
};

struct Measured final : CommStrategy {
  std::unique_ptr<WeightGather> make_weight_gather(ProcessGrid& grid) override {
    return std::make_unique<Gather>(grid.fsdp());
  }
  std::unique_ptr<TokenExchange> make_token_exchange(ProcessGrid& grid) override {
    return kvant::plugin::Registry<CommStrategy>::get("one_rank").make_token_exchange(grid);  // only the gather differs
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Measured>("measured"))
