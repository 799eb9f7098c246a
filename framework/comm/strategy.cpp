#include "comm/strategy.hpp"

#include <numeric>

namespace kvant::comm {

WeightGather::~WeightGather() = default;
TokenExchange::~TokenExchange() = default;
CommStrategy::~CommStrategy() = default;

int64_t TokenCounts::rows_received() const { return std::accumulate(receive.begin(), receive.end(), int64_t{0}); }

namespace {

class OneRankGather final : public WeightGather {
 public:
  explicit OneRankGather(Communicator& axis) : axis_(axis) {}
  void gather(const Exec& exec, const TensorView& part, const TensorView& full) override {
    axis_.all_gather(exec, part, full);
  }
  void scatter_sum(const Exec& exec, const TensorView& full, const TensorView& part) override {
    axis_.reduce_scatter_sum(exec, full, part);
  }

 private:
  Communicator& axis_;
};

class OneRankExchange final : public TokenExchange {
 public:
  explicit OneRankExchange(Communicator& axis) : axis_(axis) {}
  TokenCounts plan(std::span<const int64_t> send) override {
    TokenCounts counts{{send.begin(), send.end()}, std::vector<int64_t>(send.size())};
    axis_.exchange_counts(counts.send, counts.receive);
    return counts;
  }
  void dispatch(const Exec& exec, const TokenCounts& counts, const TensorView& rows,
                const TensorView& received) override {
    axis_.all_to_all(exec, rows, counts.send, received, counts.receive);
  }
  void combine(const Exec& exec, const TokenCounts& counts, const TensorView& rows,
               const TensorView& returned) override {
    axis_.all_to_all(exec, rows, counts.receive, returned, counts.send);
  }

 private:
  Communicator& axis_;
};

class OneRank final : public CommStrategy {
 public:
  std::unique_ptr<WeightGather> make_weight_gather(ProcessGrid& grid) override {
    return std::make_unique<OneRankGather>(grid.fsdp());
  }
  std::unique_ptr<TokenExchange> make_token_exchange(ProcessGrid& grid) override {
    return std::make_unique<OneRankExchange>(grid.expert());
  }
};

}  // namespace

void register_builtin_strategies() {
  if (!plugin::Registry<CommStrategy>::contains("one_rank"))
    plugin::Registry<CommStrategy>::add_builtin<OneRank>("one_rank");
}

}  // namespace kvant::comm
