// mse[,n[,lowest]]: of n ranges from max|x| down to lowest·max|x| the one whose codes reproduce what shares the scale
// with the smallest squared error. The format says what its codes reproduce, so the search is the codec's.
#include "base/error.hpp"
#include "plugin/plugin.hpp"
#include "quant/calibrator.hpp"
#include "quant/codec.hpp"
#include "tensor/arena.hpp"

#include <cmath>

namespace {

using namespace kvant;
using namespace kvant::quant;

class SmallestError final : public RangeSearch {
 public:
  SmallestError(int candidates, float lowest) : candidates_(candidates), lowest_(lowest) {}

  void find(const Exec& exec, const RangeJob& job) const override {
    ArenaScope workspace(job.arena);
    ClippingSearch search;
    search.values = job.values;
    search.largest = job.largest;
    search.counts = job.counts;
    search.law = job.law;
    search.candidates = candidates_;
    search.lowest = lowest_;
    search.range = job.ranges;
    if (const std::size_t bytes = clipping_workspace_bytes(search); bytes > 0)
      search.workspace = job.arena.allocate_bytes(bytes);
    job.codec->search_clipping(exec, search);
  }
  bool takes_counts() const override { return true; }

 private:
  int candidates_;
  float lowest_;
};

class Mse final : public Calibrator {
 public:
  std::string description() const override {
    return "mse[,n[,lowest]]: of n ranges from max|x| to lowest·max|x| the one with the smallest squared error, n from "
           "2 "
           "to 256 (40), 0 < lowest < 1 (0.2)";
  }

  Calibration calibrate(std::span<const float> arguments) const override {
    if (arguments.size() > 2) refuse("It has {} arguments.", arguments.size());
    const float candidates = arguments.empty() ? 40.0f : arguments[0],
                lowest = arguments.size() < 2 ? 0.2f : arguments[1];
    if (!(candidates >= 2 && candidates <= 256) || std::floor(candidates) != candidates)
      refuse("{} is no number of ranges.", candidates);
    if (!(lowest > 0 && lowest < 1)) refuse("The lowest range is {} of the largest.", lowest);
    Calibration calibration;
    calibration.search = std::make_shared<SmallestError>(static_cast<int>(candidates), lowest);
    return calibration;
  }
};

}  // namespace

KVANT_PLUGIN(kvant::plugin::provide<Mse>("mse"))
