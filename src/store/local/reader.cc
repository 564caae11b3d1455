#include "store/local/reader.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "base/checksum.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/local/versions.h"

namespace verbena::store::local {
namespace {

constexpr size_t checksums_max = 256 * 1024;  // of blocks, that a reader has at hand: 1 MiB

// A blob's segment, ready to be read.
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
  std::optional<uint64_t> first() const { return blobs_.empty() ? std::nullopt : std::optional(blobs_.front()); }

 private:
  std::shared_ptr<Engine> engine_;
  std::vector<uint64_t> blobs_;
};

class StoreObjectReader final : public ObjectReader {
 public:
  StoreObjectReader(std::shared_ptr<Engine> engine, View view, std::string name, ObjectRecord record)
      : hold_(std::move(engine)), view_(view), name_(std::move(name)), record_(std::move(record)) {}

  const ObjectInfo& info() const override { return record_.info; }
  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override;
  size_t fit(uint64_t offset, size_t length, size_t memory_max) const override;

  // One of the blobs that it pins.
  std::optional<uint64_t> held_blob() const { return hold_.first(); }
  // Pins and loads; false when the object changed under the call and must be looked up again.
  Result<bool> prepare(const std::vector<StoredPart>& parts, Tier tier);

 private:
  Engine& engine() const { return *hold_.engine(); }
  std::vector<Piece>::const_iterator piece_at(uint64_t offset) const;
  Result<bool> load_inline(const Piece& piece, Tier tier);
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
  const View view_;
  const std::string name_;  // bucket/key, for the log
  const ObjectRecord record_;
  std::vector<Piece> pieces_;
  std::map<uint64_t, std::string> inline_;  // blob -> bytes, verified; small parts too
  std::mutex mutex_;
  // Of a blob, by number. Guarded by mutex_, these three.
  std::map<std::pair<uint64_t, uint32_t>, std::shared_ptr<const LoadedSegment>> segments_;
  std::deque<std::pair<uint64_t, uint32_t>> by_age_;
  size_t checksums_ = 0;
};

std::unexpected<Error> StoreObjectReader::corrupt(const char* what) const {
  static auto& counter = metrics::counter("verbena_store_corrupt_reads_total", "Reads that met damaged data");
  counter.add();
  log::error("store: {} is damaged: {}", log::printable(name_), what);
  return fail(Errc::corrupt_object, what);
}

// What is missing is damage; what the disk or the system refuses to read may be sound.
std::unexpected<Error> StoreObjectReader::not_read(const Error& error) const {
  if (is_missing(error)) return corrupt("a volume is missing or ends early");
  static auto& counter = metrics::counter("verbena_store_failed_reads_total",
                                          "Reads that the disk or the system refused; the data may be sound");
  counter.add();
  log::error("store: {} could not be read: {}", log::printable(name_), describe(error));
  return std::unexpected(error);
}

Result<bool> StoreObjectReader::load_inline(const Piece& piece, Tier tier) {
  auto value = engine().index->get(Family::in_index, keys::in_index(piece.blob.id), tier, view_);
  if (!value && value.error() == Errc::not_found) return false;
  if (!value) return std::unexpected(value.error());
  auto bytes = decode_inline(*value);
  if (!bytes || bytes->size() != piece.blob.size) return corrupt("checksum of a small object");
  value->erase(0, value->size() - bytes->size());
  inline_.emplace(piece.blob.id, std::move(*value));
  return true;
}

Result<bool> StoreObjectReader::prepare(const std::vector<StoredPart>& parts, Tier tier) {
  uint64_t at = 0;
  for (const StoredPart& part : parts) {
    if (part.blob.size != 0) pieces_.push_back({part.blob, at});
    at += part.blob.size;
  }
  if (record_.part_count != 0 && at != stored_size(record_.info)) return corrupt("parts do not add up");
  if (record_.part_count == 0 && record_.blob.size != 0) pieces_.push_back({record_.blob, 0});
  for (const Piece& piece : pieces_) {
    bool in_index = piece.blob.kind == BlobKind::in_index;
    if (!in_index && !hold_.add(piece.blob.id)) return false;
    if (in_index) {
      VB_ASSIGN(bool there, load_inline(piece, tier));
      if (!there) return false;
    }
  }
  if (pieces_.empty() || pieces_.front().blob.kind != BlobKind::extents || record_.part_count != 0) return true;
  // One blob: its first segment is wanted anyway, and its presence shows that the pin came in time.
  auto first = load_segment(engine(), record_.blob.id, 0, tier);
  if (!first && first.error() == Errc::not_found) return false;
  if (!first) return std::unexpected(first.error());
  checksums_ = (*first)->segment.block_crcs.size();
  by_age_.emplace_back(record_.blob.id, 0);
  segments_.emplace(by_age_.back(), std::move(*first));
  return true;
}

std::vector<Piece>::const_iterator StoreObjectReader::piece_at(uint64_t offset) const {
  auto after = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                [](uint64_t at, const Piece& piece) { return at < piece.start; });
  return std::prev(after);
}

