// One optimizer step as a whole: what it must not do (allocate, fence, move on evaluation, go on with a NaN) and what it must repeat.
#include "base/kokkos.hpp"
#include "comm/communicator.hpp"
#include "kernels/transfer.hpp"
#include "quant/plan.hpp"
#include "support/untrapped.hpp"
#include "train/engine.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace {

using kvant::config::Settings;
using kvant::train::Engine;

Settings settings() {
  Settings s;
  s.run.steps = 4, s.run.seed = 3;
  auto& m = s.model;
  m.vocab_size = 40, m.max_target_length = 24, m.base_emb_dim = 32, m.base_num_query_heads = 2;
  m.base_num_decoder_layers = 2, m.first_num_dense_layers = 1, m.base_mlp_dim = 48, m.base_moe_mlp_dim = 16;
  m.num_experts = 4, m.num_experts_per_tok = 2, m.shared_experts = 1;
  m.q_lora_rank = 16, m.kv_lora_rank = 8, m.qk_nope_head_dim = 8, m.qk_rope_head_dim = 4, m.v_head_dim = 8;
  m.routed_score_func = kvant::config::ScoreFunction::sigmoid;
  m.routed_bias = true, m.routed_bias_update_rate = 1e-3, m.load_balance_loss_weight = 0.01;
  m.mtp_num_layers = 1;
  return s;
}

kvant::data::Batch batch(const Settings& s, unsigned seed, int64_t rows = 4) {
  std::mt19937 random(seed);
  kvant::data::Batch b;
  b.clear(rows, s.model.max_target_length);
  for (std::size_t i = 0; i < b.inputs.size(); ++i) {
    b.inputs[i] = static_cast<int32_t>(random() % static_cast<unsigned>(s.model.vocab_size));
    b.targets[i] = static_cast<int32_t>(random() % static_cast<unsigned>(s.model.vocab_size));
    b.inputs_position[i] = b.targets_position[i] = static_cast<int32_t>(i % static_cast<std::size_t>(s.model.max_target_length));
    b.inputs_segmentation[i] = b.targets_segmentation[i] = 1;
  }
  b.valid_targets = static_cast<int64_t>(b.inputs.size());
  return b;
}

struct Run {
  kvant::Exec exec;
  kvant::comm::Communicator world = kvant::comm::Communicator::world();
  Settings s;
  Engine engine;

  explicit Run(const Settings& given = settings()) : s(given), engine(given, kvant::make_model(given.model), exec, world) { engine.allocate(); }
  std::vector<float> values() {
    const kvant::TensorView& block = engine.model().params().values();
    std::vector<float> v(static_cast<std::size_t>(block.numel()));
    kvant::download(exec, block, v.data());
    return v;
  }
  kvant::nn::Param& param(const std::string& path) {
    for (kvant::nn::Param* p : engine.model().params().all())
      if (p->path == path) return *p;
    FAIL("no parameter " << path);
    throw 0;
  }
  void poison(const std::string& path, float value) {
    kvant::nn::Param& p = param(path);
    std::vector<float> v(static_cast<std::size_t>(p.shape.numel()));
    kvant::download(exec, p.value, v.data());
    v[v.size() / 2] = value;
    kvant::upload(exec, v.data(), p.value);
    ++p.epoch;
  }
};

std::string message_of(Run& run, const kvant::data::Batch& b, int64_t step, kvant::ExitCode* code = nullptr) {
  try {
    run.engine.step({&b, 1}, step, 1e-3);
  } catch (const kvant::Error& error) {
    if (code != nullptr) *code = error.code();
    return error.what();
  }
  return "";
}

int allocations = 0;
std::vector<std::string> foreign_fences;

}  // namespace

