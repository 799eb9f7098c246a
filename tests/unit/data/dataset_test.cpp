#include "data/dataset.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <numeric>
#include <set>

using namespace kvant::data;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using kvant::UsageError;
using kvant::config::Settings;
using kvant::test::TemporaryFolder;
using Ids = std::vector<int32_t>;

namespace {

std::string paragraphs(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "Paragraph " + std::to_string(i) + std::string(static_cast<size_t>(i % 17), 'x') + "\n\n";
  return text;
}

Settings settings_for(const std::string& path) {
  Settings settings;
  settings.model.vocab_size = 256;
  settings.model.max_target_length = 32;
  settings.data.dataset_path = {path};
  settings.data.document_separator = "blank_line";
  settings.data.eval_fraction = 0.1;
  settings.data.global_batch_size = 4;
  settings.run.seed = 11;
  return settings;
}

Ids row_of(const Ids& values, int64_t row, int64_t seq) {
  return {values.begin() + row * seq, values.begin() + (row + 1) * seq};
}

bool equal(const Batch& a, const Batch& b) {
  return a.inputs == b.inputs && a.targets == b.targets && a.inputs_position == b.inputs_position &&
         a.inputs_segmentation == b.inputs_segmentation && a.targets_position == b.targets_position &&
         a.targets_segmentation == b.targets_segmentation && a.valid_targets == b.valid_targets;
}

}  // namespace

TEST_CASE("a row is a function of its position: not of batch size, ranks, or what was read before") {
  const TemporaryFolder folder;
  const Settings settings = settings_for(folder.write("text", paragraphs(200)));
  const auto one = make_dataset(settings), two = make_dataset(settings);
  const int64_t rows = one->train_rows();
  REQUIRE(rows > 8);
  Batch all, part;
  one->fill_train({}, rows + 5, all);  // past the end of the epoch
  CHECK(all.batch == rows + 5);
  int64_t valid = 0;
  for (int64_t row = rows + 4; row >= 0; --row) {  // backwards and one by one, from another dataset
    two->fill_train(two->advance({}, row), 1, part);
    CHECK(part.inputs == row_of(all.inputs, row, 32));
    CHECK(part.targets == row_of(all.targets, row, 32));
    CHECK(part.targets_segmentation == row_of(all.targets_segmentation, row, 32));
    valid += part.valid_targets;
  }
  CHECK(valid == all.valid_targets);
}

TEST_CASE("an epoch has every row once, the next one in another order") {
  const TemporaryFolder folder;
  const auto dataset = make_dataset(settings_for(folder.write("text", paragraphs(200))));
  const int64_t rows = dataset->train_rows();
  Batch first, second;
  dataset->fill_train({0, 0}, rows, first);
  dataset->fill_train({1, 0}, rows, second);
  CHECK(first.inputs != second.inputs);
  std::multiset<Ids> a, b;
  for (int64_t row = 0; row < rows; ++row) {
    a.insert(row_of(first.inputs, row, 32));
    b.insert(row_of(second.inputs, row, 32));
  }
  CHECK(a == b);
}

TEST_CASE("order and split follow data_shuffle_seed, or the run's seed where it is not given") {
  const TemporaryFolder folder;
  Settings settings = settings_for(folder.write("text", paragraphs(200)));
  const auto inputs = [&] {
    Batch batch;
    make_dataset(settings)->fill_train({}, 8, batch);
    return batch.inputs;
  };
  const Ids by_run_seed = inputs();
  settings.data.data_shuffle_seed = 11;
  settings.run.seed = 99;
  CHECK(inputs() == by_run_seed);
  settings.data.data_shuffle_seed = 12;
  CHECK(inputs() != by_run_seed);
}

