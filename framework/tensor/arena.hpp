// Arena: the memory of a step. A stack of bytes: allocate moves the top, a Mark puts it back. Saved activations, workspace
// and payloads all live here. The first step may grow it; reset() then makes one block of the peak size, and from there on
// a step allocates nothing (growth_count() says so, a test asks).
#pragma once

#include "tensor/tensor.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace kvant {

class Arena {
 public:
  /// The memory space is that of the program's execution space. `name` appears in errors and in the memory report.
  explicit Arena(std::string name);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A contiguous row-major tensor on a 64-byte boundary. Its contents are undefined.
  TensorView allocate(DType dtype, const Shape& shape);
  void* allocate_bytes(std::size_t bytes);

  struct Mark {
    std::size_t block = 0, top = 0, used = 0;
  };
  Mark mark() const;
  /// Gives back everything allocated since the mark.
  void release(const Mark& mark);
  /// Gives back everything; when the last round needed several blocks they become one.
  void reset();

  std::size_t used() const { return used_; }
  std::size_t peak() const { return peak_; }
  std::size_t capacity() const;
  /// How often memory was asked of the system since construction.
  std::size_t growth_count() const { return growths_; }

 private:
  struct Block;
  void grow(std::size_t bytes);

  std::string name_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t block_ = 0, top_ = 0, used_ = 0, peak_ = 0, growths_ = 0;
};

/// Scope of a piece of workspace: releases what was allocated inside it.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.release(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

}  // namespace kvant
