// The number formats that Kvant has, by the names that a configuration and other libraries call them (quant/codec.hpp
// has the table). OCP and FNUZ formats are different types: nothing reads the bytes of one as the other.
#pragma once

#include "numerics/e8m0.hpp"
#include "numerics/float.hpp"
#include "numerics/int.hpp"
#include "numerics/nf4.hpp"

namespace kvant {

using E4M3 = Float<4, 3, FloatVariant::ieee>;
using E3M4 = Float<3, 4, FloatVariant::ieee>;
using E2M1 = Float<2, 1, FloatVariant::finite>;
using E4M3fnuz = Float<4, 3, FloatVariant::fnuz>;
using E5M2fnuz = Float<5, 2, FloatVariant::fnuz>;
using E4M3b11fnuz = Float<4, 3, FloatVariant::fnuz, 11>;

}  // namespace kvant
