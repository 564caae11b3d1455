// Blobs on the heap: written once, checked on each read, freed when no row names them and no reader holds them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "memory/arena.h"
#include "store/blobs.h"
#include "store/memory/block_pool.h"

namespace verbena::store::in_memory {

// The memory of all blobs of a store. Outlives the store for as long as a reader has one of them.
struct Account {
  std::atomic<uint64_t> bytes{0}, blobs{0};
  BlockPool free;  // not counted
};

// A run of bytes in blocks, each with its CRC32C.
class HeapBlob {
 public:
  static constexpr size_t block_size = 64 * KiB;

  explicit HeapBlob(std::shared_ptr<Account> account) : account_(std::move(account)) { ++account_->blobs; }
  HeapBlob(const HeapBlob&) = delete;
  ~HeapBlob();

  uint64_t size() const { return size_; }
  // `more`: the bytes to come from here on, if known.
  void append(Bytes bytes, std::optional<uint64_t> more);
  // Ends the blob: frees unused memory.
  void finish();
  // corrupt_object: a block differs from what was written.
  Result<void> read(uint64_t offset, MutableBytes into) const;
  void flip_bit(uint64_t offset);

 private:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    uint32_t capacity = 0, size = 0, crc = 0;
  };
  void resize(Block& block, uint32_t capacity);

  const std::shared_ptr<Account> account_;
  std::vector<Block> blocks_;
  uint64_t size_ = 0;
};

// Blobs that rows name. Thread-safe.
class HeapBlobs final : public Blobs {
 public:
  HeapBlobs(memory::Arena& arena, uint64_t bytes_max) : arena_(arena), bytes_max_(bytes_max) {}

  std::shared_ptr<BlobWriter> create(const Bucket& bucket, std::optional<uint64_t> size_hint) override;
  std::shared_ptr<BlobWriter> create_whole(const Bucket& bucket, Bytes bytes, BlobRef& ref) override;
  Result<std::shared_ptr<ObjectReader>> open(View& rows, std::string name, ObjectInfo info,
                                             std::span<const BlobRef> blobs) override;

  // Starts / ends naming the blob; without a reader it is freed with the returned pointer.
  void add(const BlobWriter& writer);
  std::shared_ptr<const HeapBlob> take(uint64_t id);

  std::vector<uint64_t> ids();  // ascending
  const Account& account() const { return *account_; }
  bool has_space(uint64_t more) const { return account_->bytes.load(std::memory_order_relaxed) + more <= bytes_max_; }
  // For tests: damages the bytes that the reader of an object reads.
  static void flip_bit(ObjectReader& reader, uint64_t offset);

 private:
  memory::Arena& arena_;
  const uint64_t bytes_max_;
  const std::shared_ptr<Account> account_ = std::make_shared<Account>();
  std::atomic<uint64_t> last_id_{0};
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<HeapBlob>> blobs_;  // guarded by mutex_
};

}  // namespace verbena::store::in_memory
