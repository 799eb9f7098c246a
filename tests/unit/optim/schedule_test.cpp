#include "optim/schedule.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

using Catch::Matchers::WithinRel;
using kvant::config::OptimizerSettings;
using kvant::optim::learning_rate;

TEST_CASE("the schedule of the recorded trajectories: 6 steps of warm-up, then a cosine to a tenth over 54") {
  OptimizerSettings o;
  o.learning_rate = 3e-3;
  CHECK(learning_rate(o, 60, 0) == 0.0);
  CHECK_THAT(learning_rate(o, 60, 3), WithinRel(1.5e-3, 1e-12));
  CHECK_THAT(learning_rate(o, 60, 6), WithinRel(3e-3, 1e-12));
  CHECK_THAT(learning_rate(o, 60, 59), WithinRel(3e-4, 1e-12));
  CHECK(learning_rate(o, 60, 60) == 0.0);
}

TEST_CASE("wsd holds, then falls; constant stays") {
  OptimizerSettings o;
  o.learning_rate = 1.0;
  o.warmup_steps_fraction = 0.0;
  o.lr_schedule_type = "wsd";
  CHECK(learning_rate(o, 100, 89) == 1.0);
  CHECK(learning_rate(o, 100, 90) == 1.0);
  CHECK_THAT(learning_rate(o, 100, 99), WithinRel(0.1, 1e-12));
  CHECK_THAT(learning_rate(o, 100, 93), WithinRel(0.7, 1e-12));
  o.lr_schedule_type = "constant";
  CHECK(learning_rate(o, 100, 99) == 1.0);
  o.learning_rate_schedule_steps = 50;
  CHECK(learning_rate(o, 100, 50) == 0.0);
}
