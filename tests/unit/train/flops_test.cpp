// Operation counts against the reference's table (maxtext-semantics section 6), per device, one sequence.
#include "train/flops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

namespace {

kvant::config::ModelSettings deepseek3_671b() {
  kvant::config::ModelSettings m;
  m.base_emb_dim = 7168, m.base_num_query_heads = 128, m.base_mlp_dim = 18432, m.base_moe_mlp_dim = 2048;
  m.base_num_decoder_layers = 61, m.first_num_dense_layers = 3, m.vocab_size = 129280, m.num_experts = 256, m.num_experts_per_tok = 8;
  m.shared_experts = 1, m.q_lora_rank = 1536, m.kv_lora_rank = 512, m.max_target_length = 4096;
  return m;
}

using Catch::Matchers::WithinAbs;

}  // namespace

TEST_CASE("operations of deepseek3-671b are those of the reference") {
  kvant::config::ModelSettings m = deepseek3_671b();
  CHECK_THAT(kvant::train::training_flops(m, 1).weights / 1e12, WithinAbs(900.09, 0.005));
  CHECK_THAT(kvant::train::training_flops(m, 1).attention / 1e12, WithinAbs(125.76, 0.005));
  m.mtp_num_layers = 1;
  CHECK_THAT(kvant::train::training_flops(m, 1).total() / 1e12, WithinAbs(1042.29, 0.005));
}

TEST_CASE("operations without query LoRA are those of the reference (deepseek2-16b)") {
  kvant::config::ModelSettings m = deepseek3_671b();
  m.base_emb_dim = 2048, m.base_num_query_heads = 16, m.base_mlp_dim = 10944, m.base_moe_mlp_dim = 1408, m.base_num_decoder_layers = 27;
  m.first_num_dense_layers = 1, m.vocab_size = 102400, m.num_experts = 64, m.num_experts_per_tok = 6, m.shared_experts = 2, m.q_lora_rank = 0;
  CHECK_THAT(kvant::train::training_flops(m, 1).weights / 1e12, WithinAbs(60.243, 0.0005));
  CHECK_THAT(kvant::train::training_flops(m, 1).attention / 1e12, WithinAbs(6.958, 0.0005));
}
