// Every kernel of a row, an element or a token gives the same bits on one and on two threads.
#include "kernels/adamw.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/load_balance.hpp"
#include "kernels/mla_pack.hpp"
#include "kernels/permute.hpp"
#include "kernels/reduce.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/router.hpp"
#include "kernels/swiglu.hpp"
#include "support/kernel_case.hpp"
#include "support/threads.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <map>

namespace {

using namespace kvant;
using namespace kvant::test;

using Outputs = std::map<std::string, std::string>;

constexpr long T = 333, D = 1100, X = 16, K = 3;  // rows and columns that no chunk divides

Stored random(DType dtype, const Shape& shape, uint64_t seed) {
  return {dtype, shape, random_values(count(shape), seed, 3.0)};
}

void run_norms(const Exec& exec, DType dtype, Outputs& out) {
  Arena workspace("test");
  const Stored a = random(dtype, {T, D}, 1), b = random(dtype, {T, D}, 2), scale = random(DType::f32, {D}, 3),
               dy = random(dtype, {T, D}, 4);
  const Stored sum(dtype, {T, D}), y(dtype, {T, D}), dx(dtype, {T, D}), rstd(DType::f32, {T}), absmax(DType::f32, {T}),
      dscale = random(DType::f32, {D}, 5);
  rmsnorm_forward(exec, a, scale, 1e-6f, y, rstd);
  out["rmsnorm y"] = y.bytes();
  add_rmsnorm_forward(exec, a, b, sum, scale, 1e-6f, y, rstd, absmax);
  rmsnorm_backward(exec, sum, scale, rstd, dy, dx, Write::overwrite, dscale, workspace);
  out["add_rmsnorm y"] = y.bytes();
  out["add_rmsnorm absmax"] = absmax.bytes();
  out["rmsnorm dx"] = dx.bytes();
  out["rmsnorm dscale"] = dscale.bytes();
}

void run_elements(const Exec& exec, DType dtype, Outputs& out) {
  Arena workspace("test");
  const Stored a = random(dtype, {T, D}, 1), b = random(dtype, {T, D}, 2), dy = random(dtype, {T, D}, 3);
  const Stored y(dtype, {T, D}), da(dtype, {T, D}), db(dtype, {T, D}), absmax_row(DType::f32, {T}),
      scalar(DType::f32, {1});
  swiglu_forward(exec, a, b, y, absmax_row);
  swiglu_backward(exec, a, b, dy, da, db);
  out["swiglu y"] = y.bytes();
  out["swiglu absmax"] = absmax_row.bytes();
  out["swiglu da"] = da.bytes();
  out["swiglu db"] = db.bytes();
  add(exec, a, b, y);
  accumulate(exec, dy, y);
  scale_inplace(exec, y, 0.3f);
  out["elementwise"] = y.bytes();
  sum(exec, a, scalar, workspace);
  out["sum"] = scalar.bytes();
  sum_squares(exec, a, scalar, workspace);
  out["sum_squares"] = scalar.bytes();
  absmax(exec, a, scalar, workspace);
  out["absmax"] = scalar.bytes();
  const Stored p = random(DType::f32, {T * D}, 4), g = random(DType::f32, {T * D}, 5),
               m = random(DType::f32, {T * D}, 6);
  const Stored v(DType::f32, {T * D}, Values(static_cast<std::size_t>(T * D), 0.5));
  adamw_step(exec, p, g, m, v, {.lr = 0.1f, .bias_correction1 = 0.1f, .bias_correction2 = 0.05f}, {}, true);
  out["adamw p"] = p.bytes();
  out["adamw m"] = m.bytes();
}

void run_routing(const Exec& exec, DType dtype, Outputs& out) {
  Arena workspace("test");
  const RouterConfig config{.experts = X, .k = K, .groups = 4, .topk_groups = 2};
  const Stored logits = random(DType::f32, {T, X}, 1), score(DType::f32, {T, X}), index(DType::i32, {T, K}),
               weight(DType::f32, {T, K}), bad({1}, {0});
  router_forward(exec, logits, {}, config, score, index, weight, bad);
  const Stored dweight = random(DType::f32, {T, K}, 2), dlogits(DType::f32, {T, X}), density(DType::f32, {3, X}),
               loss(DType::f32, {1});
  router_backward(exec, score, index, dweight, config, dlogits, Write::overwrite);
  load_balance_forward(exec, score, index, 3, 0.1f, density, loss, Write::overwrite, workspace);
  load_balance_backward(exec, score, density, 0.1f, config.score, dlogits);
  out["router index"] = index.bytes();
  out["router weight"] = weight.bytes();
  out["router dlogits"] = dlogits.bytes();
  out["load balance"] = loss.bytes();
  const Stored offsets(DType::i32, {X + 1}), row_of_slot(DType::i32, {T * K}), slot_of_row(DType::i32, {T * K});
  route_plan(exec, index, X, offsets, row_of_slot, slot_of_row, workspace);
  out["slot_of_row"] = slot_of_row.bytes();
  const Stored x = random(dtype, {T, D}, 3), ys(dtype, {T * K, D}), y(dtype, {T, D}), dys(dtype, {T * K, D}),
               dx(dtype, {T, D}), dw(DType::f32, {T, K});
  permute_forward(exec, x, slot_of_row, K, ys);
  combine_forward(exec, ys, row_of_slot, weight, x, y);
  combine_backward(exec, y, ys, row_of_slot, weight, dys, dw);
  permute_backward(exec, dys, row_of_slot, K, dx, Write::overwrite);
  out["combine y"] = y.bytes();
  out["combine dweight"] = dw.bytes();
  out["permute dx"] = dx.bytes();
}

void run_ends(const Exec& exec, DType dtype, Outputs& out) {
  const Stored ids({T}, random_ints(static_cast<std::size_t>(T), 1, 50)), table = random(DType::f32, {50, D}, 2),
                                                                          y(dtype, {T, D}), bad({1}, {0});
  embedding_forward(exec, ids, table, y, bad);
  embedding_backward(exec, ids, y, table);
  out["embedding y"] = y.bytes();
  out["embedding dtable"] = table.bytes();
  const Stored logits = random(dtype, {T, D}, 3), mask({T}, random_ints(static_cast<std::size_t>(T), 4, 2)),
               loss(DType::f32, {T}), argmax(DType::i32, {T});
  CrossEntropyResult result;
  result.loss = loss;
  result.argmax = argmax;
  result.bad_targets = bad;
  cross_entropy(exec, logits, ids, mask, {.z_loss = 1e-4f, .grad_scale = 0.01f, .write_gradient = true}, result);
  out["cross entropy dlogits"] = logits.bytes();
  out["cross entropy loss"] = loss.bytes();
  out["cross entropy argmax"] = argmax.bytes();
  const MlaPack m{3, 111, 4, 16, 8, 12, 0.2f};
  const Stored positions({T}, random_ints(static_cast<std::size_t>(T), 5, 4096)),
      frequency(DType::f32, {4}, {1.0, 0.3, 0.1, 0.01});
  const Stored q_raw = random(dtype, {T, 4, 24}, 6), kv_raw = random(dtype, {T, 4, 28}, 7),
               k_rope = random(dtype, {T, 8}, 8);
  const Stored q(dtype, {T, 4, 24}), k(dtype, {T, 4, 24}), v(dtype, {T, 4, 12});
  mla_pack_forward(exec, m, q_raw, kv_raw, k_rope, positions, frequency, q, k, v);
  out["mla_pack q"] = q.bytes();
  out["mla_pack k"] = k.bytes();
  mla_pack_backward(exec, m, q, k, v, positions, frequency, q_raw, kv_raw, k_rope);
  out["mla_pack dq_raw"] = q_raw.bytes();
  out["mla_pack dk_rope"] = k_rope.bytes();
}

Outputs run_all(const Exec& exec, DType dtype) {
  Outputs out;
  run_norms(exec, dtype, out);
  run_elements(exec, dtype, out);
  run_routing(exec, dtype, out);
  run_ends(exec, dtype, out);
  return out;
}

}  // namespace

TEST_CASE("kernels give the same bits on one and on two threads") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  if constexpr (can_choose_threads) {
    const Exec all, single = exec_with_threads(1);
    REQUIRE(all.space.concurrency() == 2);
    REQUIRE(single.space.concurrency() == 1);
    const Outputs one = run_all(single, dtype), two = run_all(all, dtype);
    REQUIRE(one.size() == 32);
    for (const auto& [name, bytes] : one) {
      INFO(name);
      CHECK(bytes == two.at(name));
    }
  } else {
    SKIP("the number of threads is not a choice on this backend");
  }
}
