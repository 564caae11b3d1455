#include "store/local/reader.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "base/checksum.h"
#include "base/copy.h"
#include "base/log.h"
#include "store/local/blob_writer.h"
#include "store/local/disk_times.h"

namespace verbena::store::local {
namespace {

constexpr size_t checksums_max = 256 * 1024;  // of blocks, cached per reader: 1 MiB

// A blob's segment, loaded for reading.
struct LoadedSegment {
  Segment segment;
  std::vector<uint64_t> starts;  // of each extent, in bytes from the segment's start
};

// One blob of the object: the whole of it, or a part.
struct Piece {
  BlobRef blob;
  uint64_t start = 0;  // in the object
};

Result<std::shared_ptr<const LoadedSegment>> load_segment(Engine& engine, uint64_t blob, uint32_t number, Tier tier) {
  VB_ASSIGN(std::string value, engine.index->get(Family::segments, keys::segment(blob, number), tier));
  auto loaded = std::make_shared<LoadedSegment>();
  VB_ASSIGN(loaded->segment, decode_segment(value));
  uint64_t at = 0;
  for (const Extent& extent : loaded->segment.extents) {
    loaded->starts.push_back(at);
    at += extent.length;
  }
  return loaded;
}

// Keeps the object's blobs from being collected.
class Hold {
 public:
  explicit Hold(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() { release(); }
  bool add(uint64_t blob) {
    if (!engine_->garbage->pin(blob)) return false;
    blobs_.push_back(blob);
    return true;
  }
  void release() {
    for (uint64_t blob : blobs_) engine_->garbage->unpin(blob);
    blobs_.clear();
  }
  const std::shared_ptr<Engine>& engine() const { return engine_; }
  const std::vector<uint64_t>& blobs() const { return blobs_; }

 private:
  std::shared_ptr<Engine> engine_;
  std::vector<uint64_t> blobs_;
};

class VolumeReader final : public ObjectReader {
 public:
  VolumeReader(std::shared_ptr<Engine> engine, Visible visible, std::string name, ObjectInfo info)
      : hold_(std::move(engine)), visible_(visible), name_(std::move(name)), info_(std::move(info)) {}

  const ObjectInfo& info() const override { return info_; }
  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override;
  size_t fit(uint64_t offset, size_t length, size_t memory_max) const override;

  const std::vector<uint64_t>& held_blobs() const { return hold_.blobs(); }
  // outdated: the object changed under the call and must be looked up again.
  enum class Prepared : uint8_t { ready, outdated };
  // Pins and loads.
  Result<Prepared> prepare(std::span<const BlobRef> blobs, Tier tier);

 private:
  Engine& engine() const { return *hold_.engine(); }
  std::vector<Piece>::const_iterator piece_at(uint64_t offset) const;
  Result<Prepared> load_inline(const Piece& piece, Tier tier);
  Task<Result<std::shared_ptr<const LoadedSegment>>> segment(const Piece& piece, uint32_t number);
  Task<Result<memory::Chunk>> read_piece(const Piece& piece, uint64_t offset, size_t length);
  Task<Result<void>> read_blocks(const Piece& piece, uint64_t from, MutableBytes into);
  Task<Result<std::shared_ptr<Volume>>> open_volume(uint64_t id);
  Task<Result<void>> read_extents(std::shared_ptr<const LoadedSegment> loaded, uint64_t from, MutableBytes into);
  Result<void> verify(const Piece& piece, const LoadedSegment& loaded, uint64_t segment_start, uint64_t from,
                      Bytes bytes) const;
  std::unexpected<Error> corrupt(const char* what) const;
  std::unexpected<Error> not_read(const Error& error) const;

