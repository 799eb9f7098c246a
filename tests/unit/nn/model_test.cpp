// The whole model, forward and backward, against the tape in double precision; the tape against finite differences. Dense layer,
// routed and shared experts, MTP, YaRN or plain rope, packed documents with padding, balance loss, z-loss, recompute, micro-batches.
#include "base/kokkos.hpp"
#include "comm/communicator.hpp"
#include "kernels/transfer.hpp"
#include "models/model.hpp"
#include "tests/reference/deepseek.hpp"
#include "train/engine.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <map>
#include <random>

namespace {

using kvant::config::Settings;

Settings small_settings() {
  Settings s;
  s.run.steps = 1;
  auto& m = s.model;
  m.vocab_size = 19, m.max_target_length = 9, m.base_emb_dim = 12, m.base_num_query_heads = 3;
  m.base_num_decoder_layers = 3, m.first_num_dense_layers = 1, m.base_mlp_dim = 14, m.base_moe_mlp_dim = 10;
  m.num_experts = 5, m.num_experts_per_tok = 2, m.shared_experts = 1;
  m.q_lora_rank = 7, m.kv_lora_rank = 6, m.qk_nope_head_dim = 5, m.qk_rope_head_dim = 4, m.v_head_dim = 3;
  m.routed_score_func = kvant::config::ScoreFunction::sigmoid;
  m.routed_bias = true, m.routed_scaling_factor = 2.5;
  m.mtp_num_layers = 1, m.mtp_loss_scaling_factor = 0.3;
  m.load_balance_loss_weight = 0.05, m.z_loss_multiplier = 1e-3;
  return s;
}

kvant::data::Batch packed_batch(const Settings& s, int64_t rows, unsigned seed) {
  std::mt19937 random(seed);
  const int64_t S = s.model.max_target_length;
  kvant::data::Batch b;
  b.clear(rows, S);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t cut = 3 + static_cast<int64_t>(random() % 3), end = S - static_cast<int64_t>(random() % 2);
    for (int64_t i = 0; i < end; ++i) {
      const auto at = static_cast<std::size_t>(r * S + i);
      const int segment = i < cut ? 1 : 2;
      const bool has_target = i + 1 < end && i + 1 != cut;
      b.inputs[at] = static_cast<int32_t>(random() % static_cast<unsigned>(s.model.vocab_size));
      b.inputs_segmentation[at] = segment;
      b.inputs_position[at] = static_cast<int32_t>(i < cut ? i : i - cut);
      b.targets_position[at] = b.inputs_position[at];
      b.targets_segmentation[at] = has_target ? segment : 0;
      if (has_target) ++b.valid_targets;
    }
    for (int64_t i = 0; i + 1 < end; ++i) {
      const auto at = static_cast<std::size_t>(r * S + i);
      if (b.targets_segmentation[at] != 0) b.targets[at] = b.inputs[at + 1];
    }
  }
  return b;
}

reference::Tokens tokens_of(const kvant::data::Batch& b) {
  reference::Tokens t;
  t.batch = static_cast<std::size_t>(b.batch), t.seq = static_cast<std::size_t>(b.seq);
  t.inputs = b.inputs, t.targets = b.targets, t.position = b.inputs_position, t.segment = b.inputs_segmentation;
  for (const int32_t s : b.targets_segmentation) t.mask.push_back(s != 0);
  return t;
}

using Values = std::map<std::string, std::vector<double>>;

/// Leaves of the tape: matrices [first axis, rest] as the formulas need them; an expert's weight is a leaf of its own.
std::map<std::string, reference::Var> leaves(reference::Tape& tape, const kvant::nn::ParamTable& params, const Values& values) {
  std::map<std::string, reference::Var> all;
  for (const kvant::nn::Param* p : params.all()) {
    const std::vector<double>& v = values.at(p->path);
    const bool expert = p->path.find("MoeBlock_0/w") != std::string::npos;
    const auto last = static_cast<std::size_t>(p->shape[p->shape.rank - 1]);
    if (expert) {
      const std::size_t rows = static_cast<std::size_t>(p->shape[1]), each = rows * last;
      for (int64_t e = 0; e < p->shape[0]; ++e) {
        const auto begin = v.begin() + e * static_cast<long>(each);
        all[p->path + "#" + std::to_string(e)] = tape.leaf(rows, last, std::vector<double>(begin, begin + static_cast<long>(each)));
      }
    } else if (p->shape.rank == 1) {
      all[p->path] = tape.leaf(1, last, v);
    } else {
      // [E,H,d] is [E, H·d]; out's [H,d,E] is [H·d, E].
      const bool out = p->path.ends_with("/out/kernel");
      const std::size_t cols = out ? last : v.size() / static_cast<std::size_t>(p->shape[0]);
      all[p->path] = tape.leaf(v.size() / cols, cols, v);
    }
  }
  return all;
}

