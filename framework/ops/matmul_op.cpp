#include "ops/matmul_op.hpp"

namespace kvant {

MatmulOp::~MatmulOp() = default;

DType MatmulOp::arithmetic(Arm) const { return DType::f32; }

void MatmulOp::prepare(StepContext&, Operand&, const Groups&) {}

Payload& Operand::add(uint32_t key) {
  require(key != 0, "A payload needs a key other than 0.");
  for (Payload& p : payload) {
    if (p.key == 0) {
      p.key = key;
      return p;
    }
  }
  fail("An operand carries at most {} payloads: more sites with different recipes read one tensor.", max_payloads);
}

}  // namespace kvant
