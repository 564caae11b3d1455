// Writes one blob: bytes in, extents and checksums out. The blob is invisible until a mutation names it; a writer that
// is destroyed first frees its space.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <optional>
#include <vector>

#include "store/blobs.h"
#include "store/local/engine.h"
#include "store/local/record.h"

namespace verbena::store::local {

// A blob whose bytes have been written (not yet synced).
struct WrittenBlob {
  BlobRef ref;
  std::string in_index;           // the value, when ref.kind is in_index
  std::vector<Segment> segments;  // otherwise
  std::vector<Run> runs;          // for the mutation that names the blob
};

VolumeKind volume_kind(const Bucket& bucket);

class VolumeBlobWriter final : public BlobWriter, public std::enable_shared_from_this<VolumeBlobWriter> {
 public:
  VolumeBlobWriter(std::shared_ptr<Engine> engine, VolumeKind kind, std::optional<uint64_t> size_hint);
  ~VolumeBlobWriter() override;

  uint64_t size() const override { return size_; }
  uint64_t id() const override { return written_.ref.id; }
  Task<Result<void>> append(memory::Chunk chunk) override;
  std::optional<uint32_t> crc32c() const override;
  Task<Result<BlobRef>> finish() override;
  // Replaces append() and finish() for a small blob that is given whole.
  BlobRef finish_in_index(Bytes bytes);

  // The finished blob: its index records, and once its runs, for the mutation that names it.
  const WrittenBlob& written() const { return written_; }
  std::vector<Run> take_runs() { return std::exchange(written_.runs, {}); }

 private:
  using SharedLease = std::shared_ptr<const void>;  // owns the bytes
  Result<void> make_stage(size_t more);
  Task<Result<void>> flush_stage(bool last);
  // `bytes`: whole blocks; the last call's may end in a partial one, padded to 4096, of which `padding` bytes are not
  // data.
  Task<Result<void>> write_out(SharedLease lease, Bytes bytes, size_t padding);
  Task<Result<void>> next_run(uint64_t at_least);
  void end_run();
  void add_checksums(Bytes data);
  Task<> wait_for_writes(size_t in_flight_max);
  struct Place {
    std::shared_ptr<Volume> volume;
    uint64_t offset = 0;
    bool in_place = false;  // written before
  };
  static Task<> write_piece(std::shared_ptr<VolumeBlobWriter> self, Place place, Bytes bytes, SharedLease lease);
  std::vector<Segment> make_segments() const;

  std::shared_ptr<Engine> engine_;
  const VolumeKind kind_;
  const std::optional<uint64_t> size_hint_;
  uint64_t size_ = 0;      // bytes appended
  uint64_t reserved_ = 0;  // bytes of all runs
  memory::Lease stage_;    // bytes that are not a whole block yet, or were not aligned
  size_t staged_ = 0;
  std::vector<Run> runs_;
  uint64_t run_used_ = 0;  // of the last run
  std::vector<uint32_t> block_crcs_;
  size_t in_flight_ = 0;
  std::optional<boost::asio::steady_timer> wake_;
  Result<void> state_;  // the first write error
  WrittenBlob written_;
};

// Adds the blob's records to the batch.
void add_blob(Batch& batch, const WrittenBlob& blob);

}  // namespace verbena::store::local