// Ends with the part, so that nothing has to be gathered, and with the last block that there is memory for.
size_t StoreObjectReader::fit(uint64_t offset, size_t length, size_t memory_max) const {
  const auto it = piece_at(offset);
  const uint64_t in_piece = offset - it->start;
  const size_t in_part = std::min<uint64_t>(length, it->blob.size - in_piece);
  if (it->blob.kind == BlobKind::in_index) return std::min(in_part, memory_max);
  return std::min(in_part, memory_max - static_cast<size_t>(in_piece - align_down(in_piece, block_size)));
}

Task<Result<memory::Chunk>> StoreObjectReader::read(uint64_t offset, size_t length) {
  uint64_t size = stored_size(record_.info);
  if (length == 0 || length > chunk_size_max) co_return fail(Errc::invalid_argument, "reader: length");
  if (offset > size || length > size - offset) co_return fail(Errc::invalid_range, "reader: range");
  auto it = piece_at(offset);
  if (offset + length <= it->start + it->blob.size) co_return co_await read_piece(*it, offset - it->start, length);
  // A range over several parts: gathered.
  VB_CO_ASSIGN(memory::Lease lease, engine().options.arena->lease(length));
  size_t done = 0;
  for (; done < length; ++it) {
    uint64_t from = offset + done - it->start;
    size_t n = std::min<uint64_t>(length - done, it->blob.size - from);
    VB_CO_ASSIGN(memory::Chunk chunk, co_await read_piece(*it, from, n));
    std::memcpy(lease.data() + done, chunk.bytes.data(), n);
    done += n;
  }
  Bytes bytes(lease.data(), length);
  co_return memory::Chunk{std::move(lease), bytes};
}

