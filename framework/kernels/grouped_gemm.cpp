#include "kernels/grouped_gemm.hpp"

#include "base/kokkos.hpp"
#include "kernels/detail/element_gemm.hpp"
#include "kernels/detail/float_gemm.hpp"
#include "kernels/detail/gemm_problem.hpp"

namespace kvant {
namespace {

void run(const Exec& exec, const detail::GemmProblem& p, Arena& workspace) {
  if (exec_is_host) return detail::float_gemm_on_host(exec, p, workspace);
  detail::element_gemm(exec, p);
}

}  // namespace

void grouped_gemm(const Exec& exec, bool trans_b, const TensorView& a, const TensorView& b, const TensorView& offsets, const TensorView& c,
                  Write mode, Arena& workspace) {
  constexpr const char* operation = "grouped_gemm";
  const detail::Matrix ma = detail::as_matrix(a, operation, "a"), mb = detail::as_group_matrix(b, operation, "b"),
                       mc = detail::as_matrix(c, operation, "c");
  detail::require_float(ma.type, operation, "a");
  detail::require_float(mb.type, operation, "b");
  detail::require_float(mc.type, operation, "c");
  require(ma.rows == mc.rows && (trans_b ? mb.cols : mb.rows) == ma.cols && (trans_b ? mb.rows : mb.cols) == mc.cols,
          "grouped_gemm: a {} and b {}{} do not make c {}.", to_string(a.shape), to_string(b.shape), trans_b ? " transposed" : "", to_string(c.shape));
  detail::GemmProblem p;
  p.grouping = detail::Grouping::rows;
  p.m = mc.rows;
  p.n = mc.cols;
  p.k = ma.cols;
  p.groups = b.shape[0];
  p.offsets = detail::group_offsets(offsets, p.groups, operation);
  p.a = {ma.data, ma.type, ma.ld, false, 0};
  p.b = {mb.data, mb.type, mb.ld, trans_b, b.stride[0]};
  p.c = {mc.data, mc.type, mc.ld, 0, mode == Write::accumulate};
  run(exec, p, workspace);
}

void grouped_gemm_wgrad(const Exec& exec, const TensorView& a, const TensorView& dy, const TensorView& offsets, const TensorView& dw, Write mode,
                        Arena& workspace) {
  constexpr const char* operation = "grouped_gemm_wgrad";
  const detail::Matrix ma = detail::as_matrix(a, operation, "a"), mdy = detail::as_matrix(dy, operation, "dy"),
                       mdw = detail::as_group_matrix(dw, operation, "dw");
  detail::require_float(ma.type, operation, "a");
  detail::require_float(mdy.type, operation, "dy");
  detail::require_float(mdw.type, operation, "dw");
  require(ma.rows == mdy.rows && ma.cols == mdw.rows && mdy.cols == mdw.cols, "grouped_gemm_wgrad: a {} transposed and dy {} do not make dw {}.",
          to_string(a.shape), to_string(dy.shape), to_string(dw.shape));
  detail::GemmProblem p;
  p.grouping = detail::Grouping::contraction;
  p.m = ma.cols;
  p.n = mdy.cols;
  p.k = ma.rows;
  p.groups = dw.shape[0];
  p.offsets = detail::group_offsets(offsets, p.groups, operation);
  p.a = {ma.data, ma.type, ma.ld, true, 0};
  p.b = {mdy.data, mdy.type, mdy.ld, false, 0};
  p.c = {mdw.data, mdw.type, mdw.ld, dw.stride[0], mode == Write::accumulate};
  run(exec, p, workspace);
}

}  // namespace kvant
