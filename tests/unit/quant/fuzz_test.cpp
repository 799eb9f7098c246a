// Strings that nobody would write: configurations, expressions, layers, calibrations. Whatever comes, it is taken or refused
// with a sentence. KVANT_FUZZ_INPUTS says how many of each (default 1000; 100000 under the sanitizers takes minutes).
#include "base/error.hpp"
#include "base/rng.hpp"
#include "config/settings.hpp"
#include "quant/calibrator.hpp"
#include "quant/plan.hpp"
#include "quant/python_regex.hpp"
#include "quant/user_rules.hpp"
#include "support/quant_sites.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <string>
#include <vector>

using namespace kvant;
using namespace kvant::quant;

namespace {

uint64_t inputs() {
  const char* text = std::getenv("KVANT_FUZZ_INPUTS");
  return text == nullptr ? 1000 : std::strtoull(text, nullptr, 10);
}

class Draw {
 public:
  Draw(uint64_t stream, uint64_t input) : stream_(stream), input_(input) {}
  uint32_t below(std::size_t bound) { return philox(20260901, stream_, input_ * 4096 + count_++).word[0] % static_cast<uint32_t>(bound); }
  const std::string& of(const std::vector<std::string>& words) { return words[below(words.size())]; }
  char byte() { return static_cast<char>(below(8) == 0 ? below(256) : 32 + below(95)); }

  /// A few words in a row, with a slip now and then: a byte changed, taken away or put in.
  std::string text(const std::vector<std::string>& words, std::size_t most) {
    std::string out;
    for (std::size_t n = below(most) + 1; n > 0; --n) out += below(12) == 0 ? std::string(1, byte()) : of(words);
    for (uint32_t slips = below(3); slips > 0 && !out.empty(); --slips) {
      const std::size_t at = below(out.size());
      const uint32_t kind = below(3);
      if (kind == 0) out[at] = byte();
      if (kind == 1) out.erase(at, 1);
      if (kind == 2) out.insert(at, 1, byte());
    }
    return out;
  }

 private:
  uint64_t stream_, input_, count_ = 0;
};

/// Runs it; anything but a sentence of refusal is a failure.
template <class F>
bool taken(F&& run) {
  try {
    run();
    return true;
  } catch (const UsageError& error) {
    if (std::string(error.what()).empty()) FAIL("an empty sentence");
    return false;
  }
}

const std::vector<std::string> pieces = {".*",  "decoder",  "/",    "(",   ")",   "[",     "]",     "?",   "*",      "+",    "{2,3}", "|",
                                         "^",   "$",        "\\",   "\\w", "\\d", "(?!",   "(?<=",  "(?:", "(?P<n>", "(?P=n)", "(?i)",  "\\1",
                                         "a",   "[^/]+",    "layers", ".",   "wq_b", "(?#", "{,3}",  "-",   "\\b",    "moe",  "(?x)",  "\xc3\xa9"};
const std::vector<std::string> paths = {"", "decoder/moe_layers/self_attention/wq_b", "decoder/logits_dense", "aaaaaaaaaaaaaaaaaaaaaaaa",
                                        "mtp_block/mtp_layer_1/projection"};

}  // namespace

TEST_CASE("random expressions are matched or refused", "[quant][fuzz]") {
  uint64_t accepted = 0;
  for (uint64_t i = 0; i < inputs(); ++i) {
    Draw draw(1, i);
    const std::string pattern = draw.text(pieces, 8);
    accepted += taken([&] {
      const PythonRegex regex(pattern);
      for (const std::string& path : paths) (void)regex.matches(path);
    });
  }
  CHECK(accepted > 0);
  CHECK((accepted < inputs() || inputs() < 100));
}

TEST_CASE("random lists of layers are read or refused", "[quant][fuzz]") {
  const std::vector<std::string> words = {"0", "12", "-", ",", "first", "last", ":", " ", "2", "99999999999", ":1", "3-7"};
  uint64_t accepted = 0;
  for (uint64_t i = 0; i < inputs(); ++i) {
    Draw draw(2, i);
    Rule rule;
    rule.layers = draw.text(words, 6);
    rule.origin = "a test";
    accepted += taken([&] { (void)RuleMatcher(rule).matches("decoder/x", "gmm", {3, 3, 9}); });
  }
  CHECK(accepted > 0);
}