TEST_CASE("a step after the first allocates nothing and fences only where it says so") {
  Run run;
  const kvant::data::Batch b = batch(run.s, 1);
  run.engine.step({&b, 1}, 0, 1e-3);
  run.engine.step({&b, 1}, 1, 1e-3);
  const std::size_t growths = run.engine.growth_count();
  allocations = 0;
  foreign_fences.clear();
  Kokkos::Tools::Experimental::set_allocate_data_callback(
      [](Kokkos_Profiling_SpaceHandle, const char*, const void*, uint64_t) { ++allocations; });
  Kokkos::Tools::Experimental::set_begin_fence_callback([](const char* name, const uint32_t, uint64_t*) {
    if (std::string(name).rfind("kvant: ", 0) != 0) foreign_fences.emplace_back(name);
  });
  run.engine.step({&b, 1}, 2, 1e-3);
  Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
  Kokkos::Tools::Experimental::set_begin_fence_callback(nullptr);
  CHECK(allocations == 0);
  CHECK(run.engine.growth_count() == growths);
  CHECK(foreign_fences == std::vector<std::string>{});
}

TEST_CASE("a NaN names step and tensor, stops the run and leaves the parameters") {
  const kvant::test::Untrapped untrapped;
  Run run;
  const kvant::data::Batch b = batch(run.s, 2);
  SECTION("in a parameter") {
    run.poison("decoder/moe_layers_0/self_attention/wkv_b/kernel", std::numeric_limits<float>::quiet_NaN());
    const std::vector<float> before = run.values();
    kvant::ExitCode code{};
    const std::string message = message_of(run, b, 17, &code);
    CHECK_THAT(message, Catch::Matchers::ContainsSubstring("Step 17") && Catch::Matchers::ContainsSubstring("decoder/moe_layers_0/self_attention/wkv_b/kernel"));
    CHECK(code == kvant::ExitCode::numerics);
    CHECK(std::memcmp(before.data(), run.values().data(), before.size() * sizeof(float)) == 0);
  }
  SECTION("in an activation that overflows") {
    run.poison("decoder/dense_layers_0/mlp/wo/kernel", 3e38f);
    run.poison("decoder/dense_layers_0/mlp/wi_0/kernel", 1e30f);
    const std::string message = message_of(run, b, 5);
    CHECK_THAT(message, Catch::Matchers::ContainsSubstring("Step 5") && Catch::Matchers::ContainsSubstring("decoder/dense_layers_0/mlp/wo"));
  }
  SECTION("in the router's logits: experts are not chosen by accident") {
    run.poison("decoder/moe_layers_0/DeepSeekMoeBlock_0/MoeBlock_0/gate/kernel", std::numeric_limits<float>::infinity());
    CHECK_THAT(message_of(run, b, 1), Catch::Matchers::ContainsSubstring("gate"));
  }
}

TEST_CASE("a step without a valid target changes nothing and says so") {
  Run run;
  kvant::data::Batch b = batch(run.s, 3);
  b.targets_segmentation.assign(b.targets_segmentation.size(), 0);
  b.valid_targets = 0;
  const std::vector<float> before = run.values();
  CHECK(run.engine.step({&b, 1}, 0, 1e-3).skipped);
  CHECK(run.values() == before);
}

TEST_CASE("a token outside of the vocabulary stops the run") {
  Run run;
  kvant::data::Batch b = batch(run.s, 4);
  SECTION("as an input") { b.inputs[7] = 40; }
  SECTION("as a target") { b.targets[7] = -1; }
  CHECK_THAT(message_of(run, b, 0), Catch::Matchers::ContainsSubstring("vocabulary of 40"));
}

TEST_CASE("an expert without tokens is legal") {
  Run run;
  const kvant::data::Batch b = batch(run.s, 5);
  // A bias of 1e4 on two experts leaves the two others empty.
  kvant::nn::Param& bias = run.param("decoder/moe_layers_0/DeepSeekMoeBlock_0/MoeBlock_0/gate/bias");
  const std::vector<float> values = {1e4f, 0, 0, 1e4f};
  kvant::upload(run.exec, values.data(), bias.value);
  const kvant::train::StepReport report = run.engine.step({&b, 1}, 0, 1e-3);
  CHECK(report.expert_tokens[0][1] == 0);
  CHECK(report.expert_tokens[0][2] == 0);
  CHECK(report.expert_tokens[0][0] + report.expert_tokens[0][3] == 4 * 24 * 2);
  CHECK(std::isfinite(report.losses.total));
}