struct Case {
  Settings settings;
  std::unique_ptr<kvant::train::Engine> engine;
  kvant::Exec exec;
  kvant::comm::Communicator world = kvant::comm::Communicator::world();
  Values values;

  explicit Case(const Settings& s) : settings(s) {
    engine = std::make_unique<kvant::train::Engine>(s, kvant::make_model(s.model), exec, world);
    engine->allocate();
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (kvant::nn::Param* p : engine->model().params().all()) {
      std::vector<float> v(static_cast<std::size_t>(p->shape.numel()));
      kvant::download(exec, p->value, v.data());
      const bool scale = p->path.ends_with("/scale"), bias = p->path.ends_with("/bias");
      for (float& x : v) x = scale ? 1.0f + 0.2f * normal(random) : bias ? 0.15f * normal(random) : x;
      kvant::upload(exec, v.data(), p->value);
      ++p->epoch;
      values[p->path].assign(v.begin(), v.end());
    }
  }

  /// Gradients by path; experts joined again.
  Values gradients() {
    Values g;
    for (kvant::nn::Param* p : engine->model().params().all()) {
      if (!p->trained) continue;
      std::vector<float> v(static_cast<std::size_t>(p->shape.numel()));
      kvant::download(exec, p->gradient, v.data());
      g[p->path].assign(v.begin(), v.end());
    }
    engine->clear_gradients();
    return g;
  }
};

double reference_loss(const Case& c, const reference::Tokens& t, const Values& values, Values* gradients) {
  reference::Tape tape;
  auto params = leaves(tape, c.engine->model().params(), values);
  reference::DeepSeek model(tape, c.settings.model, params, t);
  const reference::Var loss = model.loss();
  if (gradients != nullptr) {
    tape.backward(loss);
    for (const auto& [name, leaf] : params) {
      auto& g = (*gradients)[name.substr(0, name.find('#'))];
      g.insert(g.end(), leaf->g.begin(), leaf->g.end());
    }
  }
  return loss->v[0];
}

double relative_norm(const std::vector<double>& a, const std::vector<double>& b) {
  double diff = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) diff += (a[i] - b[i]) * (a[i] - b[i]), norm += b[i] * b[i];
  return std::sqrt(diff / (norm + 1e-30));
}

void compare_with_tape(const Settings& s, unsigned seed) {
  Case c(s);
  const kvant::data::Batch batch = packed_batch(s, 3, seed);
  const reference::Tokens t = tokens_of(batch);
  Values want;
  const double loss = reference_loss(c, t, c.values, &want);
  const kvant::train::Losses got = c.engine->differentiate({&batch, 1}, nullptr);
  // Single precision through some twenty layers of sums of a dozen terms: a few units in the last place, measured below 1e-6.
  CHECK_THAT(got.total, Catch::Matchers::WithinRel(loss, 2e-6));
  for (const auto& [path, g] : c.gradients()) {
    INFO(path);
    CHECK(relative_norm(g, want.at(path)) < 2e-5);
  }
}

}  // namespace

TEST_CASE("a model's loss and gradients agree with the tape") { compare_with_tape(small_settings(), 3); }

TEST_CASE("a model's variants agree with the tape") {
  Settings s = small_settings();
  SECTION("YaRN") {
    s.model.rope_type = kvant::config::RopeType::yarn;
    s.model.qk_rope_head_dim = 8;
  }
  SECTION("no query LoRA, halves rotated, softmax scores, no bias") {
    s.model.q_lora_rank = 0;
    s.model.rope_interleave = false;
    s.model.routed_score_func = kvant::config::ScoreFunction::softmax;
    s.model.routed_bias = false;
  }
  SECTION("recompute") { s.model.remat_policy = kvant::config::Remat::full; }
  SECTION("sliced projections") { s.model.use_sliced_mla_proj = true; }
  SECTION("sliced projections, recompute, no query LoRA") {
    s.model.use_sliced_mla_proj = true;
    s.model.remat_policy = kvant::config::Remat::full;
    s.model.q_lora_rank = 0;
  }
  SECTION("two MTP modules, no shared expert, no balance loss") {
    s.model.mtp_num_layers = 2;
    s.model.shared_experts = 0;
    s.model.load_balance_loss_weight = 0;
  }
  SECTION("no MTP, all layers mixtures") {
    s.model.mtp_num_layers = 0;
    s.model.first_num_dense_layers = 0;
  }
  compare_with_tape(s, 5);
}

