// A comm strategy that does nothing: what the plugins of this folder offer.
#pragma once

#include "comm/strategy.hpp"
#include "plugin/plugin.hpp"

#include <cstdlib>

namespace {

struct Sample : kvant::comm::CommStrategy {
  std::unique_ptr<kvant::comm::WeightGather> make_weight_gather(kvant::comm::ProcessGrid&) override { return nullptr; }
  std::unique_ptr<kvant::comm::TokenExchange> make_token_exchange(kvant::comm::ProcessGrid&) override {
    return nullptr;
  }
};

// Says that code of this file ran: a refused plugin must not get so far.
[[maybe_unused]] const bool constructed = [] {
  setenv("KVANT_TEST_CONSTRUCTED", KVANT_PLUGIN_NAME, 1);
  return true;
}();

}  // namespace