TEST_CASE("held-out rows: disjoint from training, an order that never changes, each once, padding past the end") {
  const TemporaryFolder folder;
  const Settings settings = settings_for(folder.write("text", paragraphs(300)));
  const TextDataset dataset(settings.data, 1, 256, 32);
  CHECK(dataset.split().eval.size() == 30);
  const int64_t rows = dataset.eval_rows();
  Batch whole, again;
  dataset.fill_eval(0, rows + 3, whole);
  dataset.fill_eval(0, rows + 3, again);
  CHECK(equal(whole, again));
  CHECK(whole.valid_targets == dataset.packed_eval().valid_targets());
  for (int64_t row = rows; row < rows + 3; ++row) CHECK(row_of(whole.inputs_segmentation, row, 32) == Ids(32, 0));
  dataset.fill_eval(rows + 3, 2, again);
  CHECK(again.valid_targets == 0);

  std::set<std::string> held_out, trained;
  for (const int64_t d : dataset.split().eval)
    held_out.insert(dataset.tokenizer().decode(
        dataset.text().tokens.read(dataset.text().document_begin[d], dataset.text().document_size(d))));
  for (const int64_t d : dataset.split().train)
    trained.insert(dataset.tokenizer().decode(
        dataset.text().tokens.read(dataset.text().document_begin[d], dataset.text().document_size(d))));
  for (const auto& text : held_out) CHECK(trained.count(text) == 0);
}

TEST_CASE("the batch is filled without allocating again") {
  const TemporaryFolder folder;
  const auto dataset = make_dataset(settings_for(folder.write("text", paragraphs(200))));
  Batch batch;
  dataset->fill_train({}, 4, batch);
  const int32_t* const before = batch.targets_segmentation.data();
  dataset->fill_train({}, 4, batch);
  CHECK(batch.targets_segmentation.data() == before);
}

TEST_CASE("packing = false gives one document a row") {
  const TemporaryFolder folder;
  Settings settings = settings_for(folder.write("text", paragraphs(50)));
  settings.data.packing = false;
  Batch batch;
  make_dataset(settings)->fill_train({}, 40, batch);
  for (const int32_t segment : batch.inputs_segmentation) CHECK((segment == 0 || segment == 1));
  settings.data.packing = true;
  settings.data.packing_type = "best_fit";
  CHECK_THROWS_MATCHES(make_dataset(settings), UsageError, MessageMatches(ContainsSubstring("\"best_fit\"")));
}

TEST_CASE("synthetic data: the same batch every step, one segment, targets shifted by one") {
  Settings settings;
  settings.model.vocab_size = 1000;
  settings.model.max_target_length = 16;
  settings.data.dataset_type = "synthetic";
  settings.data.global_batch_size = 4;
  const auto dataset = make_dataset(settings);
  Batch first, later, part, eval;
  dataset->fill_train({}, 4, first);
  dataset->fill_train(dataset->advance({}, 7 * 4), 4, later);
  CHECK(equal(first, later));
  CHECK(first.valid_targets == 64);
  CHECK(first.inputs_segmentation == Ids(64, 1));
  CHECK(first.targets_segmentation == Ids(64, 1));
  for (int64_t row = 0; row < 4; ++row) {
    Ids positions(16);
    std::iota(positions.begin(), positions.end(), 0);
    CHECK(row_of(first.inputs_position, row, 16) == positions);
    const Ids inputs = row_of(first.inputs, row, 16), targets = row_of(first.targets, row, 16);
    CHECK(Ids(inputs.begin() + 1, inputs.end()) == Ids(targets.begin(), targets.end() - 1));
  }
  const std::set<int32_t> distinct(first.inputs.begin(), first.inputs.end());
  CHECK(distinct.size() > 50);
  for (const int32_t id : first.inputs) CHECK((id >= 0 && id < 1000));
  dataset->fill_train(dataset->advance({}, 2), 2, part);  // a second rank's half
  CHECK(part.inputs == Ids(first.inputs.begin() + 32, first.inputs.end()));
  dataset->fill_eval(0, 5, eval);
  CHECK(eval.valid_targets == 64);
  CHECK_THAT(dataset->describe(), ContainsSubstring("same 4 rows of 16 random tokens"));
  CHECK_THROWS_AS(SyntheticDataset(0, 1, 1), kvant::Error);
  CHECK_THROWS_AS(dataset->fill_eval(-1, 1, eval), kvant::Error);
}

