#include "kernels/gemm.hpp"

#include "base/kokkos.hpp"
#include "kernels/detail/element_gemm.hpp"
#include "kernels/detail/float_gemm.hpp"
#include "kernels/detail/gemm_problem.hpp"
#include "kernels/isa/isa.hpp"
#include "kernels/vendor/kokkos_kernels.hpp"

#include <cstdlib>

namespace kvant {
namespace {

constexpr const char* operation = "gemm";

detail::GemmProblem describe_problem(bool trans_a, bool trans_b, const TensorView& a, const TensorView& b, const TensorView& c, Write mode) {
  const detail::Matrix ma = detail::as_matrix(a, operation, "a"), mb = detail::as_matrix(b, operation, "b"), mc = detail::as_matrix(c, operation, "c");
  detail::require_float(ma.type, operation, "a");
  detail::require_float(mb.type, operation, "b");
  detail::require_float(mc.type, operation, "c");
  detail::GemmProblem p;
  p.m = mc.rows;
  p.n = mc.cols;
  p.k = trans_a ? ma.rows : ma.cols;
  require((trans_a ? ma.cols : ma.rows) == p.m && (trans_b ? mb.cols : mb.rows) == p.k && (trans_b ? mb.rows : mb.cols) == p.n,
          "gemm: a {}{} and b {}{} do not make c {}.", to_string(a.shape), trans_a ? " transposed" : "", to_string(b.shape),
          trans_b ? " transposed" : "", to_string(c.shape));
  p.a = {ma.data, ma.type, ma.ld, trans_a, 0};
  p.b = {mb.data, mb.type, mb.ld, trans_b, 0};
  p.c = {mc.data, mc.type, mc.ld, 0, mode == Write::accumulate};
  return p;
}

}  // namespace

FloatGemm float_gemm_from(const char* wanted) {
  if (wanted != nullptr && *wanted != '\0') {
    if (std::string(wanted) == "tiles") return FloatGemm::tiles;
    if (std::string(wanted) == "kokkos_kernels") return FloatGemm::kokkos_kernels;
    refuse("The environment variable KVANT_FLOAT_GEMM is \"{}\"; it takes tiles and kokkos_kernels.", wanted);
  }
  return exec_is_host && chosen_isa() != Isa::portable ? FloatGemm::tiles : FloatGemm::kokkos_kernels;
}

FloatGemm chosen_float_gemm() {
  static const FloatGemm chosen = float_gemm_from(std::getenv("KVANT_FLOAT_GEMM"));
  return chosen;
}

std::string describe(FloatGemm body) {
  return body == FloatGemm::tiles ? "tiles (" + std::string(name_of(chosen_isa())) + ")" : "Kokkos Kernels on " + vendor::blas_name();
}

std::string remark(FloatGemm body) { return body == FloatGemm::kokkos_kernels ? vendor::blas_remark() : std::string(); }

void gemm_by(FloatGemm body, const Exec& exec, bool trans_a, bool trans_b, const TensorView& a, const TensorView& b, const TensorView& c,
             Write mode, Arena& workspace) {
  const detail::GemmProblem p = describe_problem(trans_a, trans_b, a, b, c, mode);
  if (body == FloatGemm::kokkos_kernels && vendor::kokkos_kernels_takes(p)) return vendor::kokkos_kernels_gemm(exec, p, workspace);
  if (exec_is_host) return detail::float_gemm_on_host(exec, p, workspace);
  detail::element_gemm(exec, p);
}

void gemm(const Exec& exec, bool trans_a, bool trans_b, const TensorView& a, const TensorView& b, const TensorView& c, Write mode,
          Arena& workspace) {
  gemm_by(chosen_float_gemm(), exec, trans_a, trans_b, a, b, c, mode, workspace);
}

}  // namespace kvant
