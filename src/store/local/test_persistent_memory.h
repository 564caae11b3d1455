// A model of persistent memory that loses what was not written back. For tests.
//
// It keeps what is durable apart from what the processor sees. Of each line it has the stores of 8 bytes since the last
// write-back that a fence completed, in their order. A power cut keeps of each line the first so many of them, or of
// each of its words, as chance decides: caches write lines back whenever they like, and some processors reorder stores.
// Lines have no order among each other.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <vector>

#include "store/local/persistent_memory.h"

namespace verbena::store::local {

class ModelMemories final : public PersistentMemories {
 public:
  ModelMemories() = default;
  Result<std::unique_ptr<PersistentMemory>> open(const std::filesystem::path& folder, uint64_t size,
                                                 std::string& trouble) override;

  // The power fails, and comes back. Nothing may have it open.
  void cut(uint64_t seed);
  // The power fails at this call (counted from now, the first is 0) that stores, flushes or fences: it and all that
  // follow change nothing that cut() keeps. `then` is called at that moment.
  void cut_at(uint64_t call, std::function<void()> then = {});
  bool was_cut() const;
  // Called once, before the next store of bytes, without a lock: what else happens while an object is being appended.
  void before_next_store(std::function<void()> then);

  void be_a_node() { is_node_ = true; }  // those that are opened from here on have a node's place
  // Called before each load, without a lock, with its offset.
  void before_loads(std::function<void(uint64_t offset)> then);

  void poison(uint64_t offset);             // the line cannot be touched any more
  void change(uint64_t offset);             // another process's write of one byte, durable
  void set(uint64_t offset, std::byte to);  // likewise
  // Of the 8 bytes at this offset, the first so many are durable, and the others still zeros.
  void tear(uint64_t offset, size_t bytes);
  void shrink(uint64_t size);            // the namespace loses its end
  void forget();                         // another file system is mounted there
  void replace();                        // the file is removed; a new one has other blocks
  std::vector<std::byte> bytes() const;  // what is durable

 private:
  friend class ModelMemory;
  struct Store {
    uint64_t word = 0;  // its offset
    uint64_t value = 0;
  };
  struct Line {
    std::vector<Store> stores;
    size_t flushed = 0;  // so many are durable after the next fence
  };
  bool counts_locked();  // counts a call; false: the power is off
  bool is_poisoned(uint64_t offset, uint64_t length) const;
  void store_word(uint64_t word, uint64_t value);
  void keep(const Line& line, size_t count);
  void keep_of_each_word(const Line& line, std::mt19937_64& random);

  mutable std::mutex mutex_;
  std::vector<std::byte> now_, durable_;
  std::map<uint64_t, Line> lines_;  // with stores that are not durable, by offset
  std::vector<uint64_t> poisoned_;
  uint64_t calls_ = 0, cut_at_ = UINT64_MAX;
  std::function<void()> then_, before_store_;
  std::function<void(uint64_t)> before_loads_;
  bool is_node_ = false;
  bool off_ = false, open_ = false;
};

}  // namespace verbena::store::local
