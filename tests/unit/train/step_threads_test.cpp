// Whole steps on one thread and on two: the same bits.
#include "comm/communicator.hpp"
#include "kernels/transfer.hpp"
#include "support/threads.hpp"
#include "train/engine.hpp"

#include <catch2/catch_test_macros.hpp>

#include <random>

namespace {

std::vector<float> train_on(int threads) {
  kvant::config::Settings s;
  s.run.steps = 3, s.run.seed = 5;
  auto& m = s.model;
  // Uneven sizes, so that the two threads' shares end in the middle of things.
  m.vocab_size = 97, m.max_target_length = 75, m.base_emb_dim = 104, m.base_num_query_heads = 3;
  m.base_num_decoder_layers = 2, m.first_num_dense_layers = 1, m.base_mlp_dim = 150, m.base_moe_mlp_dim = 41;
  m.num_experts = 5, m.num_experts_per_tok = 2, m.shared_experts = 1;
  m.q_lora_rank = 37, m.kv_lora_rank = 21, m.qk_nope_head_dim = 19, m.qk_rope_head_dim = 6, m.v_head_dim = 17;
  m.routed_score_func = kvant::config::ScoreFunction::sigmoid;
  m.routed_bias = true, m.routed_bias_update_rate = 1e-3, m.load_balance_loss_weight = 0.01, m.mtp_num_layers = 1;
  const kvant::Exec exec = kvant::test::exec_with_threads(threads);
  kvant::comm::Communicator world = kvant::comm::Communicator::world();
  kvant::train::Engine engine(s, kvant::make_model(m), exec, world);
  engine.allocate();
  std::mt19937 random(2);
  kvant::data::Batch b;
  for (int64_t step = 0; step < s.run.steps; ++step) {
    b.clear(3, m.max_target_length);
    for (std::size_t i = 0; i < b.inputs.size(); ++i) {
      b.inputs[i] = static_cast<int32_t>(random() % 97), b.targets[i] = static_cast<int32_t>(random() % 97);
      b.inputs_position[i] = static_cast<int32_t>(i % 75);
      b.inputs_segmentation[i] = b.targets_segmentation[i] = 1;
    }
    b.valid_targets = 3 * 75;
    engine.step({&b, 1}, step, 1e-3);
  }
  const kvant::TensorView& block = engine.model().params().values();
  std::vector<float> values(static_cast<std::size_t>(block.numel()));
  kvant::download(exec, block, values.data());
  return values;
}

}  // namespace

TEST_CASE("three steps on one thread and on two give the same bits") {
  if constexpr (kvant::test::can_choose_threads) {
    CHECK(train_on(1) == train_on(2));
  } else {
    SKIP("the execution space has no threads to choose");
  }
}
