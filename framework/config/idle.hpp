// Settings that change nothing as the rest stands: told in the log, not refused, since an override on the command line may well
// have made them so.
#pragma once

#include "config/document.hpp"
#include "config/settings.hpp"

#include <string>
#include <vector>

namespace kvant::config {

/// One sentence for each key that was given another value than its default and that nothing reads under these settings, with its
/// place. Empty: every setting counts.
std::vector<std::string> find_idle(const Settings& settings, const Document& document);

}  // namespace kvant::config