  Hold hold_;
  const Visible visible_;
  const std::string name_;  // bucket/key, for the log
  const ObjectInfo info_;
  std::vector<Piece> pieces_;
  std::map<uint64_t, std::string> inline_;  // blob -> bytes, verified; small parts too
  std::mutex mutex_;
  // Segments by blob and number. These three are guarded by mutex_.
  std::map<std::pair<uint64_t, uint32_t>, std::shared_ptr<const LoadedSegment>> segments_;
  std::deque<std::pair<uint64_t, uint32_t>> by_age_;
  size_t checksums_ = 0;
};

std::unexpected<Error> VolumeReader::corrupt(const char* what) const {
  DiskTrouble::get().corrupt.add();
  log::error("store: {} is damaged: {}", log::printable(name_), what);
  return fail(Errc::corrupt_object, what);
}

// A missing file or row is damage; bytes that the disk or the system refuses to read may be intact.
std::unexpected<Error> VolumeReader::not_read(const Error& error) const {
  if (is_missing(error)) return corrupt("a volume is missing or ends early");
  DiskTrouble::get().failed.add();
  log::error("store: {} could not be read: {}", log::printable(name_), describe(error));
  return std::unexpected(error);
}

Result<VolumeReader::Prepared> VolumeReader::load_inline(const Piece& piece, Tier tier) {
  auto value = engine().index->get(Family::in_index, keys::in_index(piece.blob.id), tier, visible_);
  if (!value && value.error() == Errc::not_found) return Prepared::outdated;
  if (!value) return std::unexpected(value.error());
  auto bytes = decode_inline(*value);
  if (!bytes || bytes->size() != piece.blob.size) return corrupt("checksum of a small object");
  value->erase(0, value->size() - bytes->size());
  inline_.emplace(piece.blob.id, std::move(*value));
  return Prepared::ready;
}

Result<VolumeReader::Prepared> VolumeReader::prepare(std::span<const BlobRef> blobs, Tier tier) {
  uint64_t at = 0;
  for (const BlobRef& blob : blobs) {
    if (blob.size != 0) pieces_.push_back({blob, at});
    at += blob.size;
  }
  if (at != stored_size(info_)) return corrupt("parts do not add up");
  for (const Piece& piece : pieces_) {
    bool in_index = piece.blob.kind == BlobKind::in_index;
    if (!in_index && !hold_.add(piece.blob.id)) return Prepared::outdated;
    if (in_index) {
      VB_ASSIGN(const Prepared loaded, load_inline(piece, tier));
      if (loaded == Prepared::outdated) return loaded;
    }
  }
  if (blobs.size() != 1 || pieces_.empty() || pieces_.front().blob.kind != BlobKind::extents) return Prepared::ready;
  // One blob: its first segment is needed anyway, and its presence shows that the pin came in time.
  const uint64_t blob = pieces_.front().blob.id;
  auto first = load_segment(engine(), blob, 0, tier);
  if (!first && first.error() == Errc::not_found) return Prepared::outdated;
  if (!first) return std::unexpected(first.error());
  checksums_ = (*first)->segment.block_crcs.size();
  by_age_.emplace_back(blob, 0);
  segments_.emplace(by_age_.back(), std::move(*first));
  return Prepared::ready;
}

std::vector<Piece>::const_iterator VolumeReader::piece_at(uint64_t offset) const {
  auto after = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                [](uint64_t at, const Piece& piece) { return at < piece.start; });
  return std::prev(after);
}

// Ends with the part, so that no gathering is needed, and with the last block that fits the memory.
size_t VolumeReader::fit(uint64_t offset, size_t length, size_t memory_max) const {
  const auto it = piece_at(offset);
  const uint64_t in_piece = offset - it->start;
  const size_t in_part = std::min<uint64_t>(length, it->blob.size - in_piece);
  if (it->blob.kind == BlobKind::in_index) return std::min(in_part, memory_max);
  return std::min(in_part, memory_max - static_cast<size_t>(in_piece - align_down(in_piece, block_size)));
}

Task<Result<memory::Chunk>> VolumeReader::read(uint64_t offset, size_t length) {
  uint64_t size = stored_size(info_);
  if (length == 0 || length > chunk_size_max) co_return fail(Errc::invalid_argument, "reader: length");
  if (offset > size || length > size - offset) co_return fail(Errc::invalid_range, "reader: range");
  auto it = piece_at(offset);
  if (offset + length <= it->start + it->blob.size) co_return co_await read_piece(*it, offset - it->start, length);
  // The range spans several parts: gather it.
  VB_CO_ASSIGN(memory::Lease lease, engine().options.arena->lease(length));
  size_t done = 0;
  for (; done < length; ++it) {
    uint64_t from = offset + done - it->start;
    size_t n = std::min<uint64_t>(length - done, it->blob.size - from);
    VB_CO_ASSIGN(memory::Chunk chunk, co_await read_piece(*it, from, n));
    copy_bytes(lease.data() + done, chunk.bytes.data(), n);
    done += n;
  }
  Bytes bytes(lease.data(), length);
  co_return memory::Chunk{std::move(lease), bytes};
}

// `offset` in the blob.
Task<Result<memory::Chunk>> VolumeReader::read_piece(const Piece& piece, uint64_t offset, size_t length) {
  if (piece.blob.kind == BlobKind::in_index) {
    VB_CO_ASSIGN(memory::Lease lease, engine().options.arena->lease(length));
    std::memcpy(lease.data(), inline_.at(piece.blob.id).data() + offset, length);
    Bytes bytes(lease.data(), length);
    co_return memory::Chunk{std::move(lease), bytes};
  }
  // Whole blocks, since a checksum covers a block.
  uint64_t from = align_down(offset, block_size);
  uint64_t to = std::min(align_up(offset + length, block_size), align_up(piece.blob.size));
  VB_CO_ASSIGN(memory::Lease lease, engine().options.arena->lease(to - from));
  for (uint64_t at = from; at < to;) {
    uint64_t end = std::min(to, align_down(at, segment_size) + segment_size);
    VB_CO_TRY(co_await read_blocks(piece, at, MutableBytes(lease.data() + (at - from), end - at)));
    at = end;
  }
  Bytes bytes(lease.data() + (offset - from), length);
  co_return memory::Chunk{std::move(lease), bytes};
}

// Reads and verifies blocks of one segment. `from` in the blob, at the start of a block.
Task<Result<void>> VolumeReader::read_blocks(const Piece& piece, uint64_t from, MutableBytes into) {
  VB_CO_ASSIGN(auto loaded, co_await segment(piece, static_cast<uint32_t>(from / segment_size)));
  uint64_t segment_start = align_down(from, segment_size);
  auto done = co_await read_extents(loaded, from - segment_start, into);
  if (!done) co_return not_read(done.error());
  co_return verify(piece, *loaded, segment_start, from, into);
}

// Held for one read, so that a store may have more volumes than a process may have open files.
Task<Result<std::shared_ptr<Volume>>> VolumeReader::open_volume(uint64_t id) {
  if (auto volume = engine().volumes->cached(id)) co_return volume;
  auto work = [engine = hold_.engine(), id] { return engine->volumes->open(id); };
  co_return co_await engine().pool().run("volume open", std::move(work));
}

Task<Result<void>> VolumeReader::read_extents(std::shared_ptr<const LoadedSegment> loaded, uint64_t from,
                                              MutableBytes into) {
  const auto& starts = loaded->starts;
  size_t i = static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), from) - starts.begin());
  if (i == 0) co_return fail(Errc::corrupt_object, "segment without extents");
  for (--i; !into.empty(); ++i) {
    if (i == starts.size()) co_return fail(Errc::corrupt_object, "segment ends early");
    const Extent& extent = loaded->segment.extents[i];
    uint64_t in_extent = from - starts[i];
    if (in_extent >= extent.length) co_return fail(Errc::corrupt_object, "segment ends early");
    size_t n = std::min<uint64_t>(into.size(), extent.length - in_extent);
    VB_CO_ASSIGN(auto volume, co_await open_volume(extent.volume));
    VB_CO_TRY(co_await engine().io->read(std::move(volume), extent.offset + in_extent, into.first(n)));
    into = into.subspan(n);
    from += n;
  }
  co_return Result<void>();
}

