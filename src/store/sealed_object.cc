#include "store/sealed_object.h"

#include <cstring>

#include "base/aead.h"
#include "base/log.h"
#include "base/metrics.h"

namespace verbena::store {
namespace {

constexpr uint64_t block_size = sealed_block_size;
constexpr size_t tag_size = sealed_tag_size;
constexpr uint64_t tags_kept_max = 4096;  // per reader: 64 KiB, for 256 MiB of the object
static_assert(tag_size == aead_tag_size && object_key_size == aead_key_size);

metrics::Counter& corrupt_blocks() {
  static auto& counter = metrics::counter("verbena_sealed_corrupt_reads_total",
                                          "Blocks of encrypted objects that differ from what was encrypted");
  return counter;
}

Aead part_cipher(const Secret& object_key, const Salt& salt) {
  std::string purpose("verbena sealed part ");
  purpose += as_text(salt);
  std::string key = hmac_sha256(object_key.bytes(), as_bytes(purpose));
  Aead made(as_bytes(key));
  wipe(key);
  return made;
}

AeadNonce block_nonce(uint64_t number) {
  AeadNonce nonce{};
  for (size_t i = 0; i < 8; ++i) nonce[nonce.size() - 1 - i] = static_cast<std::byte>(number >> (8 * i));
  return nonce;
}

uint64_t blocks_of(uint64_t size) { return (size + block_size - 1) / block_size; }

// The place to rewrite the chunk's bytes: the chunk itself, or a new lease if its bytes are shared.
Result<memory::Chunk> own(memory::Arena& arena, memory::Chunk& chunk, std::byte*& place) {
  if (chunk.lease && chunk.shared == nullptr) {
    place = chunk.lease.data() + (chunk.bytes.data() - chunk.lease.data());
    return memory::Chunk{std::move(chunk.lease), chunk.bytes};
  }
  VB_ASSIGN(memory::Lease lease, arena.lease(chunk.bytes.size()));
  place = lease.data();
  const Bytes bytes = lease.bytes();
  memory::Chunk owned{std::move(lease), bytes};
  owned.lease.attach(std::move(chunk.charge));
  return owned;
}

class SealingWriter final : public ObjectWriter {
 public:
  SealingWriter(std::unique_ptr<ObjectWriter> below, memory::Arena& arena, const Secret& object_key, const Salt& salt,
                std::optional<uint64_t> size)
      : below_(std::move(below)), arena_(arena), cipher_(part_cipher(object_key, salt)), size_hint_(size) {}

  Task<Result<void>> append(memory::Chunk chunk) override {
    if (chunk.bytes.empty()) co_return Result<void>();
    if (!held_.bytes.empty()) co_return fail(Errc::incomplete_body, "writer: more than was announced");
    std::byte* place = nullptr;
    const Bytes plain = chunk.bytes;
    VB_CO_ASSIGN(memory::Chunk sealed, own(arena_, chunk, place));
    seal(plain, place);
    chunk.release();
    // Only the last chunk may be held back: a caller with more to send may need its memory for that.
    if (size_ != size_hint_) co_return co_await below_->append(std::move(sealed));
    held_ = std::move(sealed);
    co_return Result<void>();
  }

  Task<Result<ObjectInfo>> commit(ObjectInfo info, CommitConditions conditions) override {
    if (info.size != size_) co_return fail(Errc::incomplete_body, "writer: the size differs from what was appended");
    if (size_ % block_size != 0) end_block();
    add_tags_to(held_);
    if (!held_.bytes.empty()) VB_CO_TRY(co_await below_->append(std::move(held_)));
    for (size_t at = 0; at < tags_.size();) {
      const size_t n = std::min(tags_.size() - at, ObjectReader::chunk_size_max);
      VB_CO_ASSIGN(memory::Lease lease, arena_.lease(n));
      std::memcpy(lease.data(), tags_.data() + at, n);
      const Bytes bytes = lease.bytes();
      memory::Chunk chunk{std::move(lease), bytes};
      VB_CO_TRY(co_await below_->append(std::move(chunk)));
      at += n;
    }
    info.stored_size = sealed_size(size_);
    co_return co_await below_->commit(std::move(info), std::move(conditions));
  }

 private:
  // Appends the tags to the last chunk if it has room, so that a small object reaches the engine in one piece.
  void add_tags_to(memory::Chunk& chunk) {
    if (!chunk.lease || tags_.empty()) return;
    const auto end = static_cast<size_t>(chunk.bytes.data() - chunk.lease.data()) + chunk.bytes.size();
    if (chunk.lease.capacity() - end < tags_.size()) return;
    std::memcpy(chunk.lease.data() + end, tags_.data(), tags_.size());
    chunk.bytes = Bytes(chunk.bytes.data(), chunk.bytes.size() + tags_.size());
    tags_.clear();
  }
  // A block may come in several pieces.
  void seal(Bytes plain, std::byte* out) {
    while (!plain.empty()) {
      const uint64_t in_block = size_ % block_size;
      if (in_block == 0) cipher_.begin(block_nonce(size_ / block_size));
      const size_t n = std::min<uint64_t>(plain.size(), block_size - in_block);
      cipher_.update(plain.first(n), out);
      plain = plain.subspan(n);
      out += n;
      size_ += n;
      if (size_ % block_size == 0) end_block();
    }
  }
  void end_block() {
    AeadTag tag;
    cipher_.end(tag);
    tags_.insert(tags_.end(), tag.begin(), tag.end());
  }

