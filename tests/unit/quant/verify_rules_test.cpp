// The recorded tables of rules through Kvant's matcher, and files that must not hold.
#include "quant/verify_rules.hpp"
#include "base/error.hpp"
#include "support/recorded_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace kvant;
using namespace kvant::quant;
using Catch::Matchers::ContainsSubstring;
using kvant::test::beyond;
using nlohmann::json;

namespace {

const std::string path = test::recorded_path("qwix_rules.json");

VerifiedFile with(const test::TemporaryFolder& folder, const std::function<void(json&)>& change) {
  json file = json::parse(test::bytes_of(path));
  change(file);
  return verify_rules(folder.write("wrong.json", file.dump()));
}

}  // namespace

TEST_CASE("recorded tables of rules hold", "[quant][golden]") {
  CHECK(is_json_file(path));
  CHECK_FALSE(is_json_file(test::recorded_path("qwix_convert.safetensors")));
  CHECK_FALSE(is_json_file(test::recorded_path("no_such_file")));
  const VerifiedFile v = verify_rules(path);
  CHECK(v.tensors.size() == 34 * 3 + 3);
  CHECK(beyond(v).empty());
}

TEST_CASE("a wrong entry of a table of rules does not hold", "[quant][golden]") {
  const test::TemporaryFolder folder;
  const auto fails = [&](const std::function<void(json&)>& change, const std::string& tensor) {
    const std::vector<std::string> after = beyond(with(folder, [&](json& f) { change(f["scenarios"][0]); }));
    INFO(tensor);
    CHECK(after.size() == 1);
    CHECK(std::ranges::count(after, tensor) == 1);
  };
  fails([](json& s) { s["matched"][2] = nullptr; }, "maxtext_int8/matched");
  fails([](json& s) { s["matched"][0] = 0; }, "maxtext_int8/matched");
  fails([](json& s) { s["quantized"][2] = 0; }, "maxtext_int8/quantized");
  fails([](json& s) { s["unused_rules"] = {0}; }, "maxtext_int8/unused_rules");
  fails([](json& s) { s["raises"] = {{"2", "never"}}; }, "maxtext_int8/raises/2");
}

TEST_CASE("a table of rules that describes itself wrongly is refused by name", "[quant][bad_input]") {
  const test::TemporaryFolder folder;
  const auto refuses = [&](const std::function<void(json&)>& change, const std::string& sentence) {
    CHECK_THROWS_WITH(with(folder, change), ContainsSubstring("wrong.json") && ContainsSubstring(sentence));
  };
  const auto scenario = [](const std::function<void(json&)>& change) { return [change](json& f) { change(f["scenarios"][0]); }; };
  refuses([](json& f) { f["kind"] = "recipes"; }, "recipes");
  refuses([](json& f) { f["format"] = "kvant-golden/2"; }, "kvant-golden/2");
  refuses([](json& f) { f.erase("calls"); }, "calls");
  refuses([](json& f) { f["calls"][0] = "root"; }, "not described");
  refuses([](json& f) { f["calls"].erase(0); }, "40 calls");
  refuses(scenario([](json& s) { s.erase("rules"); }), "rules");
  refuses(scenario([](json& s) { s["matched"].erase(0); }), "maxtext_int8");
  refuses(scenario([](json& s) { s["quantized"] = 1; }), "maxtext_int8");
  refuses(scenario([](json& s) { s["matched"][2] = 5; }), "5 is the index of none of 1 rules");
  refuses(scenario([](json& s) { s["matched"][2] = -1; }), "-1 is the index of none of 1 rules");
  refuses(scenario([](json& s) { s["unused_rules"] = {3}; }), "3 is the index of none of 1 rules");
  refuses(scenario([](json& s) { s["unused_rules"] = json::parse("[null]"); }), "null among its unused rules");
  refuses(scenario([](json& s) { s["raises"] = {{"0", "never"}}; }), "which no rule matches");
  refuses(scenario([](json& s) { s["raises"] = {{"null", "never"}}; }), "which no rule matches");
  refuses(scenario([](json& s) { s["raises"] = {{"999", "never"}}; }), "999");
  refuses(scenario([](json& s) { s["rules"][0]["module_path"] = "("; }), "no valid regular expression");
  refuses(scenario([](json& s) { s["rules"][0]["weight_qtype"] = 8; }), "not described");
  CHECK_THROWS_WITH(verify_rules(folder.write("wrong.json", "{ \"format\": ")), ContainsSubstring("wrong.json"));
  CHECK_THROWS_WITH(verify_rules(folder.write("wrong.json", "{\"format\":" + std::string(1'000'000, '['))), ContainsSubstring("wrong.json: The text nests 1000001 brackets"));
}
