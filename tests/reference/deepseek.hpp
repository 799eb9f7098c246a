// The DeepSeek-family model in double precision on the tape: written from maxtext-semantics section 2 by formula, one head, one
// expert, one row at a time. Parameters come by MaxText path from a map of leaves.
#pragma once

#include "config/settings.hpp"
#include "tests/reference/tape.hpp"

#include <algorithm>
#include <map>
#include <numbers>
#include <numeric>
#include <string>

namespace reference {

struct Tokens {
  std::size_t batch = 0, seq = 0;
  std::vector<int> inputs, targets, position, segment, mask;
};

class DeepSeek {
 public:
  DeepSeek(Tape& tape, const kvant::config::ModelSettings& m, std::map<std::string, Var> params, const Tokens& t)
      : tape_(tape), m_(m), params_(std::move(params)), t_(t) {}

  Var norm(const std::string& path, const Var& x) { return tape_.rmsnorm(x, params_.at(path + "/scale"), m_.normalization_layer_epsilon); }
  Var linear(const std::string& path, const Var& x) { return tape_.matmul(x, params_.at(path + "/kernel")); }

  double frequency(std::size_t i) const {
    const double d = static_cast<double>(m_.qk_rope_head_dim), theta = m_.rope_max_timescale, fi = static_cast<double>(i);
    double f = std::pow(theta, -2 * fi / d);
    if (m_.rope_type != kvant::config::RopeType::yarn) return f;
    const auto corr = [&](double r) {
      return d * std::log(static_cast<double>(m_.original_max_position_embeddings) / (2 * std::numbers::pi * r)) / (2 * std::log(theta));
    };
    double low = std::max(std::floor(corr(m_.beta_fast)), 0.0), high = std::min(std::ceil(corr(m_.beta_slow)), d - 1);
    if (low == high) high += 0.001;
    const double ramp = std::clamp((fi - low) / (high - low), 0.0, 1.0);
    return f / m_.rope_factor * ramp + f * (1 - ramp);
  }
  Var rope(const Var& x) {  // [T, dr]
    const std::size_t half = x->cols / 2;
    std::vector<std::size_t> first(half), second(half);
    for (std::size_t i = 0; i < half; ++i) {
      first[i] = m_.rope_interleave ? 2 * i : i;
      second[i] = m_.rope_interleave ? 2 * i + 1 : half + i;
    }
    return tape_.rotate(x, first, second, [this](std::size_t r, std::size_t i) { return t_.position[r] * frequency(i); });
  }

  Var attention(const std::string& path, const Var& x) {
    const auto H = static_cast<std::size_t>(m_.base_num_query_heads), dn = static_cast<std::size_t>(m_.qk_nope_head_dim),
               dr = static_cast<std::size_t>(m_.qk_rope_head_dim), dv = static_cast<std::size_t>(m_.v_head_dim),
               rkv = static_cast<std::size_t>(m_.kv_lora_rank);
    const Var q = m_.q_lora_rank > 0 ? linear(path + "/wq_b", norm(path + "/q_norm", linear(path + "/wq_a", x))) : linear(path + "/query", x);
    const Var kva = linear(path + "/wkv_a", x);
    const Var kv = linear(path + "/wkv_b", norm(path + "/kv_norm", tape_.columns(kva, 0, rkv)));
    const Var k_rope = rope(tape_.columns(kva, rkv, dr));
    double scale = 1 / std::sqrt(static_cast<double>(dn + dr));
    if (m_.rope_type == kvant::config::RopeType::yarn && m_.max_position_embeddings > m_.original_max_position_embeddings)
      scale *= std::pow(0.1 * m_.mscale * std::log(m_.rope_factor) + 1, 2);
    std::vector<Var> heads;
    for (std::size_t h = 0; h < H; ++h) {
      const Var qh = tape_.join_columns({tape_.columns(q, h * (dn + dr), dn), rope(tape_.columns(q, h * (dn + dr) + dn, dr))});
      const Var kh = tape_.join_columns({tape_.columns(kv, h * (dn + dv), dn), k_rope});
      const Var vh = tape_.columns(kv, h * (dn + dv) + dn, dv);
      // All rows of the batch at once; what is not the same row of the batch is invisible.
      const Var p = tape_.softmax(tape_.scale(tape_.matmul(qh, tape_.transpose(kh)), scale), [this](std::size_t i, std::size_t j) {
        return i / t_.seq == j / t_.seq && j <= i && t_.segment[i] == t_.segment[j];
      });
      heads.push_back(tape_.matmul(p, vh));
    }
    return linear(path + "/out", tape_.join_columns(heads));
  }

