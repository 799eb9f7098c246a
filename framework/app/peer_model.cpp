#include "app/peer_model.hpp"

#include "app/npz.hpp"
#include "base/error.hpp"
#include "kernels/transfer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

namespace kvant::app {
namespace {

/// The generator of Python's random.Random(seed) for a seed below 2^32: MT19937 (Matsumoto and Nishimura 1998) started by its
/// init_by_array with one key, which std::mt19937 does not offer; its state is set through the stream operator.
std::mt19937 python_generator(uint32_t key) {
  constexpr int n = 624;
  std::vector<uint32_t> mt(n);
  mt[0] = 19650218u;
  for (uint32_t i = 1; i < n; ++i) mt[i] = 1812433253u * (mt[i - 1] ^ (mt[i - 1] >> 30)) + i;
  int i = 1;
  const auto wrap = [&] {
    if (++i >= n) {
      mt[0] = mt[n - 1];
      i = 1;
    }
  };
  for (int k = n; k > 0; --k) {
    mt[static_cast<std::size_t>(i)] = (mt[static_cast<std::size_t>(i)] ^ ((mt[static_cast<std::size_t>(i) - 1] ^ (mt[static_cast<std::size_t>(i) - 1] >> 30)) * 1664525u)) + key;
    wrap();
  }
  for (int k = n - 1; k > 0; --k) {
    mt[static_cast<std::size_t>(i)] = (mt[static_cast<std::size_t>(i)] ^ ((mt[static_cast<std::size_t>(i) - 1] ^ (mt[static_cast<std::size_t>(i) - 1] >> 30)) * 1566083941u)) - static_cast<uint32_t>(i);
    wrap();
  }
  mt[0] = 0x80000000u;
  std::stringstream state;
  for (const uint32_t word : mt) state << word << ' ';
  state << n;  // libstdc++ writes the position after the words: all of them used
  std::mt19937 generator;
  state >> generator;
  return generator;
}

double python_random(std::mt19937& generator) {
  const uint32_t a = static_cast<uint32_t>(generator()) >> 5, b = static_cast<uint32_t>(generator()) >> 6;
  return (a * 67108864.0 + b) * (1.0 / 9007199254740992.0);
}

}  // namespace

data::Batch peer_batch(int64_t vocab, int64_t batch, int64_t seq, uint32_t seed) {
  std::mt19937 generator = python_generator(seed);
  data::Batch b;
  b.clear(batch, seq);
  b.beyond.resize(static_cast<std::size_t>(batch));
  for (int64_t row = 0; row < batch; ++row) {
    for (int64_t s = 0; s < seq + 2; ++s) {
      const double u = python_random(generator);
      const auto id = static_cast<int32_t>(std::min<int64_t>(static_cast<int64_t>(static_cast<double>(vocab) * std::pow(u, 3.0)), vocab - 1));
      const auto at = static_cast<std::size_t>(row * seq + s);
      if (s < seq) {
        b.inputs[at] = id;
        b.inputs_position[at] = b.targets_position[at] = static_cast<int32_t>(s);
        b.inputs_segmentation[at] = b.targets_segmentation[at] = 1;
      }
      if (s >= 1 && s <= seq) b.targets[at - 1] = id;
      if (s == seq + 1) b.beyond[static_cast<std::size_t>(row)] = id;
    }
  }
  b.valid_targets = batch * seq;
  return b;
}

namespace {

/// Where a parameter of ours lies in the file: an array, transposed or not, of which a part is taken.
struct Source {
  std::string name;
  bool transposed = false;  ///< [out, in] there, [in, out] here
  int half = -1;            ///< 0, 1: first or second half of the output columns
  bool swap_input_halves = false;
};

Source source_of(const nn::Param& p, int64_t dense_layers) {
  std::string path = p.path, prefix;
  const auto strip = [&](const std::string& head) {
    if (!path.starts_with(head)) return false;
    path = path.substr(head.size());
    return true;
  };
  const auto number = [&] {
    const auto slash = path.find('/');
    const int64_t n = std::stoll(path.substr(0, slash));
    path = path.substr(slash + 1);
    return n;
  };
  if (path == "token_embedder/embedding") return {"embed.weight"};
  if (path == "decoder/decoder_norm/scale") return {"norm.weight"};
  if (path == "decoder/logits_dense/kernel") return {"head.weight", true};
  if (strip("decoder/dense_layers_")) {
    prefix = "layers." + std::to_string(number()) + ".";
  } else if (strip("decoder/moe_layers_")) {
    prefix = "layers." + std::to_string(number() + dense_layers) + ".";
  } else if (strip("mtp_block/mtp_layer_1/mtp_1_")) {
    if (path == "embedding_norm/scale") return {"mtp.e_norm.weight"};
    if (path == "hidden_state_norm/scale") return {"mtp.h_norm.weight"};
    if (path == "final_norm/scale") return {"mtp.norm.weight"};
    // The hidden state comes first there, the embedding here.
    if (path == "projection/kernel") return {"mtp.proj.weight", true, -1, true};
    prefix = "mtp.block.";
    strip("transformer_layer/");
  }
  if (path == "pre_self_attention_layer_norm/scale") return {prefix + "attn_norm.weight"};
  if (path == "post_self_attention_layer_norm/scale") return {prefix + "ffn_norm.weight"};
  if (strip("self_attention/")) {
    const std::string module = path.substr(0, path.find('/'));
    const bool norm = path.ends_with("/scale");
    return {prefix + "attn." + (module == "out" ? "wo" : module) + ".weight", !norm};
  }
  if (strip("DeepSeekMoeBlock_0/MoeBlock_0/")) {
    if (path == "gate/kernel") return {prefix + "ffn.router.weight", true};
    if (path == "wi_0") return {prefix + "ffn.w13", false, 0};
    if (path == "wi_1") return {prefix + "ffn.w13", false, 1};
    if (path == "wo") return {prefix + "ffn.w2"};
  }
  std::string ffn = prefix + "ffn.";
  if (strip("DeepSeekMoeBlock_0/shared_experts/")) ffn += "shared.";
  else strip("mlp/");
  if (path == "wi_0/kernel") return {ffn + "w13.weight", true, 0};
  if (path == "wi_1/kernel") return {ffn + "w13.weight", true, 1};
  if (path == "wo/kernel") return {ffn + "w2.weight", true};
  fail("The parameter {} has no counterpart in a peer's file.", p.path);
}

std::vector<float> extract(const NpzArray& a, const Source& source, const nn::Param& p, const std::string& file) {
  // Everything is seen as [G, in, out] of ours.
  const int64_t total = p.shape.numel();
  const int64_t there = static_cast<int64_t>(a.values.size());
  const int64_t parts = source.half < 0 ? 1 : 2;
  if (there != total * parts) refuse("{}: the array {} has {} elements; {} needs {}.", file, source.name, there, p.path, total * parts);
  const int rank = p.shape.rank;
  const auto extent = [&](std::size_t from_end) { return a.shape.size() < from_end ? int64_t{1} : a.shape[a.shape.size() - from_end]; };
  if (!source.transposed && source.half < 0) {
    if (extent(1) != p.shape[rank - 1])
      refuse("{}: the array {} has {} columns; {} has {}.", file, source.name, extent(1), p.path, p.shape[rank - 1]);
    return a.values;
  }
  std::vector<float> out(static_cast<std::size_t>(total));
  const auto& dims = a.shape;
  const int64_t in = extent(source.transposed ? 1 : 2), all_out = extent(source.transposed ? 2 : 1);
  // Ours may have its inputs or outputs by head, [in, heads, width]: the array's two extents must be such a split of it.
  bool fits = false;
  int64_t first_axes = 1;
  for (int axis = source.transposed ? 0 : 1; axis < rank; ++axis) {
    first_axes *= p.shape[axis];
    fits = fits || (first_axes == in && in * all_out == parts * (source.transposed ? total : total / p.shape[0]));
  }
  if (!fits) refuse("{}: the array {} has the shape [{}], which is not that of {}, {}.", file, source.name, fmt::join(dims, ", "), p.path, to_string(p.shape));
  const int64_t groups = there / (in * all_out), width = all_out / parts, first = source.half < 0 ? 0 : source.half * width;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t i = 0; i < in; ++i) {
      const int64_t from = source.swap_input_halves ? (i + in / 2) % in : i;
      for (int64_t o = 0; o < width; ++o) {
        const int64_t at = source.transposed ? (first + o) * in + from : (g * in + from) * all_out + first + o;
        out[static_cast<std::size_t>((g * in + i) * width + o)] = a.values[static_cast<std::size_t>(at)];
      }
    }
  return out;
}

}  // namespace

void load_peer_parameters(const std::string& file, Model& model, const Exec& exec) {
  const std::map<std::string, NpzArray> arrays = read_npz(file);
  int64_t dense_layers = 0;
  for (const nn::Param* p : model.params().all())
    if (p->path.starts_with("decoder/dense_layers_") && p->path.ends_with("/mlp/wo/kernel")) ++dense_layers;
  std::map<std::string, int> used;
  for (nn::Param* p : model.params().all()) {
    if (!p->trained) continue;
    const Source source = source_of(*p, dense_layers);
    const auto found = arrays.find(source.name);
    if (found == arrays.end()) refuse("{} has no array {} (for {}).", file, source.name, p->path);
    ++used[source.name];
    upload(exec, extract(found->second, source, *p, file).data(), p->value);
    ++p->epoch;
  }
  for (const auto& [name, array] : arrays)
    if (!used.contains(name)) refuse("{} has an array {} that belongs to no parameter of this model.", file, name);
}

}  // namespace kvant::app