TEST_CASE("evaluation between steps changes no bit of training") {
  Run plain, watched;
  for (int64_t step = 0; step < 3; ++step) {
    const kvant::data::Batch b = batch(plain.s, 10 + static_cast<unsigned>(step));
    plain.engine.step({&b, 1}, step, 1e-3);
    watched.engine.step({&b, 1}, step, 1e-3);
    watched.engine.evaluate(batch(plain.s, 99, 2));
  }
  CHECK(plain.values() == watched.values());
}

TEST_CASE("with delayed scaling recompute changes no bit of losses, parameters or the ranges of later steps") {  // report D09
  const auto outcome = [](kvant::config::Remat remat) {
    Settings s = settings();
    s.quant.quantization = "fp8_gpu";
    s.model.remat_policy = remat;
    const kvant::Exec exec;
    kvant::comm::Communicator world = kvant::comm::Communicator::world();
    auto model = kvant::make_model(s.model);
    const kvant::quant::Plan plan = kvant::quant::Plan::bind(model->sites(), s);
    REQUIRE(plan.remembers_ranges() != nullptr);
    Engine engine(s, std::move(model), exec, world);
    engine.allocate();
    std::vector<double> losses;
    for (int64_t step = 0; step < 4; ++step) {  // from the second on the ranges are what the steps before have recorded
      const kvant::data::Batch parts[] = {batch(s, 10 + static_cast<unsigned>(step)), batch(s, 20 + static_cast<unsigned>(step))};
      losses.push_back(engine.step(parts, step, 1e-2).losses.total);
    }
    const kvant::TensorView& block = engine.model().params().values();
    std::vector<float> values(static_cast<std::size_t>(block.numel()));
    kvant::download(exec, block, values.data());
    return std::pair(losses, values);
  };
  const auto kept = outcome(kvant::config::Remat::none), again = outcome(kvant::config::Remat::full);
  CHECK(kept.first == again.first);
  CHECK(kept.second == again.second);
  CHECK(kept.first[3] != kept.first[0]);
}

TEST_CASE("the seed fixes everything") {
  Settings other = settings();
  other.run.seed = 4;
  Run a, b, c(other);
  CHECK(a.values() == b.values());
  CHECK(a.values() != c.values());
}

TEST_CASE("the selection bias moves once per optimizer step, by the counts of all micro-batches") {
  Run whole, parts;
  const kvant::data::Batch all = batch(whole.s, 6);
  std::vector<kvant::data::Batch> split;
  for (int64_t r = 0; r < 4; ++r) {
    kvant::data::Batch one;
    one.clear(1, all.seq);
    const auto cut = [&](const std::vector<int32_t>& from, std::vector<int32_t>& to) {
      to.assign(from.begin() + r * all.seq, from.begin() + (r + 1) * all.seq);
    };
    cut(all.inputs, one.inputs), cut(all.targets, one.targets), cut(all.inputs_position, one.inputs_position);
    cut(all.inputs_segmentation, one.inputs_segmentation), cut(all.targets_segmentation, one.targets_segmentation);
    one.valid_targets = all.seq;
    split.push_back(one);
  }
  // No learning, so that routing depends on the initial weights and the bias alone.
  for (int64_t step = 0; step < 5; ++step) {
    whole.engine.step({&all, 1}, step, 0.0);
    parts.engine.step(split, step, 0.0);
  }
  const auto bias = [](Run& run) {
    kvant::nn::Param& p = run.param("decoder/moe_layers_0/DeepSeekMoeBlock_0/MoeBlock_0/gate/bias");
    std::vector<float> v(4);
    kvant::download(run.exec, p.value, v.data());
    return v;
  };
  CHECK(bias(whole) == bias(parts));
  CHECK(bias(whole) != std::vector<float>(4, 0.0f));
}