Result<void> VolumeReader::verify(const Piece& piece, const LoadedSegment& loaded, uint64_t segment_start,
                                  uint64_t from, Bytes bytes) const {
  bytes = bytes.first(std::min<uint64_t>(bytes.size(), piece.blob.size - from));  // the padding is not covered
  size_t block = (from - segment_start) / block_size;
  for (; !bytes.empty(); ++block) {
    size_t n = std::min<size_t>(bytes.size(), block_size);
    if (block >= loaded.segment.block_crcs.size()) return corrupt("a block has no checksum");
    if (crc32c(bytes.first(n)) != loaded.segment.block_crcs[block]) return corrupt("checksum of a block");
    bytes = bytes.subspan(n);
  }
  return {};
}

Task<Result<std::shared_ptr<const LoadedSegment>>> VolumeReader::segment(const Piece& piece, uint32_t number) {
  std::pair key(piece.blob.id, number);
  {
    std::lock_guard lock(mutex_);
    if (auto it = segments_.find(key); it != segments_.end()) co_return it->second;
  }
  // Only a read from disk is moved to a thread.
  auto loaded = load_segment(engine(), key.first, key.second, Tier::cached);
  if (!loaded && loaded.error() == Errc::would_block) {
    auto work = [engine = hold_.engine(), key] { return load_segment(*engine, key.first, key.second, Tier::disk); };
    loaded = co_await engine().pool().run("segment load", std::move(work));
  }
  if (!loaded && (loaded.error() == Errc::not_found || loaded.error() == Errc::malformed)) {
    co_return corrupt("a segment is missing");
  }
  if (!loaded) co_return loaded;
  std::lock_guard lock(mutex_);
  if (!segments_.emplace(key, *loaded).second) co_return loaded;
  // A reader of a huge object must not collect every checksum it ever read: the oldest is dropped.
  by_age_.push_back(key);
  checksums_ += (*loaded)->segment.block_crcs.size();
  while (checksums_ > checksums_max && by_age_.size() > 1) {
    const auto oldest = segments_.find(by_age_.front());
    checksums_ -= oldest->second->segment.block_crcs.size();
    segments_.erase(oldest);
    by_age_.pop_front();
  }
  co_return loaded;
}

