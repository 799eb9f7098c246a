// Where a test is about numbers that are none: floating-point traps are off while it lives (they are on in builds with KVANT_FPE).
#pragma once

#include <cfenv>

namespace kvant::test {

class Untrapped {
 public:
  Untrapped() : before_(fedisableexcept(FE_ALL_EXCEPT)) {}
  ~Untrapped() {
    std::feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(before_);
  }
  Untrapped(const Untrapped&) = delete;
  Untrapped& operator=(const Untrapped&) = delete;

 private:
  int before_;
};

}  // namespace kvant::test
