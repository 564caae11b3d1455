// Bytes in the data pool: a blob consists of stripes of 4 MiB, each an object that is written once, with the checksums
// of its blocks as an attribute. Small blobs are stored with the rows.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "memory/arena.h"
#include "store/blobs.h"
#include "store/rados/bytes/stripe_blocks.h"
#include "store/rados/rows/rows.h"
#include "store/rados/upkeep/garbage.h"

namespace verbena::store::rados {

// State shared by writers and readers.
struct BlobSpace {
  Cluster& cluster;
  std::shared_ptr<Garbage> garbage;
  memory::Arena& arena;
  // A new blob id: the process's incarnation, then a count. 0: the count is used up.
  uint64_t next_blob();
  static constexpr uint64_t blobs_max = uint64_t{1} << 32;  // per incarnation
  std::atomic<uint64_t> next{1};
};

class StripeWriter final : public BlobWriter {
 public:
  explicit StripeWriter(BlobSpace& space);
  ~StripeWriter() override;  // removes the blob if no change has taken it

  uint64_t size() const override { return size_; }
  uint64_t id() const override { return id_; }
  Task<Result<void>> append(memory::Chunk chunk) override;
  Task<Result<BlobRef>> finish() override;

  bool in_index() const { return size_ != 0 && !striped_; }
  const std::string& small() const { return small_; }  // of a blob stored with the rows
  bool in_stripes() const { return striped_; }
  uint64_t life() const { return life_; }  // the process's incarnation when the blob was begun (garbage.h)
  // Called when a change names the blob, or may name it.
  void keep() { kept_ = true; }

 private:
  struct Flights;
  void add(Bytes bytes);
  void launch();
  Task<Result<void>> wait_for_room(size_t in_flight_max);

  BlobSpace& space_;
  uint64_t id_ = 0;  // set from the first byte on
  const uint64_t life_;
  uint64_t size_ = 0, stripes_ = 0;
  std::string small_;
  bool striped_ = false, kept_ = false;
  StripeFill stripe_;
  std::shared_ptr<Flights> flights_;
};

class StripedBlobs final : public Blobs {
 public:
  explicit StripedBlobs(BlobSpace& space) : space_(space) {}
  std::shared_ptr<BlobWriter> create(const Bucket& bucket, std::optional<uint64_t> size_hint) override;
  Result<std::shared_ptr<ObjectReader>> open(View& rows, std::string name, ObjectInfo info,
                                             std::span<const BlobRef> blobs) override;

 private:
  BlobSpace& space_;
};

}  // namespace verbena::store::rados