// The only readers that VolumeBlobs makes.
const std::vector<uint64_t>& held_blobs(const ObjectReader& reader) {
  return static_cast<const VolumeReader&>(reader).held_blobs();
}

}  // namespace

std::shared_ptr<BlobWriter> VolumeBlobs::create(const Bucket& bucket, std::optional<uint64_t> size_hint) {
  return std::make_shared<VolumeBlobWriter>(engine_.shared_from_this(), volume_kind(bucket), size_hint);
}

std::shared_ptr<BlobWriter> VolumeBlobs::create_whole(const Bucket& bucket, Bytes bytes, BlobRef& ref) {
  if (bytes.size() > engine_.options.inline_max) return nullptr;
  auto writer = std::make_shared<VolumeBlobWriter>(engine_.shared_from_this(), volume_kind(bucket), bytes.size());
  ref = writer->finish_in_index(bytes);
  return writer;
}

Result<std::shared_ptr<ObjectReader>> VolumeBlobs::open(View& rows, std::string name, ObjectInfo info,
                                                        std::span<const BlobRef> blobs) {
  const auto& view = static_cast<IndexView&>(rows);  // of our catalogue
  auto reader =
      std::make_shared<VolumeReader>(engine_.shared_from_this(), view.visible(), std::move(name), std::move(info));
  VB_ASSIGN(const auto prepared, reader->prepare(blobs, view.tier()));
  if (prepared == VolumeReader::Prepared::outdated) reader.reset();
  return reader;
}

std::shared_ptr<ObjectReader> VolumeBlobs::find_kept(uint64_t object, std::string_view head) {
  return engine_.kept.find(object, head);
}

void VolumeBlobs::keep(uint64_t object, std::string head, const std::shared_ptr<ObjectReader>& reader) {
  if (const auto& blobs = held_blobs(*reader); !blobs.empty()) {
    engine_.kept.keep(object, std::move(head), blobs, reader);
  }
}

void VolumeBlobs::let_go(const std::shared_ptr<ObjectReader>& reader) {
  if (const auto& blobs = held_blobs(*reader); !blobs.empty()) engine_.kept.release({blobs.front()});
}

}  // namespace verbena::store::local
