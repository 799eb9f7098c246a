// Every file of configs/ is read without a complaint; the models have the sizes that are published.
#include "base/error.hpp"
#include "config/document.hpp"
#include "config/settings.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <map>
#include <string>

using namespace kvant::config;
namespace fs = std::filesystem;

namespace {

Settings read(const fs::path& file) {
  Document document = Document::read(file.string());
  const Settings settings = read_settings(document);
  document.finish();
  return settings;
}

/// Parameters without multi-token prediction, from the shapes alone.
int64_t parameters_of(const ModelSettings& m) {
  const int64_t e = m.base_emb_dim, h = m.base_num_query_heads, qk = m.qk_head_dim(), r = m.kv_lora_rank;
  const int64_t query = m.q_lora_rank == 0 ? e * h * qk : e * m.q_lora_rank + m.q_lora_rank + m.q_lora_rank * h * qk;
  const int64_t attention =
      query + e * (r + m.qk_rope_head_dim) + r + r * h * (m.qk_nope_head_dim + m.v_head_dim) + h * m.v_head_dim * e;
  const int64_t moe = e * m.num_experts + (m.routed_bias ? m.num_experts : 0) +
                      3 * e * m.base_moe_mlp_dim * (m.num_experts + m.shared_experts);
  return m.base_num_decoder_layers * (attention + 2 * e) + m.first_num_dense_layers * 3 * e * m.base_mlp_dim +
         m.num_moe_layers() * moe + e + (m.logits_via_embedding ? 1 : 2) * e * m.vocab_size;
}

}  // namespace

TEST_CASE("every file of configs/ is read and fits together") {
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(KVANT_SOURCE_DIR) / "configs")) {
    if (!entry.is_regular_file()) continue;
    INFO(entry.path());
    REQUIRE(entry.path().extension() == ".toml");
    ++count;
    const Settings settings = read(entry.path());
    CHECK_NOTHROW(check_model(settings));
    const bool whole_run = entry.path().parent_path().filename() == "configs";
    if (whole_run) CHECK_NOTHROW(check(settings));
  }
  CHECK(count >= 10);
}

TEST_CASE("the models have the published numbers of parameters") {
  const std::map<std::string, int64_t> published = {
      {"deepseek3-tiny", 33'706'448},
      {"deepseek3-test", 15'851'427'840},
      {"deepseek2-16b", 15'706'484'224},
      {"deepseek3-671b", 671'026'419'200},
  };
  for (const auto& [name, count] : published) {
    INFO(name);
    CHECK(parameters_of(read(fs::path(KVANT_SOURCE_DIR) / "configs/models" / (name + ".toml")).model) == count);
  }
}

TEST_CASE("the quick start stands alone and can be split over eight ranks") {
  const fs::path file = fs::path(KVANT_SOURCE_DIR) / "configs/quickstart.toml";
  const Settings s = read(file);
  CHECK(s.model.q_lora_rank > 0);
  CHECK(s.model.num_experts % 8 == 0);
  CHECK(sequences_per_step(s.data) % 8 == 0);
  CHECK(s.quant.quantization == "int8_full");
  CHECK(s.quant.quantize_mtp);
  CHECK(s.quant.quantize_logits_proj);
  CHECK_NOTHROW(check(s, nullptr, 8));

  Document document = Document::read(file.string());
  read_settings(document);
  for (const KeyRecord& record : document.keys()) CHECK((!record.given || record.place.file == file.string()));
  CHECK(s.data.dataset_path.empty());
  CHECK(s.data.tokenizer_path.empty());
}

TEST_CASE("the quick start in other types differs in [quant] alone") {
  const fs::path folder = fs::path(KVANT_SOURCE_DIR) / "configs";
  Document first = Document::read((folder / "quickstart.toml").string());
  read_settings(first);
  for (const char* name : {"quickstart-f32.toml", "quickstart-fp8_full.toml"}) {
    Document other = Document::read((folder / name).string());
    read_settings(other);
    for (size_t i = 0; i < first.keys().size(); ++i) {
      if (first.keys()[i].section == "quant") continue;
      CHECK(first.keys()[i].value == other.keys()[i].value);
    }
  }
}
