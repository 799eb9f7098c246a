#include "tensor/arena.hpp"

#include "base/kokkos.hpp"

#include <algorithm>
#include <utility>

namespace kvant {
namespace {
constexpr std::size_t alignment = 64;
constexpr std::size_t smallest_block = std::size_t{1} << 20;
// Two buffers whose addresses agree modulo 4096 alias in the L1 cache and slow a copy several times; a line of skew avoids it.
constexpr std::size_t skew = 192;

std::size_t round_up(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
}  // namespace

struct Arena::Block {
  Kokkos::View<char*, MemSpace> storage;
  char* base = nullptr;
  std::size_t size = 0;

  Block(const std::string& name, std::size_t bytes)
      : storage(Kokkos::view_alloc(Kokkos::WithoutInitializing, "kvant::arena " + name), bytes + alignment), size(bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage.data());
    base = storage.data() + (round_up(address) - address);
  }
};

Arena::Arena(std::string name) : name_(std::move(name)) {}
Arena::~Arena() = default;

std::size_t Arena::capacity() const {
  std::size_t total = 0;
  for (const auto& b : blocks_) total += b->size;
  return total;
}

void Arena::grow(std::size_t bytes) {
  const std::size_t wanted = std::max({round_up(bytes) + alignment, smallest_block, capacity() / 2});
  try {
    blocks_.push_back(std::make_unique<Block>(name_, wanted));
  } catch (const std::exception&) {
    fail("Out of memory: the arena \"{}\" holds {} MiB and could not get {} MiB more. A smaller batch, a shorter sequence or "
         "model.remat_policy = \"full\" needs less.",
         name_, capacity() >> 20, wanted >> 20);
  }
  ++growths_;
}

void* Arena::allocate_bytes(std::size_t bytes) {
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1)) + (bytes >= 4096 ? skew : 0);
  while (block_ < blocks_.size() && top_ + size > blocks_[block_]->size) {
    ++block_;
    top_ = 0;
  }
  if (block_ == blocks_.size()) {
    grow(size);
    top_ = 0;
  }
  void* data = blocks_[block_]->base + top_;
  top_ += size;
  used_ += size;
  peak_ = std::max(peak_, used_);
  return data;
}

TensorView Arena::allocate(DType dtype, const Shape& shape) {
  void* data = allocate_bytes(static_cast<std::size_t>(shape.numel()) * size_of(dtype));
  return make_view(data, dtype, shape, exec_is_host ? MemorySpace::host : MemorySpace::device);
}

Arena::Mark Arena::mark() const { return {block_, top_, used_}; }

void Arena::release(const Mark& mark) {
  require(mark.used <= used_, "The arena \"{}\" was released out of order.", name_);
  block_ = mark.block;
  top_ = mark.top;
  used_ = mark.used;
}

void Arena::reset() {
  release({});
  if (blocks_.size() <= 1) return;
  blocks_.clear();
  grow(peak_ + peak_ / 64);
}

}  // namespace kvant
