#include "quant/calibrator.hpp"

#include "base/error.hpp"
#include "config/suggest.hpp"
#include "plugin/loader.hpp"

#include <charconv>
#include <cmath>
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
  try {
    Calibration calibration = calibrator.calibrate(arguments);
    calibration.text = text;
    return calibration;
  } catch (const std::exception& e) {
    refuse("The calibration \"{}\" is refused: {} Accepted: {}.", text, e.what(), calibrator.description());
  }
}

}  // namespace kvant::quant
