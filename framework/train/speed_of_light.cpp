#include "train/speed_of_light.hpp"

#include "kernels/peak.hpp"

#include <map>

namespace kvant::train {

double seconds_at_peak(const SiteTable& sites, double tokens, int threads) {
  std::map<DType, double> work;
  for (const MatmulSite* site : sites.sites()) {
    const double flops = site->forward_flops(tokens);
    for (const Arm arm : {Arm::forward, Arm::dgrad, Arm::wgrad})
      work[site->kind == SiteKind::attention ? DType::f32 : site->op_ref().arithmetic(arm)] += flops;
  }
  double seconds = 0;
  for (const auto& [type, operations] : work) seconds += operations / measured_peak_ops(type, threads);
  return seconds;
}

}  // namespace kvant::train
