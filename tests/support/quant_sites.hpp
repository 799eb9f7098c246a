// The sites of a small DeepSeek-like model, made by hand, for tests of plans.
#pragma once

#include "ops/matmul_site.hpp"

#include <deque>
#include <string>

namespace kvant::test {

class QuantSites {
 public:
  QuantSites() {
    for (const char* stack : {"decoder/dense_layers", "decoder/moe_layers"}) {
      const bool moe = std::string(stack) == "decoder/moe_layers";
      for (int layer = 0; layer < (moe ? 2 : 1); ++layer) add_layer(stack, layer, moe);
    }
    add("decoder/logits_dense", "dot_general0", SiteKind::linear, -1, 64, 512);
    add("mtp_block/mtp_layer_1/projection", "dot_general0", SiteKind::linear, -1, 128, 64);
    add_layer("mtp_block/mtp_layer_1/mtp_1_transformer_layer", -1, true);
    add("decoder/logits_dense", "dot_general1", SiteKind::linear, -1, 64, 512);
  }

  SiteTable table;

  MatmulSite& at(const std::string& path, int layer = -1, const std::string& op = {}) {
    for (MatmulSite& site : sites_)
      if (site.path == path && site.layer == layer && (op.empty() || site.op == op)) return site;
    throw std::runtime_error("no site " + path);
  }

 private:
  void add_layer(const std::string& stack, int layer, bool moe) {
    for (const char* name : {"wq_a", "wq_b", "wkv_a", "wkv_b"})
      add(stack + "/self_attention/" + name, "dot_general0", SiteKind::linear, layer, 64, 64);
    add(stack + "/self_attention/attention_op", "einsum0", SiteKind::attention, layer, 24, 32);
    add(stack + "/self_attention/attention_op", "einsum1", SiteKind::attention, layer, 32, 16);
    add(stack + "/self_attention/out", "dot_general0", SiteKind::linear, layer, 64, 64);
    if (!moe) {
      for (const char* name : {"wi_0", "wi_1", "wo"})
        add(stack + "/mlp/" + name, "dot_general0", SiteKind::linear, layer, 64, 128);
      return;
    }
    const std::string block = stack + "/DeepSeekMoeBlock_0";
    add(block + "/MoeBlock_0/gate", "dot_general0", SiteKind::linear, layer, 64, 8);
    for (const char* op : {"gmm0", "gmm1", "gmm2"}) {
      MatmulSite& site = add(block + "/MoeBlock_0", op, SiteKind::grouped, layer, 64, 32);
      site.groups = 8;
      site.rows_per_token = 2;
    }
    for (const char* name : {"wi_0", "wi_1", "wo"})
      add(block + "/shared_experts/" + name, "dot_general0", SiteKind::linear, layer, 64, 32);
  }

  MatmulSite& add(const std::string& path, const std::string& op, SiteKind kind, int layer, int64_t k, int64_t n) {
    MatmulSite& site = sites_.emplace_back();
    site.path = path;
    site.op = op;
    site.kind = kind;
    site.layer = layer;
    site.k = k;
    site.n = n;
    table.add(site);
    return site;
  }

  std::deque<MatmulSite> sites_;
};

}  // namespace kvant::test
