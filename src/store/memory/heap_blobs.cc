#include "store/memory/heap_blobs.h"

#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/logic/record.h"

namespace verbena::store::in_memory {

HeapBlob::~HeapBlob() {
  for (Block& block : blocks_) {
    account_->bytes -= block.capacity;
    account_->free.give(std::move(block.bytes), block.capacity);
  }
  --account_->blobs;
}

void HeapBlob::resize(Block& block, uint32_t capacity) {
  auto bytes = account_->free.take(capacity);
  if (block.size != 0) std::memcpy(bytes.get(), block.bytes.get(), block.size);
  account_->bytes += capacity;
  account_->bytes -= block.capacity;
  std::swap(block.bytes, bytes);
  if (bytes != nullptr) account_->free.give(std::move(bytes), block.capacity);
  block.capacity = capacity;
}

void HeapBlob::append(Bytes bytes, std::optional<uint64_t> more) {
  while (!bytes.empty()) {
    if (blocks_.empty() || blocks_.back().size == block_size) {
      const uint64_t known = std::max<uint64_t>(more.value_or(block_size), bytes.size());
      resize(blocks_.emplace_back(), static_cast<uint32_t>(std::min<uint64_t>(known, block_size)));
    }
    Block& last = blocks_.back();
    if (last.size == last.capacity) resize(last, block_size);  // more than announced
    const size_t n = std::min<size_t>(bytes.size(), last.capacity - last.size);
    std::memcpy(last.bytes.get() + last.size, bytes.data(), n);
    last.size += static_cast<uint32_t>(n);
    last.crc = crc32c({last.bytes.get() + last.size - n, n}, last.crc);
    size_ += n;
    bytes = bytes.subspan(n);
    if (more) more = *more > n ? *more - n : 0;
  }
}

void HeapBlob::finish() {
  if (!blocks_.empty() && blocks_.back().size != blocks_.back().capacity) resize(blocks_.back(), blocks_.back().size);
}

Result<void> HeapBlob::read(uint64_t offset, MutableBytes into) const {
  while (!into.empty()) {
    const Block& block = blocks_[offset / block_size];
    if (crc32c(Bytes(block.bytes.get(), block.size)) != block.crc) return fail(Errc::corrupt_object, "block");
    const size_t at = offset % block_size;
    const size_t n = std::min<size_t>(into.size(), block.size - at);
    std::memcpy(into.data(), block.bytes.get() + at, n);
    into = into.subspan(n);
    offset += n;
  }
  return {};
}

void HeapBlob::flip_bit(uint64_t offset) {
  if (offset < size_) blocks_[offset / block_size].bytes[offset % block_size] ^= std::byte{1};
}

namespace {

class HeapWriter final : public BlobWriter {
 public:
  HeapWriter(const HeapBlobs& blobs, std::shared_ptr<HeapBlob> blob, uint64_t id, std::optional<uint64_t> size_hint)
      : blobs_(blobs), blob_(std::move(blob)), id_(id), size_hint_(size_hint) {}

  uint64_t size() const override { return blob_->size(); }
  Task<Result<void>> append(memory::Chunk chunk) override {
    const size_t n = chunk.bytes.size();
    if (blob_->size() + n > stored_size_max) co_return fail(Errc::entity_too_large);
    if (!blobs_.has_space(n)) co_return fail(Errc::insufficient_storage, "store: the memory for objects is full");
    std::optional<uint64_t> more;
    if (size_hint_ && *size_hint_ > blob_->size()) more = *size_hint_ - blob_->size();
    blob_->append(chunk.bytes, more);
    co_return Result<void>{};
  }
  Task<Result<BlobRef>> finish() override {
    blob_->finish();
    if (blob_->size() == 0) co_return BlobRef{};
    co_return BlobRef{BlobKind::extents, id_, blob_->size()};
  }

  uint64_t id() const override { return id_; }
  const std::shared_ptr<HeapBlob>& blob() const { return blob_; }

 private:
  const HeapBlobs& blobs_;  // the store outlives its writers
  const std::shared_ptr<HeapBlob> blob_;
  const uint64_t id_;
  const std::optional<uint64_t> size_hint_;
};

class HeapReader final : public ObjectReader {
 public:
  struct Piece {
    std::shared_ptr<HeapBlob> blob;
    uint64_t start = 0;  // in the object
  };
  HeapReader(memory::Arena& arena, std::string name, ObjectInfo info, std::vector<Piece> pieces)
      : arena_(arena), name_(std::move(name)), info_(std::move(info)), pieces_(std::move(pieces)) {}