TEST_CASE("text that is missing, empty or shorter than one sequence is refused with path and numbers") {
  const TemporaryFolder folder;
  CHECK_THROWS_MATCHES(make_dataset(settings_for((folder / "gone").string())), UsageError,
                       MessageMatches(ContainsSubstring((folder / "gone").string())));
  CHECK_THROWS_MATCHES(make_dataset(settings_for(folder.write("empty", ""))), UsageError,
                       MessageMatches(ContainsSubstring("is empty")));
  const std::string brief = folder.write("brief", std::string(32, 'x'));
  CHECK_THROWS_MATCHES(
      make_dataset(settings_for(brief)), UsageError,
      MessageMatches(ContainsSubstring(brief) && ContainsSubstring("has 32 tokens, fewer than the 33")));
  const std::string two = folder.write("two", std::string(20, 'x') + "\n\n" + std::string(20, 'y'));
  CHECK_THROWS_MATCHES(make_dataset(settings_for(two)), UsageError,
                       MessageMatches(ContainsSubstring("eval_fraction = 0.1 leaves")));
  CHECK_THROWS_MATCHES(make_dataset(settings_for(folder.write("one", std::string(100, 'x')))), UsageError,
                       MessageMatches(ContainsSubstring("one document")));
  Settings whole = settings_for(folder.write("just", std::string(33, 'x')));
  whole.data.eval_fraction = 0;
  whole.data.global_batch_size = 1;
  Batch batch;
  make_dataset(whole)->fill_train({}, 1, batch);
  CHECK(batch.valid_targets == 32);
}

TEST_CASE("settings that name no text, two texts or an unknown type are refused") {
  const TemporaryFolder folder;
  Settings settings = settings_for(folder.write("text", paragraphs(50)));
  settings.data.dataset_name = "gcide";
  CHECK_THROWS_MATCHES(make_dataset(settings), UsageError, MessageMatches(ContainsSubstring("Both dataset_name")));
  settings.data.dataset_name = "";
  settings.data.dataset_path.clear();
  CHECK_THROWS_MATCHES(make_dataset(settings), UsageError, MessageMatches(ContainsSubstring("neither is given")));
  settings.data.dataset_type = "tfds";
  CHECK_THROWS_MATCHES(make_dataset(settings), UsageError,
                       MessageMatches(ContainsSubstring("\"tfds\"") && ContainsSubstring("\"synthetic\"")));
}

TEST_CASE("documents without a next token are refused") {
  const TemporaryFolder folder;
  Settings settings = settings_for((folder / "letters").string());
  for (int i = 0; i < 60; ++i) folder.write("letters/" + std::to_string(100 + i), "x");
  settings.data.document_separator = "file";
  CHECK_THROWS_MATCHES(make_dataset(settings), UsageError, MessageMatches(ContainsSubstring("nothing to predict")));
}

TEST_CASE("a step that takes more rows than the text has is legal and said") {
  const TemporaryFolder folder;
  Settings settings = settings_for(folder.write("text", paragraphs(10)));
  settings.data.global_batch_size = 64;
  const std::string log_file = (folder / "log.txt").string();
  kvant::log::configure(kvant::log::Level::info, log_file);
  const auto dataset = make_dataset(settings);
  kvant::log::flush();
  CHECK_THAT(TemporaryFolder::read(log_file),
             ContainsSubstring("One step takes 64 rows") && ContainsSubstring("rows repeat"));
  CHECK_THAT(dataset->describe(), ContainsSubstring("10 documents") && ContainsSubstring("held out"));
}