  std::unique_ptr<ObjectWriter> below_;
  memory::Arena& arena_;
  Aead cipher_;
  const std::optional<uint64_t> size_hint_;
  memory::Chunk held_;  // the last chunk, sealed
  uint64_t size_ = 0;   // plain bytes so far
  std::vector<std::byte> tags_;
};

// Used by one core at a time, like the object it belongs to.
class OpeningReader final : public ObjectReader {
 public:
  OpeningReader(std::shared_ptr<ObjectReader> below, memory::Arena& arena, const Secret& object_key,
                const std::vector<SealedPart>& parts, std::string name)
      : below_(std::move(below)), arena_(arena), object_key_(object_key.copy()), name_(std::move(name)) {
    corrupt_blocks();  // registers the counter before the first error
    uint64_t start = 0, stored = 0;
    for (const SealedPart& part : parts) {
      if (part.size != 0) pieces_.push_back({part, start, stored});
      start += part.size;
      stored += sealed_size(part.size);
    }
  }

  const ObjectInfo& info() const override { return below_->info(); }

  size_t fit(uint64_t offset, size_t length, size_t memory_max) const override {
    const Piece& piece = piece_at(offset);
    const uint64_t from = offset - piece.start;
    const size_t whole_blocks = std::min(memory_max, chunk_size_max) - static_cast<size_t>(from % block_size);
    return std::min({length, whole_blocks, static_cast<size_t>(std::min<uint64_t>(piece.part.size - from, SIZE_MAX))});
  }

  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override {
    const uint64_t size = info().size;
    if (length == 0 || length > chunk_size_max) co_return fail(Errc::invalid_argument, "reader: length");
    if (offset > size || length > size - offset) co_return fail(Errc::invalid_range, "reader: range");
    if (fit(offset, length, chunk_size_max) == length) co_return co_await read_piece(piece_at(offset), offset, length);
    // The range spans two parts, or more blocks than a chunk has: gather it.
    VB_CO_ASSIGN(memory::Lease lease, arena_.lease(length));
    for (size_t done = 0; done < length;) {
      const size_t n = fit(offset + done, length - done, chunk_size_max);
      VB_CO_ASSIGN(const memory::Chunk chunk, co_await read_piece(piece_at(offset + done), offset + done, n));
      std::memcpy(lease.data() + done, chunk.bytes.data(), n);
      done += n;
    }
    const Bytes bytes = lease.bytes().first(length);
    co_return memory::Chunk{std::move(lease), bytes};
  }

 private:
  struct Piece {
    SealedPart part;
    uint64_t start = 0;   // in the plain object
    uint64_t stored = 0;  // where its sealed bytes begin
  };
  // Tags of one piece, from block `first` on.
  struct Tags {
    const Piece* piece = nullptr;
    uint64_t first = 0;
    std::vector<std::byte> bytes;
    bool hold(const Piece& wanted, uint64_t from, uint64_t count) const {
      return piece == &wanted && from >= first && (from - first + count) * tag_size <= bytes.size();
    }
    Bytes of(uint64_t from, uint64_t count) const {
      return Bytes(bytes).subspan((from - first) * tag_size, count * tag_size);
    }
  };

  const Piece& piece_at(uint64_t offset) const {
    const auto after = std::ranges::upper_bound(pieces_, offset, {}, &Piece::start);
    return *std::prev(after);
  }

  // Whether a part's few blocks and their tags are read together: where that needs no larger lease.
  static bool read_with_tags(const Piece& piece, uint64_t low, uint64_t high) {
    if (low != 0 || high != piece.part.size || sealed_size(high) > chunk_size_max) return false;
    return memory::Arena::class_size(sealed_size(high)) == memory::Arena::class_size(high);
  }