  const ObjectInfo& info() const override { return info_; }

  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override {
    const uint64_t size = stored_size(info_);
    if (length == 0 || length > chunk_size_max) co_return fail(Errc::invalid_argument, "reader: length");
    if (offset > size || length > size - offset) co_return fail(Errc::invalid_range, "reader: range");
    VB_CO_ASSIGN(memory::Lease lease, arena_.lease(length));
    auto piece = piece_at(offset);
    for (size_t done = 0; done < length; ++piece) {
      const uint64_t in_piece = offset + done - piece->start;
      const size_t n = std::min<uint64_t>(length - done, piece->blob->size() - in_piece);
      if (auto copied = piece->blob->read(in_piece, MutableBytes(lease.data() + done, n)); !copied) {
        co_return corrupt(copied.error());
      }
      done += n;
    }
    const Bytes bytes(lease.data(), length);
    co_return memory::Chunk{std::move(lease), bytes};
  }

  std::vector<Piece>::const_iterator piece_at(uint64_t offset) const {
    const auto after = std::ranges::upper_bound(pieces_, offset, {}, &Piece::start);
    return std::prev(after);
  }

 private:
  std::unexpected<Error> corrupt(const Error& error) const {
    static auto& counter = metrics::counter("verbena_store_corrupt_reads_total", "Reads that met damaged data");
    counter.add();
    log::error("store: {} is damaged: {}", log::printable(name_), describe(error));
    return std::unexpected(error);
  }

  memory::Arena& arena_;
  const std::string name_;
  const ObjectInfo info_;
  const std::vector<Piece> pieces_;
};

}  // namespace

std::shared_ptr<BlobWriter> HeapBlobs::create(const Bucket&, std::optional<uint64_t> size_hint) {
  return std::make_shared<HeapWriter>(*this, std::make_shared<HeapBlob>(account_), ++last_id_, size_hint);
}

std::shared_ptr<BlobWriter> HeapBlobs::create_whole(const Bucket&, Bytes bytes, BlobRef& ref) {
  if (!has_space(bytes.size())) return nullptr;
  auto blob = std::make_shared<HeapBlob>(account_);
  blob->append(bytes, bytes.size());
  blob->finish();
  ref = {BlobKind::extents, ++last_id_, bytes.size()};
  return std::make_shared<HeapWriter>(*this, std::move(blob), ref.id, ref.size);
}

Result<std::shared_ptr<ObjectReader>> HeapBlobs::open(View&, std::string name, ObjectInfo info,
                                                      std::span<const BlobRef> blobs) {
  std::vector<HeapReader::Piece> pieces;
  uint64_t at = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const BlobRef& blob : blobs) {
      if (blob.size == 0) continue;
      const auto found = blobs_.find(blob.id);
      if (found == blobs_.end()) return nullptr;
      pieces.push_back({found->second, at});
      at += blob.size;
    }
  }
  if (at != stored_size(info)) return fail(Errc::corrupt_object, "store: parts do not add up");
  return std::make_shared<HeapReader>(arena_, std::move(name), std::move(info), std::move(pieces));
}

void HeapBlobs::add(const BlobWriter& writer) {
  const auto& written = static_cast<const HeapWriter&>(writer);
  if (written.size() == 0) return;
  const std::lock_guard lock(mutex_);
  blobs_.emplace_hint(blobs_.end(), written.id(), written.blob());
}

std::shared_ptr<const HeapBlob> HeapBlobs::take(uint64_t id) {
  const std::lock_guard lock(mutex_);
  auto taken = blobs_.extract(id);
  return taken.empty() ? nullptr : std::move(taken.mapped());
}

std::vector<uint64_t> HeapBlobs::ids() {
  const std::lock_guard lock(mutex_);
  std::vector<uint64_t> ids;
  for (const auto& [id, blob] : blobs_) ids.push_back(id);
  return ids;
}

void HeapBlobs::flip_bit(ObjectReader& reader, uint64_t offset) {
  if (offset >= stored_size(reader.info())) return;
  const auto piece = static_cast<HeapReader&>(reader).piece_at(offset);
  piece->blob->flip_bit(offset - piece->start);
}

}  // namespace verbena::store::in_memory
