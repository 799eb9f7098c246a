#include "quant/calibrator.hpp"
#include "base/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

using namespace kvant;
using Catch::Matchers::ContainsSubstring;
using kvant::quant::parse_calibration;

TEST_CASE("calibrations are read with their arguments", "[quant]") {
  const auto absmax = parse_calibration("absmax");
  CHECK(absmax.measured);
  CHECK(absmax.factor == 1.0f);
  CHECK_FALSE(absmax.clips());
  CHECK(absmax.text == "absmax");
  CHECK(parse_calibration("AbsMax,0.5").clips());
  CHECK(parse_calibration("absmax, 1.5").factor == 1.5f);
  CHECK_FALSE(parse_calibration("absmax,1.5").clips());
  const auto fixed = parse_calibration("fixed,224");
  CHECK_FALSE(fixed.measured);
  CHECK(fixed.low == -224.0f);
  CHECK(fixed.high == 224.0f);
  CHECK(fixed.clips());
  CHECK(parse_calibration("fixed,-224,224").high == 224.0f);
  CHECK(parse_calibration("fixed,-1,3").low == -1.0f);
  CHECK(parse_calibration("fixed,-1,3").zero_point);
  CHECK_FALSE(parse_calibration("fixed,3").zero_point);
  const auto minmax = parse_calibration("minmax,0.9");
  CHECK(minmax.zero_point);
  CHECK(minmax.factor == 0.9f);
  CHECK(minmax.clips());
  CHECK_FALSE(parse_calibration("minmax").clips());
  for (const char* text : {"rms,7", "percentile,99.9", "mse", "mse,16", "mse,16,0.5"}) {
    CHECK(parse_calibration(text).search != nullptr);
    CHECK(parse_calibration(text).clips());
    CHECK(parse_calibration(text).measured);
  }
}

TEST_CASE("a malformed calibration is refused with what is accepted", "[quant]") {
  CHECK_THROWS_WITH(parse_calibration("absmax,0"), ContainsSubstring("absmax[,f]"));
  CHECK_THROWS_WITH(parse_calibration("absmax,1,2"), ContainsSubstring("2 arguments"));
  CHECK_THROWS_WITH(parse_calibration("absmax,x"), ContainsSubstring("\"x\""));
  CHECK_THROWS_WITH(parse_calibration("absmax,"), ContainsSubstring("finite number"));
  CHECK_THROWS_WITH(parse_calibration("absmax,inf"), ContainsSubstring("finite number"));
  CHECK_THROWS_WITH(parse_calibration("fixed"), ContainsSubstring("fixed,lo,hi"));
  CHECK_THROWS_WITH(parse_calibration("fixed,-1"), ContainsSubstring("not positive"));
  CHECK_THROWS_WITH(parse_calibration("fixed,1,2"), ContainsSubstring("must contain 0"));
  CHECK_THROWS_WITH(parse_calibration("fixed,0,0"), ContainsSubstring("non-empty"));
  CHECK_THROWS_WITH(parse_calibration(""), ContainsSubstring("names no method"));
  CHECK_THROWS_WITH(parse_calibration("abmax"), ContainsSubstring("absmax"));
  CHECK_THROWS_WITH(parse_calibration("minmax,0"), ContainsSubstring("minmax[,f]"));
  CHECK_THROWS_WITH(parse_calibration("minmax,1,2"), ContainsSubstring("2 arguments"));
  CHECK_THROWS_WITH(parse_calibration("rms"), ContainsSubstring("rms,f"));
  CHECK_THROWS_WITH(parse_calibration("rms,-1"), ContainsSubstring("The factor is -1"));
  CHECK_THROWS_WITH(parse_calibration("percentile"), ContainsSubstring("0 < p <= 100"));
  CHECK_THROWS_WITH(parse_calibration("percentile,101"), ContainsSubstring("101 is no percentage"));
  CHECK_THROWS_WITH(parse_calibration("percentile,0"), ContainsSubstring("0 is no percentage"));
  CHECK_THROWS_WITH(parse_calibration("mse,1"), ContainsSubstring("n from 2 to 256"));
  CHECK_THROWS_WITH(parse_calibration("mse,2.5"), ContainsSubstring("2.5 is no number of ranges"));
  CHECK_THROWS_WITH(parse_calibration("mse,8,1"), ContainsSubstring("0 < lowest < 1"));
  CHECK_THROWS_WITH(parse_calibration("mse,8,0.5,1"), ContainsSubstring("3 arguments"));
  for (const char* text : {"absmax,1,", ",", "fixed,nan", "percentiles,99", "absmax,1e99", "rms,", "mse,,"})
    CHECK_THROWS_AS(parse_calibration(text), UsageError);
}