  Var mlp(const std::string& path, const Var& x) {
    return linear(path + "/wo", tape_.mul(tape_.silu(linear(path + "/wi_0", x)), linear(path + "/wi_1", x)));
  }

  /// Sigmoid or softmax scores, bias in the selection only; sigmoid weights renormalised.
  Var moe(const std::string& path, const Var& x) {
    const auto X = static_cast<std::size_t>(m_.num_experts), K = static_cast<std::size_t>(m_.num_experts_per_tok);
    const std::string block = path + "/MoeBlock_0";
    const Var logits = linear(block + "/gate", x);
    const bool sigmoid = m_.routed_score_func == kvant::config::ScoreFunction::sigmoid;
    const Var score = sigmoid ? tape_.sigmoid(logits) : tape_.softmax(logits, [](std::size_t, std::size_t) { return true; });
    const auto bias = params_.find(block + "/gate/bias");
    Var out = m_.shared_experts > 0 ? mlp(path + "/shared_experts", x) : tape_.make(x->rows, x->cols);
    // chosen[k][t]: expert of slot k; one column of weights for each.
    std::vector<std::vector<std::size_t>> chosen(x->rows);
    for (std::size_t t = 0; t < x->rows; ++t) {
      std::vector<std::size_t> order(X);
      std::iota(order.begin(), order.end(), 0u);
      const auto biased = [&](std::size_t e) { return score->at(t, e) + (bias == params_.end() ? 0.0 : bias->second->v[e]); };
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return biased(a) > biased(b); });
      chosen[t].assign(order.begin(), order.begin() + static_cast<long>(K));
    }
    if (load_balance != nullptr) note_balance(score, chosen);
    const Var weight = combine_weights(score, chosen, sigmoid);
    for (std::size_t e = 0; e < X; ++e) {
      std::vector<long> rows;
      std::vector<std::size_t> slots;
      for (std::size_t t = 0; t < x->rows; ++t)
        for (std::size_t k = 0; k < K; ++k)
          if (chosen[t][k] == e) rows.push_back(static_cast<long>(t)), slots.push_back(k);
      if (rows.empty()) continue;
      const Var xe = tape_.gather(x, rows);
      const auto part = [&](const char* name) { return params_.at(block + "/" + name + "#" + std::to_string(e)); };
      const Var he = tape_.matmul(tape_.mul(tape_.silu(tape_.matmul(xe, part("wi_0"))), tape_.matmul(xe, part("wi_1"))), part("wo"));
      std::vector<long> weight_rows;
      for (std::size_t i = 0; i < rows.size(); ++i) weight_rows.push_back(rows[i] * static_cast<long>(K) + static_cast<long>(slots[i]));
      const Var scaled = tape_.scale_rows(he, tape_.gather(weight, weight_rows));
      std::vector<long> back(x->rows, -1);
      for (std::size_t i = 0; i < rows.size(); ++i) back[static_cast<std::size_t>(rows[i])] = static_cast<long>(i);
      out = tape_.add(out, tape_.gather(scaled, back));
    }
    return out;
  }

  Var layer(const std::string& path, const Var& x, bool dense) {
    const Var h = tape_.add(x, attention(path + "/self_attention", norm(path + "/pre_self_attention_layer_norm", x)));
    const Var n = norm(path + "/post_self_attention_layer_norm", h);
    return tape_.add(h, dense ? mlp(path + "/mlp", n) : moe(path + "/DeepSeekMoeBlock_0", n));
  }

  /// Total loss: main cross entropy per valid target, MTP, load balance.
  Var loss() {
    std::vector<long> ids(t_.inputs.begin(), t_.inputs.end());
    Var h = tape_.gather(params_.at("token_embedder/embedding"), ids);
    std::vector<Var> balance;
    if (m_.load_balance_loss_weight > 0) load_balance = &balance;
    for (int64_t l = 0; l < m_.base_num_decoder_layers; ++l) {
      const bool dense = l < m_.first_num_dense_layers;
      h = layer("decoder/" + std::string(dense ? "dense_layers_" : "moe_layers_") + std::to_string(dense ? l : l - m_.first_num_dense_layers), h, dense);
    }
    const auto head = [&](const std::string& norm_path, const Var& x, const std::vector<int>& targets, const std::vector<int>& mask, double factor, double z) {
      const double valid = std::accumulate(mask.begin(), mask.end(), 0.0);
      std::vector<double> weight;
      for (const int one : mask) weight.push_back(one * factor / valid);
      return tape_.cross_entropy(linear("decoder/logits_dense", norm(norm_path, x)), targets, weight, z);
    };
    Var total = head("decoder/decoder_norm", h, t_.targets, t_.mask, 1.0, m_.z_loss_multiplier);
    for (std::size_t k = 1; k <= static_cast<std::size_t>(m_.mtp_num_layers); ++k) {
      std::vector<long> in(ids.size(), 0);
      std::vector<int> targets(ids.size(), 0), mask(ids.size(), 0);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (i % t_.seq + k >= t_.seq || t_.segment[i] == 0 || t_.segment[i] != t_.segment[i + k]) continue;
        in[i] = ids[i + k], targets[i] = t_.targets[i + k], mask[i] = t_.mask[i + k];
      }
      const std::string prefix = "mtp_block/mtp_layer_" + std::to_string(k) + "/mtp_" + std::to_string(k) + "_";
      const Var e = tape_.gather(params_.at("token_embedder/embedding"), in);
      const Var joined = tape_.join_columns({norm(prefix + "embedding_norm", e), norm(prefix + "hidden_state_norm", h)});
      h = layer(prefix + "transformer_layer", linear(prefix + "projection", joined), false);
      total = tape_.add(total, head(prefix + "final_norm", h, targets, mask, m_.mtp_loss_scaling_factor / static_cast<double>(m_.mtp_num_layers), 0.0));
    }
    for (const Var& term : balance) total = tape_.add(total, tape_.scale(term, 1.0 / static_cast<double>(balance.size())));
    load_balance = nullptr;
    return total;
  }

 private:
  Var combine_weights(const Var& score, const std::vector<std::vector<std::size_t>>& chosen, bool sigmoid) {
    const std::size_t T = score->rows, K = chosen[0].size();
    const double factor = m_.routed_scaling_factor;
    Var w = tape_.make(T * K, 1);
    for (std::size_t t = 0; t < T; ++t) {
      double sum = 1;
      if (sigmoid) {
        sum = 1e-20;
        for (const std::size_t e : chosen[t]) sum += score->at(t, e);
      }
      for (std::size_t k = 0; k < K; ++k) w->v[t * K + k] = factor * score->at(t, chosen[t][k]) / sum;
    }
    w->back = [=, w = w.get()] {
      for (std::size_t t = 0; t < T; ++t) {
        double sum = 1e-20, dot = 0;
        for (std::size_t k = 0; k < K; ++k) {
          sum += score->at(t, chosen[t][k]);
          dot += w->g[t * K + k] * score->at(t, chosen[t][k]);
        }
        for (std::size_t k = 0; k < K; ++k)
          score->grad(t, chosen[t][k]) += factor * (sigmoid ? w->g[t * K + k] / sum - dot / (sum * sum) : w->g[t * K + k]);
      }
    };
    return w;
  }
  void note_balance(const Var& score, const std::vector<std::vector<std::size_t>>& chosen) {
    const std::size_t X = score->cols, K = chosen[0].size(), S = t_.seq, B = t_.batch;
    const Var p = tape_.softmax(score, [](std::size_t, std::size_t) { return true; });
    std::vector<double> w(score->v.size());
    for (std::size_t b = 0; b < B; ++b)
      for (std::size_t e = 0; e < X; ++e) {
        double density = 0;
        for (std::size_t s = 0; s < S; ++s)
          for (const std::size_t c : chosen[b * S + s]) density += c == e ? 1.0 : 0.0;
        density /= static_cast<double>(S * K);
        for (std::size_t s = 0; s < S; ++s)
          w[(b * S + s) * X + e] = m_.load_balance_loss_weight * static_cast<double>(X * X) * density / static_cast<double>(S) / static_cast<double>(B * X);
      }
    load_balance->push_back(tape_.dot(p, w));
  }

  Tape& tape_;
  kvant::config::ModelSettings m_;
  std::map<std::string, Var> params_;
  const Tokens& t_;
  std::vector<Var>* load_balance = nullptr;
};

}  // namespace reference
