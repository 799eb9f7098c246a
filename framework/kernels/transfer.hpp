// Between the host and execution memory. On a host backend both are plain copies.
#pragma once

#include "tensor/tensor.hpp"

namespace kvant {

struct Exec;

/// Copies x.bytes() from host memory into x; returns when the host buffer may be reused.
void upload(const Exec& exec, const void* host, const TensorView& x);
/// Copies x into host memory; waits for what was launched before. This is the fence that a step declares: one at its end.
void download(const Exec& exec, const TensorView& x, void* host);

}  // namespace kvant
