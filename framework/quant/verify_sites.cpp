#include "quant/verify_sites.hpp"

#include "base/error.hpp"
#include "ops/context.hpp"
#include "ops/matmul_site.hpp"
#include "quant/detail/recorded_product.hpp"
#include "quant/plan.hpp"

#include <charconv>
#include <deque>

namespace kvant::quant {
namespace {

using namespace detail;

/// One recorded site: its tensors as matrices.
struct RecordedSite {
  std::string name;
  Shape in, kernel, out;
  MatmulSite site;
  TensorView weight, gradient;
  uint64_t epoch = 1;
  int64_t rows() const { return in.numel() / site.k; }
};

/// decoder/dense_layers_0/mlp/wi_0 is layer 0 of decoder/dense_layers/mlp/wi_0.
void place(const std::string& name, MatmulSite& site) {
  site.path = name;
  const auto begin = name.find('/'), end = name.find('/', begin + 1);
  if (begin == std::string::npos || end == std::string::npos) return;
  const auto underscore = name.rfind('_', end);
  if (underscore == std::string::npos || underscore < begin) return;
  const auto [stop, error] = std::from_chars(name.data() + underscore + 1, name.data() + end, site.layer);
  if (error != std::errc{} || stop != name.data() + end || site.layer < 0) {
    site.layer = -1;
    return;
  }
  site.path = name.substr(0, underscore) + name.substr(end);
}

class SitesVerifier {
 public:
  SitesVerifier(const data::SafetensorsFile& file, const data::SafetensorsFile& params, const Exec& exec)
      : r_(file, exec), params_(params), exec_(exec) {}

  VerifiedFile run() {
    for (const data::StoredTensor& t : r_.file().tensors())
      if (t.name.ends_with("/in")) r_.described("The site " + t.name, [&] { add(t.name.substr(0, t.name.size() - 3)); });
    if (sites_.empty()) refuse("{}: no site is recorded (<path>/in).", r_.file().path());
    r_.described("The case", [&] { bind(); });
    for (RecordedSite& site : sites_) r_.described("The site " + site.name, [&] { verify(site); });
    return r_.finish();
  }

 private:
  void add(const std::string& name) {
    RecordedSite& s = sites_.emplace_back();
    s.name = name;
    s.in = r_.shape_of(name + "/in");
    s.out = r_.shape_of(name + "/out");
    s.kernel = shape_of(params_.tensor(name + "/kernel"));
    const int contracted = (s.in.rank + s.kernel.rank - s.out.rank) / 2, leading = s.in.rank - contracted;
    bool fits = contracted >= 1 && leading >= 0 && contracted < s.kernel.rank && s.out.rank == leading + s.kernel.rank - contracted &&
                s.in.numel() > 0 && s.out.numel() > 0;
    for (int a = 0; fits && a < leading; ++a) fits = s.in[a] == s.out[a];
    for (int a = 0; fits && a < contracted; ++a) fits = s.in[leading + a] == s.kernel[a];
    for (int a = contracted; fits && a < s.kernel.rank; ++a) fits = s.out[leading + a - contracted] == s.kernel[a];
    if (!fits)
      refuse("An input of the shape {} and a kernel of {} do not give an output of {}.", to_string(s.in), to_string(s.kernel), to_string(s.out));
    place(name, s.site);
    s.site.op = "dot_general0";
    s.site.k = s.site.n = 1;
    for (int a = 0; a < s.kernel.rank; ++a) (a < contracted ? s.site.k : s.site.n) *= s.kernel[a];
  }

  void bind() {
    const std::string& name = r_.file().metadata("case");
    config::QuantSettings settings;
    settings.quantization = name.substr(name.rfind('.') + 1);
    settings.qwix_compat = r_.file().metadata("qwix_compat");
    if (settings.qwix_compat != "xla" && settings.qwix_compat != "ieee")
      refuse("qwix_compat is \"{}\"; \"xla\" and \"ieee\" are known.", settings.qwix_compat);
    settings.quantize_router_proj = true;
    SiteTable table;
    for (RecordedSite& s : sites_) {
      s.site.weight = {&s.weight, &s.gradient, &s.epoch};
      table.add(s.site);
    }
    const Plan plan = Plan::resolve(table, settings);
    for (const Decision& d : plan.decisions())
      if (d.recipe == nullptr) refuse("{} stays plain under \"{}\": {}.", d.site->path, settings.quantization, d.reason);
    plan.bind(table);
  }

  std::vector<float> read(const std::string& tensor, const Shape& shape) {
    r_.expect(tensor, DType::f32, shape);
    return r_.floats(tensor);
  }

  void verify(RecordedSite& s) {
    ArenaScope workspace(r_.arena());
    const int64_t rows = s.rows(), k = s.site.k, n = s.site.n;
    const std::vector<float> x = read(s.name + "/in", s.in), g = read(s.name + "/d_out", s.out), w = params_.read_floats(s.name + "/kernel");
    const auto matrix = [&](int64_t a, int64_t b, const std::vector<float>& values) { return r_.bench().floats(DType::f32, {a, b}, values); };
    const auto room = [&](int64_t a, int64_t b) { return matrix(a, b, std::vector<float>(static_cast<std::size_t>(a * b))); };
    s.weight = matrix(k, n, w);
    s.gradient = room(k, n);
    const TensorView y = room(rows, n), dx = room(rows, k), dy = matrix(rows, n, g);
    Arena step("verify a site"), state("verify a site");
    StepContext ctx{exec_, step, state};
    Operand operand(matrix(rows, k, x));
    MatmulOp& op = s.site.op_ref();
    op.prepare(ctx, operand, {});
    op.forward(ctx, operand, {}, y, Write::overwrite);
    op.backward(ctx, operand, {}, dy, dx, Write::overwrite);

    const Side xs = plain_side(r_, {rows, k}, DType::f32, x), ws = plain_side(r_, {k, n}, DType::f32, w), gs = plain_side(r_, {rows, n}, DType::f32, g);
    compare(s.name + "/out", s.out, y, op.arithmetic(Arm::forward), xs, ws, {{1}, {0}, {}, {}});
    compare(s.name + "/d_in", s.in, dx, op.arithmetic(Arm::dgrad), gs, ws, {{1}, {1}, {}, {}});
    compare(s.name + "/d_kernel", s.kernel, s.gradient, op.arithmetic(Arm::wgrad), xs, gs, {{0}, {0}, {}, {}});
  }

  /// Σ|a||b| is that of the operands before they were quantized.
  void compare(const std::string& tensor, const Shape& shape, const TensorView& result, DType arithmetic, const Side& a, const Side& b, const DotAxes& axes) {
    r_.expect(tensor, DType::f32, shape);
    DotResult product = multiply(r_, a, b, axes, DType::f32);
    product.values = r_.bench().read(result);
    product.every_bit = arithmetic == DType::i8;
    compare_product(r_, tensor, shape, product);
  }

  Recording r_;
  const data::SafetensorsFile& params_;
  const Exec& exec_;
  std::deque<RecordedSite> sites_;
};

}  // namespace

bool records_sites(const data::SafetensorsFile& file) {
  const auto is = [&](const char* key, const char* value) {
    const auto found = file.metadata().find(key);
    return found != file.metadata().end() && found->second == value;
  };
  return is("format", "kvant-golden-maxtext/1") && is("kind", "sites");
}

VerifiedFile verify_sites(const data::SafetensorsFile& file, const data::SafetensorsFile& params, const Exec& exec) {
  return SitesVerifier(file, params, exec).run();
}

}  // namespace kvant::quant
