#include "quant/calibrator.hpp"

#include "base/error.hpp"
#include "config/suggest.hpp"
#include "plugin/guard.hpp"
#include "plugin/loader.hpp"

#include <charconv>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace kvant::quant {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// A finite number that takes the whole field.
float parse_number(std::string_view field, std::string_view whole) {
  const std::string_view digits = field.starts_with('+') ? field.substr(1) : field;
  float value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size() || !std::isfinite(value))
    refuse("The calibration \"{}\" holds \"{}\" where a finite number was expected (grammar: name[,number]…).", whole,
           field);
  return value;
}

/// What a plugin answers is checked before anything is computed with it.
void check_answer(const Calibration& c, std::string_view text, const plugin::Origin& origin) {
  if (!c.measured) {
    if (!(std::isfinite(c.low) && std::isfinite(c.high) && c.low < c.high && c.low <= 0 && c.high >= 0))
      refuse("{} answered the calibration \"{}\" with the range [{}, {}]; a finite one that holds 0 and is not empty is expected.",
             plugin::subject(origin), text, c.low, c.high);
  } else if (!(std::isfinite(c.factor) && c.factor > 0)) {
    refuse("{} answered the calibration \"{}\" with the factor {}; a finite number above 0 is expected.", plugin::subject(origin), text,
           c.factor);
  }
}

std::string describe(const Calibrator& calibrator, const plugin::Origin& origin) {
  return plugin::guard(origin, "describing itself", [&] { return calibrator.description(); });
}

/// A search runs in every step: what it throws there is named too.
class GuardedSearch final : public RangeSearch {
 public:
  GuardedSearch(std::shared_ptr<const RangeSearch> search, plugin::Origin origin) : search_(std::move(search)), origin_(std::move(origin)) {}
  void find(const Exec& exec, const RangeJob& job) const override {
    plugin::guard(origin_, "searching a range", [&] { search_->find(exec, job); });
  }
  bool takes_counts() const override {
    return plugin::guard(origin_, "describing its search", [&] { return search_->takes_counts(); });
  }

 private:
  std::shared_ptr<const RangeSearch> search_;
  plugin::Origin origin_;
};

}  // namespace

Calibration parse_calibration(std::string_view text) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto comma = std::min(text.find(',', begin), text.size());
    fields.push_back(trimmed(text.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  const std::string name = config::normalised(fields.front());
  if (name.empty()) refuse("The calibration \"{}\" names no method; a valid one is \"absmax\".", text);
  Calibrator& calibrator = plugin::use<Calibrator>(name);
  std::vector<float> arguments;
  for (std::size_t i = 1; i < fields.size(); ++i) arguments.push_back(parse_number(fields[i], text));
  const plugin::Origin& origin = plugin::Registry<Calibrator>::origin(name);
  Calibration calibration;
  try {
    calibration = plugin::call(origin, "calibrating", [&] { return calibrator.calibrate(arguments); });
  } catch (const UsageError& e) {
    refuse("The calibration \"{}\" is refused: {} Accepted: {}.", text, e.what(), describe(calibrator, origin));
  }
  check_answer(calibration, text, origin);
  calibration.text = text;
  if (calibration.search != nullptr) calibration.search = std::make_shared<GuardedSearch>(std::move(calibration.search), origin);
  return calibration;
}

}  // namespace kvant::quant
