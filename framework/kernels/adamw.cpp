#include "kernels/adamw.hpp"

#include "kernels/detail/lanes.hpp"
#include "kernels/detail/rows.hpp"

namespace kvant {

using namespace detail;

namespace {

KOKKOS_INLINE_FUNCTION void adamw_piece(float* p, float* g, float* m, float* v, AdamwHyper h, float factor, bool clear,
                                        long begin, long end) {
  const float keep1 = 1.0f - h.b1, keep2 = 1.0f - h.b2;
  const float inverse1 = 1.0f / h.bias_correction1, inverse2 = 1.0f / h.bias_correction2;
  const float b1 = h.b1, b2 = h.b2, eps = h.eps, eps_root = h.eps_root, lr = h.lr, decay = h.weight_decay;
  KVANT_INDEPENDENT
  for (long i = begin; i < end; ++i) {
    const float gradient = g[i] * factor;
    const float first = b1 * m[i] + keep1 * gradient;
    const float second = b2 * v[i] + keep2 * (gradient * gradient);
    m[i] = first;
    v[i] = second;
    const float step = first * inverse1 / (square_root(second * inverse2 + eps_root) + eps);
    p[i] -= lr * (step + decay * p[i]);
  }
  if (clear)
    for (long i = begin; i < end; ++i) g[i] = 0.0f;
}

void adamw_pieces(const Exec& exec, float* p, float* g, float* m, float* v, AdamwHyper h, const float* factor,
                  bool clear, Pieces pieces) {
  Kokkos::parallel_for(
      "kvant::adamw", Range(exec.space, 0, pieces.count()), KOKKOS_LAMBDA(const long i) {
        const Piece piece = pieces[i];
        adamw_piece(p, g, m, v, h, factor != nullptr ? *factor : 1.0f, clear, piece.begin, piece.end);
      });
}

}  // namespace

void adamw_step(const Exec& exec, TensorView p, TensorView g, TensorView m, TensorView v, const AdamwHyper& hyper,
                TensorView grad_factor, bool clear_gradient) {
  constexpr auto kernel = "adamw_step";
  const int64_t n = p.numel();
  require_vector(p, DType::f32, n, kernel, "p");
  require_vector(g, DType::f32, n, kernel, "g");
  require_vector(m, DType::f32, n, kernel, "m");
  require_vector(v, DType::f32, n, kernel, "v");
  require(hyper.bias_correction1 > 0.0f && hyper.bias_correction2 > 0.0f,
          "adamw_step: the bias corrections are {} and {}; they must be positive (steps count from 1).",
          hyper.bias_correction1, hyper.bias_correction2);
  const float* factor = optional_vector(grad_factor, 1, kernel, "grad_factor");
  adamw_pieces(exec, p.as<float>(), g.as<float>(), m.as<float>(), v.as<float>(), hyper, factor, clear_gradient,
               Pieces(1, n));
}

}  // namespace kvant