  Task<Result<memory::Chunk>> read_piece(const Piece& piece, uint64_t offset, size_t length) {
    const uint64_t from = offset - piece.start;
    const uint64_t low = from / block_size * block_size;
    const uint64_t high = std::min(blocks_of(from + length) * block_size, piece.part.size);
    const uint64_t first = low / block_size, count = blocks_of(high - low);
    const auto n = static_cast<size_t>(high - low);
    std::shared_ptr<const Tags> tags = tags_;
    const bool kept = tags != nullptr && tags->hold(piece, first, count);
    const bool at_once = !kept && read_with_tags(piece, low, high);
    if (!kept && !at_once) {
      VB_CO_ASSIGN(tags, co_await read_tags(piece, first));
    }
    const size_t wanted = at_once ? static_cast<size_t>(sealed_size(high)) : n;
    VB_CO_ASSIGN(memory::Chunk stored, co_await below_->read(piece.stored + low, wanted));
    if (at_once) tags = keep_tags(piece, 0, stored.bytes.subspan(n));
    stored.bytes = stored.bytes.first(n);
    const Bytes sealed = stored.bytes;
    std::byte* place = nullptr;
    VB_CO_ASSIGN(memory::Chunk chunk, own(arena_, stored, place));
    VB_CO_TRY(open_blocks(piece, first, sealed, tags->of(first, count), place));
    chunk.bytes = Bytes(place, n).subspan(static_cast<size_t>(from - low), length);
    co_return chunk;
  }

  std::shared_ptr<const Tags> keep_tags(const Piece& piece, uint64_t first, Bytes bytes) {
    auto tags = std::make_shared<Tags>();
    tags->piece = &piece;
    tags->first = first;
    tags->bytes.assign(bytes.begin(), bytes.end());
    tags_ = tags;
    return tags;
  }

  Task<Result<std::shared_ptr<const Tags>>> read_tags(const Piece& piece, uint64_t first) {
    const uint64_t count = std::min(blocks_of(piece.part.size) - first, tags_kept_max);
    const uint64_t at = piece.stored + piece.part.size + first * tag_size;
    VB_CO_ASSIGN(const memory::Chunk chunk, co_await below_->read(at, static_cast<size_t>(count * tag_size)));
    co_return keep_tags(piece, first, chunk.bytes);
  }

  Result<void> open_blocks(const Piece& piece, uint64_t block, Bytes sealed, Bytes tags, std::byte* out) {
    if (!cipher_ || cipher_piece_ != &piece) {
      cipher_.emplace(part_cipher(object_key_, piece.part.salt));
      cipher_piece_ = &piece;
    }
    for (; !sealed.empty(); ++block) {
      const size_t n = std::min<size_t>(sealed.size(), block_size);
      if (!cipher_->open(block_nonce(block), {}, sealed.first(n), tags.first(tag_size), out)) return corrupt();
      sealed = sealed.subspan(n);
      tags = tags.subspan(tag_size);
      out += n;
    }
    return {};
  }

  std::unexpected<Error> corrupt() const {
    corrupt_blocks().add();
    log::error("store: {}: an encrypted block differs from what was encrypted", log::printable(name_));
    return fail(Errc::corrupt_object, "sealed block");
  }

  std::shared_ptr<ObjectReader> below_;
  memory::Arena& arena_;
  const Secret object_key_;
  const std::string name_;
  std::vector<Piece> pieces_;  // without empty ones
  std::shared_ptr<const Tags> tags_;
  std::optional<Aead> cipher_;
  const Piece* cipher_piece_ = nullptr;  // the piece whose key is loaded
};

}  // namespace

Result<Salt> read_salt(const Attributes& attributes) {
  const std::string* const text = find_attribute(attributes, salt_attribute);
  Salt salt;
  if (text == nullptr || text->size() != salt.size()) return fail(Errc::corrupt_object, "encryption: salt");
  std::ranges::copy(as_bytes(*text), salt.begin());
  return salt;
}

Result<std::vector<NumberedPart>> numbered_parts(const ObjectInfo& info) {
  std::vector<NumberedPart> parts;
  if (info.parts.empty()) {
    VB_ASSIGN(const Salt salt, read_salt(info.attributes));
    parts.push_back({0, {info.size, salt}});
    return parts;
  }
  parts.reserve(info.parts.size());
  for (const PartInfo& part : info.parts) {
    VB_ASSIGN(const Salt salt, read_salt(part.attributes));
    parts.push_back({part.number, {part.size, salt}});
  }
  return parts;
}

std::unique_ptr<ObjectWriter> make_sealing_writer(std::unique_ptr<ObjectWriter> below, memory::Arena& arena,
                                                  const Secret& object_key, const Salt& salt,
                                                  std::optional<uint64_t> size) {
  return std::make_unique<SealingWriter>(std::move(below), arena, object_key, salt, size);
}

Result<std::shared_ptr<ObjectReader>> make_opening_reader(std::shared_ptr<ObjectReader> below, memory::Arena& arena,
                                                          const Secret& object_key, std::vector<SealedPart> parts,
                                                          std::string name) {
  uint64_t size = 0, stored = 0;
  for (const SealedPart& part : parts) {
    size += part.size;
    stored += sealed_size(part.size);
  }
  if (size != below->info().size || stored != stored_size(below->info())) {
    return fail(Errc::corrupt_object, "sealed object: sizes");
  }
  return std::make_shared<OpeningReader>(std::move(below), arena, object_key, parts, std::move(name));
}

}  // namespace verbena::store