// `offset` in the blob.
Task<Result<memory::Chunk>> StoreObjectReader::read_piece(const Piece& piece, uint64_t offset, size_t length) {
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
Task<Result<void>> StoreObjectReader::read_blocks(const Piece& piece, uint64_t from, MutableBytes into) {
  VB_CO_ASSIGN(auto loaded, co_await segment(piece, static_cast<uint32_t>(from / segment_size)));
  uint64_t segment_start = align_down(from, segment_size);
  auto done = co_await read_extents(loaded, from - segment_start, into);
  if (!done) co_return not_read(done.error());
  co_return verify(piece, *loaded, segment_start, from, into);
}

// Held for one read, so that a store may have more volumes than a process may have files open.
Task<Result<std::shared_ptr<Volume>>> StoreObjectReader::open_volume(uint64_t id) {
  if (auto volume = engine().volumes->cached(id)) co_return volume;
  auto work = [engine = hold_.engine(), id] { return engine->volumes->open(id); };
  co_return co_await engine().pool().run("volume open", std::move(work));
}

Task<Result<void>> StoreObjectReader::read_extents(std::shared_ptr<const LoadedSegment> loaded, uint64_t from,
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

Result<void> StoreObjectReader::verify(const Piece& piece, const LoadedSegment& loaded, uint64_t segment_start,
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

Task<Result<std::shared_ptr<const LoadedSegment>>> StoreObjectReader::segment(const Piece& piece, uint32_t number) {
  std::pair key(piece.blob.id, number);
  {
    std::lock_guard lock(mutex_);
    if (auto it = segments_.find(key); it != segments_.end()) co_return it->second;
  }
  // As in LocalStore::open(): only a read from disk is worth a thread.
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
  // A reader of a huge object must not collect every checksum it ever met: the oldest goes.
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

struct Found {
  ObjectRecord record;
  std::vector<StoredPart> parts;
};

// nullopt: the head changed between the two reads.
Result<std::optional<Found>> with_parts(Engine& engine, const Bucket& bucket, ObjectRecord record, Tier tier) {
  Found found{std::move(record), {}};
  if (found.record.part_count != 0) {
    auto parts = engine.index->get(Family::uploads, keys::object_parts(found.record.id), tier, view_of(bucket));
    if (!parts && parts.error() == Errc::not_found) return std::nullopt;
    if (!parts) return std::unexpected(parts.error());
    VB_ASSIGN(found.parts, decode_parts(*parts));
    uint64_t stored = 0;
    for (const StoredPart& part : found.parts) {
      found.record.info.parts.push_back(part.info);
      stored += part.blob.size;
    }
    found.record.info.stored_size = stored == found.record.info.size ? 0 : stored;
  }
  name_version(found.record.info, bucket.versioning.load(std::memory_order_acquire));
  return found;
}

Result<ObjectRecord> readable_record(Engine& engine, const Bucket& bucket, VersionName name, Tier tier) {
  VB_ASSIGN(ObjectRecord record, read_record(engine, bucket, name, tier));
  if (record.info.delete_marker) return fail(Errc::method_not_allowed, "the version is a delete marker");
  return record;
}

bool worth_keeping(const ObjectRecord& record) { return record.part_count != 0 || record.blob.size > segment_size; }

// All that a reader's answers depend on besides the parts, which never change.
std::string head_of(const ObjectRecord& record, const Bucket& bucket) {
  return encode(record) + static_cast<char>(bucket.versioning.load(std::memory_order_acquire));
}

constexpr int hold_attempts_max = 100;  // overwrites that may come between looking up and holding

}  // namespace

Result<ObjectInfo> stat_object(Engine& engine, const Bucket& bucket, VersionName name, Tier tier) {
  for (int i = 0; i < hold_attempts_max; ++i) {
    VB_ASSIGN(ObjectRecord record, readable_record(engine, bucket, name, tier));
    VB_ASSIGN(auto found, with_parts(engine, bucket, std::move(record), tier));
    if (found) return std::move(found->record.info);
  }
  return fail(Errc::corrupt_object, "the object's list of parts is missing");
}

Result<ObjectInfo> stat_version(Engine& engine, const Bucket& bucket, VersionName name) {
  for (int i = 0; i < hold_attempts_max; ++i) {
    VB_ASSIGN(ObjectRecord record, read_newest(engine, bucket, name));
    VB_ASSIGN(auto found, with_parts(engine, bucket, std::move(record), Tier::disk));
    if (found) return std::move(found->record.info);
  }
  return fail(Errc::corrupt_object, "the object's list of parts is missing");
}

Result<std::shared_ptr<ObjectReader>> open_object(std::shared_ptr<Engine> engine,
                                                  const std::shared_ptr<const Bucket>& bucket, VersionName name,
                                                  Tier tier) {
  for (int i = 0; i < hold_attempts_max; ++i) {
    VB_ASSIGN(ObjectRecord record, readable_record(*engine, *bucket, name, tier));
    const bool keep = worth_keeping(record);
    std::string head = keep ? head_of(record, *bucket) : std::string();
    if (keep) {
      if (auto kept = engine->kept.find(record.id, head)) return kept;
    }
    VB_ASSIGN(auto found, with_parts(*engine, *bucket, std::move(record), tier));
    if (!found) continue;
    uint64_t id = found->record.id;
    bool parts = found->record.part_count != 0;
    auto reader = std::make_shared<StoreObjectReader>(
        engine, view_of(*bucket), bucket->name + "/" + std::string(name.key), std::move(found->record));
    VB_ASSIGN(bool ready, reader->prepare(found->parts, tier));
    if (!ready) continue;
    if (parts) {
      // Were all pins in time? They were if the object is still there.
      auto again = engine->index->get(Family::uploads, keys::object_parts(id), tier, view_of(*bucket));
      if (!again && again.error() == Errc::not_found) continue;
      if (!again) return std::unexpected(again.error());
    }
    if (const auto blob = reader->held_blob(); keep && blob) {
      engine->kept.keep(id, std::move(head), *blob, reader);
      // Who removes it from now on finds it among the kept; who did before is seen here.
      auto still = read_record(*engine, *bucket, name, tier);
      if (!still || still->id != id) engine->kept.release({*blob});
    }
    return reader;
  }
  log::error("store: {}/{} names bytes that are not in the index", bucket->name, log::printable(name.key));
  return fail(Errc::corrupt_object, "the object's bytes are missing from the index");
}

}  // namespace verbena::store::local
