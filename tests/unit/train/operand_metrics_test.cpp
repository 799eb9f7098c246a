// Metrics of quantized operands: what is counted, and under which names.
#include "train/operand_metrics.hpp"
#include "support/captured_stream.hpp"
#include "support/quant_problem.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>

using namespace kvant;
using kvant::test::QuantProblem;
using kvant::test::types;

namespace {

double value(const train::Row& row, const std::string& name) {
  const auto it = std::find_if(row.begin(), row.end(), [&](const auto& field) { return field.first == "quant/test/site/" + name; });
  REQUIRE(it != row.end());
  return it->second;
}

train::Row run(QuantProblem& p, train::OperandMetrics& metrics) {
  StepContext ctx = p.context();
  ctx.watch = &metrics;
  p.site.op_ref().prepare(ctx, p.operand, p.groups);
  p.site.op_ref().forward(ctx, p.operand, p.groups, p.y, Write::overwrite);
  p.site.op_ref().backward(ctx, p.operand, p.groups, p.g(), p.dx, Write::overwrite);
  p.exec.space.fence();
  train::Row row;
  metrics.take(row);
  return row;
}

}  // namespace

TEST_CASE("largest value, scale, saturated and vanished shares of each operand", "[train][metrics]") {
  auto rule = types("int8", "int8", "int8");
  rule.act_calibration = "fixed,2";
  QuantProblem p(2, 4, 3, rule);
  // x in steps of 2/127: 3 and -3 saturate, 0.001 vanishes, 0 is 0 all the same.
  p.set({3, -3, 0.001f, 0, 1, 1, 1, 1}, std::vector<float>(12, 0.5f), {1, 1, 1, 1e-6f, 1, 1});
  train::OperandMetrics metrics;
  const train::Row row = run(p, metrics);
  CHECK(value(row, "dot_general0/act/max") == 3.0);
  CHECK(value(row, "dot_general0/act/scale") == static_cast<double>(2.0f / 127.0f));
  CHECK(value(row, "dot_general0/act/saturated") == 2.0 / 8);
  CHECK(value(row, "dot_general0/act/zeroed") == 1.0 / 7);
  CHECK(value(row, "dot_general0/weight/max") == 0.5);
  CHECK(value(row, "dot_general0/weight/saturated") == 0.0);  // the largest entry is the largest code, and no more
  CHECK(value(row, "dot_general0/grad_input/zeroed") == 1.0 / 6);
  CHECK(value(row, "dot_general0/grad_weight/zeroed") == 1.0 / 6);
  CHECK(row.size() == 16);
  train::Row again;
  metrics.take(again);
  CHECK(again.empty());  // nothing was quantized since
}

TEST_CASE("gradients of experts are counted by expert, rows of no expert not at all", "[train][metrics]") {
  QuantProblem p(5, 4, 2, types("int8", "int8", "int8"), {0, 2, 2, 4});
  p.set(std::vector<float>(20, 1.0f), std::vector<float>(24, 0.5f), {1, 1, 1e-6f, 1, 1e-6f, 1e-6f, 1e-6f, 1e-6f, 9, 9});
  train::OperandMetrics metrics;
  const train::Row row = run(p, metrics);
  CHECK(value(row, "gmm/grad_weight/zeroed") == 1.0 / 8);  // the second expert's are small, with a scale of their own
  CHECK(value(row, "gmm/grad_input/saturated") == 0.0);
}