TEST_CASE("random calibrations are read or refused", "[quant][fuzz]") {
  const std::vector<std::string> words = {",", ",", "0.9", "1", "-4", "4", "1e308", "1e-46", "nan", "inf", " ", "+2", "0x1", "absmax", "fixed", "--1", "."};
  uint64_t accepted = 0;
  for (uint64_t i = 0; i < inputs(); ++i) {
    Draw draw(3, i);
    // The name is right: one that is not is looked for among all plugins, which reads files.
    const std::string text = (draw.below(2) == 0 ? "absmax" : "fixed") + std::string(draw.below(8) == 0 ? "" : ",") + draw.text(words, 5);
    const std::string name = text.substr(0, text.find(','));
    if (name != "absmax" && name != "fixed") continue;
    accepted += taken([&] { (void)parse_calibration(text); });
  }
  CHECK(accepted > 0);
}

TEST_CASE("random configurations are read or refused, and so are the rules in them", "[quant][fuzz]") {
  const std::vector<std::string> lines = {
      "[[quant.rules]]\n", "[quant]\n", "[quant.rules]\n", "[quant.rules.additional_qt_config]\n", "[run]\n", "steps = 3\n",
      "module_path = \".*/wo\"\n", "module_path = \"(\"\n", "op_names = [\"gmm\"]\n", "op_names = 3\n", "layers = \"0-1,last\"\n", "layers = \"x\"\n",
      "weight_qtype = \"int8\"\n", "act_qtype = \"int8\"\n", "bwd_qtype = \"int8\"\n", "weight_qtype = \"int9\"\n", "act_qtype = \"mxfp8\"\n",
      "tile_size = 32\n", "tile_size = 0.25\n", "tile_size = { 0 = 16, 1 = 16 }\n", "tile_size = -1\n", "tile_size = [1]\n",
      "weight_calibration_method = \"fixed,1\"\n", "bwd_calibration_method = \"absmax,0.5\"\n", "act_static_scale = true\n", "act_batch_axes = [0, 1]\n",
      "bwd_stochastic_rounding = \"uniform\"\n", "channelwise_noise_axes = [7]\n", "wgrad_transform = \"hadamard16\"\n", "drhs_tile_size = 3\n",
      "optional = true\n", "quantization = \"int8_full\"\n", "quantization = \"rules\"\n", "dtype = \"int8\"\n", "patterns = [\".*\"]\n", "qwix_compat = \"ieee\"\n",
      "unquantized_modules = [\"wo\", \"\"]\n", "quantize_mtp = true\n", "rules = [{weight_qtype = \"int4\"}, 3]\n", "a.b = 1\n", "\xff", "= ", "\"", "]", "\n"};
  test::QuantSites sites;
  uint64_t accepted = 0;
  for (uint64_t i = 0; i < inputs(); ++i) {
    Draw draw(4, i);
    // Without a slip here and there hardly any would get past the parser.
    std::string text = "model = {vocab_size = 256, max_target_length = 32, base_emb_dim = 64, base_num_query_heads = 4, base_num_decoder_layers = 2}\n";
    if (draw.below(2) == 0) {
      text += draw.text(lines, 12);
    } else {
      text += "[[quant.rules]]\noptional = true\n";
      for (uint32_t n = draw.below(6); n > 0; --n) text += draw.of(lines);
    }
    accepted += taken([&] {
      config::Document document = config::Document::parse(text, "fuzz.toml");
      const config::Settings settings = config::read_settings(document);
      document.finish_outside("quant.plugins");
      (void)document.resolved();
      if (settings.quant.scheme() == "int8_full" || settings.quant.scheme().empty()) (void)Plan::resolve(sites.table, settings.quant).table();
    });
  }
  CHECK(accepted > 0);
}
