// The one translation unit with Kokkos Kernels in it: its headers take long to compile.
#include "kernels/vendor/kokkos_kernels.hpp"

#include "base/kokkos.hpp"
#include "kernels/detail/tile_pool.hpp"
#include "kernels/isa/isa.hpp"

#include <KokkosBlas3_gemm.hpp>

#include <dlfcn.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#if KVANT_KOKKOSKERNELS_HEADER_ONLY && defined(KOKKOSKERNELS_ENABLE_TPL_BLAS)
// The headers declare these and the library that comes with them defines them; without the library they are ours.
extern "C" void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*, const float*, const int*,
                       const float*, float*, const int*);
extern "C" void sgemv_(const char*, const int*, const int*, const float*, const float*, const int*, const float*, const int*, const float*, float*,
                       const int*);

namespace KokkosBlas::Impl {
template <>
void HostBlas<float>::gemm(const char transa, const char transb, KK_INT m, KK_INT n, KK_INT k, const float alpha, const float* a, KK_INT lda,
                           const float* b, KK_INT ldb, const float beta, float* c, KK_INT ldc) {
  sgemm_(&transa, &transb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}
template <>
void HostBlas<float>::gemv(const char trans, KK_INT m, KK_INT n, const float alpha, const float* a, KK_INT lda, const float* b, KK_INT ldb,
                           const float beta, float* c, KK_INT ldc) {
  sgemv_(&trans, &m, &n, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}
}  // namespace KokkosBlas::Impl
#endif

namespace kvant::vendor {
namespace {

using detail::GemmProblem;

#if defined(KOKKOSKERNELS_ENABLE_TPL_BLAS)
constexpr bool blas_on_host = true;

int64_t pieces(int64_t length, int64_t most) { return (length + most - 1) / most; }

struct TileCounts {
  int64_t down, across;
};

/// A rule of the shape alone: tiles of 512 x 1024, so that a BLAS packs each operand few times; smaller ones down to
/// 128 x 256 while a product has fewer than eight, so that a small product keeps more than one thread busy.
TileCounts tile_counts(int64_t m, int64_t n) {
  int64_t rows = 512, columns = 1024;
  while (pieces(m, rows) * pieces(n, columns) < 8 && (rows > 128 || columns > 256)) {
    if (rows > 128 && (m >= n || columns == 256)) rows /= 2;
    else columns /= 2;
  }
  return {pieces(m, rows), pieces(n, columns)};
}

/// Keeps a BLAS that uses OpenMP on the calling thread also where Kokkos runs the pool without a parallel region (one
/// thread of Kokkos, several of OpenMP); in a region it does so by itself.
class OneThread {
 public:
#ifdef _OPENMP
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }

 private:
  int before_;
#endif
};

struct BlasTiles {
  GemmProblem p;
  int64_t rows, columns;  // of a tile

  void operator()(int index, int) const {
    const int64_t across = pieces(p.n, columns);
    const int64_t i = index / across * rows, j = index % across * columns;
    const OneThread guard;
    // Row-major: the transposed product of the transposed operands.
    const float* a = static_cast<const float*>(p.a.data) + (p.a.trans ? i : i * p.a.ld);
    const float* b = static_cast<const float*>(p.b.data) + (p.b.trans ? j * p.b.ld : j);
    KokkosBlas::Impl::HostBlas<float>::gemm(p.b.trans ? 'T' : 'N', p.a.trans ? 'T' : 'N', static_cast<int>(std::min(columns, p.n - j)),
                                            static_cast<int>(std::min(rows, p.m - i)), static_cast<int>(p.k), 1.0f, b, static_cast<int>(p.b.ld), a,
                                            static_cast<int>(p.a.ld), p.c.add ? 1.0f : 0.0f, static_cast<float*>(p.c.data) + i * p.c.ld + j,
                                            static_cast<int>(p.c.ld));
  }
};

void blas_tiles(const Exec& exec, const GemmProblem& p, Arena& workspace) {
  const auto [down, across] = tile_counts(p.m, p.n);
  detail::run_pool(exec, "kvant::gemm_blas", down * across, BlasTiles{p, pieces(p.m, down), pieces(p.n, across)}, workspace);
}
#else
constexpr bool blas_on_host = false;
void blas_tiles(const Exec&, const GemmProblem&, Arena&) {}
#endif

template <class T>
using Rows = Kokkos::View<T**, Kokkos::LayoutRight, Kokkos::Device<ExecSpace, MemSpace>, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// Rows of `columns` elements, ld apart.
template <class T>
Rows<T> strided(T* data, int64_t rows, int64_t columns, int64_t ld) {
  return Kokkos::subview(Rows<T>(data, static_cast<std::size_t>(rows), static_cast<std::size_t>(ld)), Kokkos::ALL,
                         std::make_pair(int64_t{0}, columns));
}

template <bool on_host>
void whole_product(const Exec& exec, const GemmProblem& p) {
  if constexpr (!on_host) {
    const auto a = strided(static_cast<const float*>(p.a.data), p.a.trans ? p.k : p.m, p.a.trans ? p.m : p.k, p.a.ld);
    const auto b = strided(static_cast<const float*>(p.b.data), p.b.trans ? p.n : p.k, p.b.trans ? p.k : p.n, p.b.ld);
    const auto c = strided(static_cast<float*>(p.c.data), p.m, p.n, p.c.ld);
    KokkosBlas::gemm(exec.space, p.a.trans ? "T" : "N", p.b.trans ? "T" : "N", 1.0f, a, b, p.c.add ? 1.0f : 0.0f, c);
  }
}

template <class Function>
Function symbol(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

std::string openblas_core() {
  const auto core = symbol<char* (*)()>("openblas_get_corename");
  return core == nullptr ? std::string() : core();
}

}  // namespace

bool kokkos_kernels_takes(const GemmProblem& p) {
  // n = 1: KokkosBlas hands it to gemv with vectors that it takes for dense. k = 0 is a store, not a product.
  return p.grouping == detail::Grouping::none && !p.scaled() && p.a.type == DType::f32 && p.b.type == DType::f32 && p.c.type == DType::f32 &&
         p.n > 1 && p.k > 0;
}

void kokkos_kernels_gemm(const Exec& exec, const GemmProblem& p, Arena& workspace) {
  if (p.m == 0 || p.n == 0) return;
  if constexpr (exec_is_host && blas_on_host)
    blas_tiles(exec, p, workspace);
  else
    whole_product<exec_is_host && blas_on_host>(exec, p);
}

std::string blas_name() {
  if (!(exec_is_host && blas_on_host)) return "KokkosBlas";
  const std::string core = openblas_core();
  return core.empty() ? "BLAS" : "OpenBLAS " + core;
}

std::string blas_remark() {
  const std::string core = openblas_core();
  if (core.empty() || !exec_is_host) return {};
  const bool wide = core == "SkylakeX" || core == "Cooperlake" || core == "Sapphirerapids";
  const bool middle = wide || core == "Haswell" || core == "Zen" || core == "Excavator";
  const bool fits = cpu_has(Isa::avx512) ? wide : cpu_has(Isa::avx2) ? middle : true;
  if (fits) return {};
  return "OpenBLAS runs its kernels for " + core + ", which do not use all of this processor; set the environment variable OPENBLAS_CORETYPE to " +
         (cpu_has(Isa::avx512) ? "SKYLAKEX" : "HASWELL") + ".";
}

}  // namespace kvant::vendor
