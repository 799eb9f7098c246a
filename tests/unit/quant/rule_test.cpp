#include "quant/rule.hpp"

#include "base/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using namespace kvant::quant;
using Catch::Matchers::ContainsSubstring;

namespace {

bool matches(const std::string& pattern, const char* path, const char* op = "dot_general", int layer = -1,
             const std::string& layers = {}, std::vector<std::string> ops = {}) {
  Rule rule;
  rule.module_path = pattern;
  rule.layers = layers;
  rule.op_names = std::move(ops);
  rule.origin = "a test";
  return RuleMatcher(rule).matches(path, op, {layer, -1, 0});
}

/// A layer of a decoder of six.
bool holds(const std::string& layers, int depth, int number = 0) {
  Rule rule;
  rule.layers = layers;
  rule.origin = "a test";
  return RuleMatcher(rule).matches("decoder/moe_layers/x", "gmm", {number, depth, 6});
}

}  // namespace

TEST_CASE("a path is matched as a whole", "[quant]") {
  CHECK(matches("decoder/.*layers.*", "decoder/moe_layers/self_attention/wq_b"));
  CHECK(matches("decoder/.*layers.*", "decoder/dense_layers/mlp/wi_0"));
  CHECK_FALSE(matches("decoder/.*layers.*", "decoder/logits_dense"));
  CHECK_FALSE(matches("decoder/.*layers.*", "mtp_block/mtp_layer_1/mtp_1_transformer_layer/self_attention/wkv_b"));
  CHECK(matches("(decoder/.*layers.*|mtp_block/.*)",
                "mtp_block/mtp_layer_1/mtp_1_transformer_layer/self_attention/wkv_b"));
  CHECK_FALSE(matches("decoder", "decoder/logits_dense"));
  CHECK_FALSE(matches("logits_dense", "decoder/logits_dense"));
  CHECK(matches(".*/gate$", "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0/gate"));
  CHECK_FALSE(matches(".*/gate$", "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0/gate_proj"));
  CHECK(matches("decoder/(?!moe).*", "decoder/dense_layers/mlp/wo"));  // lookahead, as in Python
  CHECK_FALSE(matches("decoder/(?!moe).*", "decoder/moe_layers/mlp/wo"));
  CHECK(matches("a|ab", "ab"));  // the whole path counts, not the first alternative that fits its beginning
  CHECK_FALSE(matches("gate$", "gate\n"));
}

TEST_CASE("op names and layers narrow a rule", "[quant]") {
  CHECK(matches(".*", "a/b", "gmm"));
  CHECK_FALSE(matches(".*", "a/b", "gmm", 3, "", {"dot_general"}));
  CHECK(matches(".*", "a/b", "gmm", 3, "", {"dot_general", "gmm"}));
  CHECK(matches(".*", "a/b", "gmm", 3, "2-5,7"));
  CHECK(matches(".*", "a/b", "gmm", 7, "2-5,7"));
  CHECK_FALSE(matches(".*", "a/b", "gmm", 6, "2-5,7"));
  CHECK_FALSE(matches(".*", "a/b", "gmm", -1, "2-5,7"));  // no number, so none of these
}

TEST_CASE("what is no expression or list of layers is refused with its place", "[quant]") {
  CHECK_THROWS_WITH(matches("decoder/(", "x"),
                    ContainsSubstring("a test") && ContainsSubstring("decoder/(") && ContainsSubstring("character"));
  CHECK_THROWS_WITH(matches(".*", "x", "gmm", 0, "2-"), ContainsSubstring("layers = \"2-\""));
  CHECK_THROWS_WITH(matches(".*", "x", "gmm", 0, "5-2"), ContainsSubstring("5-2 is empty"));
  CHECK_THROWS_WITH(matches(".*", "x", "gmm", 0, "1,"), ContainsSubstring("layers = \"1,\""));
  CHECK_THROWS_WITH(matches(".*", "x", "gmm", 0, "-3"), ContainsSubstring("2-5,7"));
  CHECK_THROWS_WITH(matches(".*", "x", "gmm", 0, "99999999999"), ContainsSubstring("99999999999"));
  CHECK_THROWS_AS(matches(".*", "x", "gmm", 0, "a"), UsageError);
  CHECK_THROWS_WITH(matches("(a|aa)+c?", std::string(60, 'a').append("b").c_str()),
                    ContainsSubstring("cannot be matched"));
}

TEST_CASE("layers at the ends of the decoder are counted over all of its stacks", "[quant]") {
  CHECK(holds("first", 0, 5));
  CHECK_FALSE(holds("first", 1));
  CHECK(holds("first:2", 1, 5));
  CHECK(holds("last", 5, 2));
  CHECK_FALSE(holds("last:2", 3, 2));
  CHECK(holds("last:2,3", 3, 3));
  CHECK(holds("first:9", 5));
  CHECK_FALSE(holds("first", -1));  // in no layer of the decoder
  for (const char* wrong : {"first:0", "firs", "last:", "last:x", "first2", ",", "1,", "-1", "3-1", "1--2", "99999999999"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(holds(wrong, 0), ContainsSubstring("a test") && ContainsSubstring("layers = \""));
  }
}