TEST_CASE("the tape's gradients agree with finite differences") {
  const Settings s = small_settings();
  Case c(s);
  const kvant::data::Batch batch = packed_batch(s, 2, 11);
  const reference::Tokens t = tokens_of(batch);
  Values g;
  reference_loss(c, t, c.values, &g);
  std::mt19937 random(1);
  for (const kvant::nn::Param* p : c.engine->model().params().all()) {
    if (!p->trained) continue;
    // A random direction in the whole parameter: one difference tests all of its elements.
    std::vector<double> direction(c.values.at(p->path).size());
    std::normal_distribution<double> normal;
    double along = 0, length = 0;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      direction[i] = normal(random);
      along += direction[i] * g.at(p->path)[i];
      length += direction[i] * direction[i];
    }
    const double h = 1e-5 / std::sqrt(length);
    Values moved = c.values;
    const auto shifted = [&](double by) {
      for (std::size_t i = 0; i < direction.size(); ++i) moved[p->path][i] = c.values.at(p->path)[i] + by * direction[i];
      return reference_loss(c, t, moved, nullptr);
    };
    const double difference = (shifted(h) - shifted(-h)) / (2 * h);
    INFO(p->path);
    // Central differences in double along a direction of length ~25: truncation (1e-5)², rounding of a loss of order 10
    // 1e-15 · 25 / 2e-5, about 1e-9 each; ten times that for the sums behind the loss.
    CHECK(std::abs(difference - along) < 1e-6 * std::abs(along) + 2e-8);
  }
}

TEST_CASE("recompute changes no bit of loss or gradient") {
  Settings s = small_settings();
  const kvant::data::Batch batch = packed_batch(s, 3, 4);
  Case plain(s);
  const double loss = plain.engine->differentiate({&batch, 1}, nullptr).total;
  s.model.remat_policy = kvant::config::Remat::full;
  Case again(s);
  CHECK(again.engine->differentiate({&batch, 1}, nullptr).total == loss);
  CHECK(plain.gradients() == again.gradients());
}

TEST_CASE("micro-batches give the loss and gradient of the whole batch") {
  const Settings s = small_settings();
  Case c(s);
  const kvant::data::Batch whole = packed_batch(s, 4, 9);
  std::vector<kvant::data::Batch> parts(2);
  for (std::size_t i = 0; i < 2; ++i) {
    parts[i].clear(2, whole.seq);
    const auto from = static_cast<std::size_t>(2 * whole.seq) * i, count = static_cast<std::size_t>(2 * whole.seq);
    const auto take = [&](const std::vector<int32_t>& all, std::vector<int32_t>& part) {
      part.assign(all.begin() + static_cast<long>(from), all.begin() + static_cast<long>(from + count));
    };
    take(whole.inputs, parts[i].inputs), take(whole.targets, parts[i].targets);
    take(whole.inputs_position, parts[i].inputs_position), take(whole.inputs_segmentation, parts[i].inputs_segmentation);
    take(whole.targets_position, parts[i].targets_position), take(whole.targets_segmentation, parts[i].targets_segmentation);
    for (const int32_t t : parts[i].targets_segmentation) parts[i].valid_targets += t != 0;
  }
  REQUIRE(parts[0].valid_targets != parts[1].valid_targets);  // or equal weights would hide a wrong one
  Settings no_balance = s;
  no_balance.model.load_balance_loss_weight = 0;  // its density is a mean over a micro-batch: not additive, by definition
  Case d(no_balance);
  const double loss = d.engine->differentiate({&whole, 1}, nullptr).total;
  const Values want = d.gradients();
  CHECK_THAT(d.engine->differentiate(parts, nullptr).total, Catch::Matchers::WithinRel(loss, 1e-6));
  for (const auto& [path, g] : d.gradients()) {
    INFO(path);
    CHECK(relative_norm(g, want.at(path)) < 1e-5);
  }
}

TEST_CASE("bfloat16 activations follow float32 as far as their eight bits carry") {
  Settings s = small_settings();
  const kvant::data::Batch batch = packed_batch(s, 3, 6);
  Case plain(s);
  const double want = plain.engine->differentiate({&batch, 1}, nullptr).total;
  const Values exact = plain.gradients();
  s.model.dtype = kvant::config::ComputeType::bfloat16;
  Case rounded(s);
  const double got = rounded.engine->differentiate({&batch, 1}, nullptr).total;
  // Each stored activation is rounded once, 2^-9 relative at most; some twenty in a row add up like their square root.
  CHECK(got != want);
  CHECK_THAT(got, Catch::Matchers::WithinRel(want, 1e-2));
  for (const auto& [path, g] : rounded.gradients()) {
    INFO(path);
    const std::vector<double>& e = exact.at(path);
    double dot = 0, gg = 0, ee = 0;
    for (std::size_t i = 0; i < g.size(); ++i) dot += g[i] * e[i], gg += g[i] * g[i], ee += e[i] * e[i];
    CHECK(dot > 0.95 * std::sqrt(gg * ee));
  }
}
