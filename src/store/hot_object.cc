#include "store/hot_object.h"
#include "base/copy.h"
#include "store/ends.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace verbena::store {
namespace {

constexpr size_t line = 64;           // a cache line of the processor
constexpr size_t overhead = 1 * KiB;  // of an entry and its names, roughly

// Whether a lease is so much larger than its bytes that they are copied into one that fits.
bool wasteful(const memory::Lease& lease, size_t bytes) {
  return lease.capacity() >= 2 * std::max<size_t>(bytes, 4096);
}

}  // namespace

std::shared_ptr<const void> KeptObjects::add(uint64_t term) {
  const std::lock_guard lock(mutex_);
  if (term < term_) return nullptr;  // too late: that term is over
  if (term != std::exchange(term_, term)) count_ = 0;
  ++count_;
  return {nullptr, [self = shared_from_this(), term](const void*) {
            const std::lock_guard again(self->mutex_);
            if (self->term_ == term) --self->count_;
          }};
}

uint64_t KeptObjects::count(uint64_t term) const {
  const std::lock_guard lock(mutex_);
  return term == term_ ? count_ : 0;
}

void HotObject::keep(uint64_t term, KeptObjects& among) {
  const std::lock_guard lock(keep_mutex_);
  if (kept_in_.exchange(term, std::memory_order_acq_rel) != term) counted_ = among.add(term);
}

HotObject::HotObject(memory::Arena& arena, ObjectInfo info, std::vector<Piece> pieces)
    : first_(pieces.empty() ? Bytes() : pieces.front().bytes),
      end_us_(end_us_of(info)),
      is_plain_(store::is_plain(info)),
      info_(std::move(info)),
      pieces_(std::move(pieces)),
      arena_(arena),
      held_bytes_(overhead) {
  for (const Piece& piece : pieces_) held_bytes_ += piece.lease->capacity();
}

Bytes HotObject::view(uint64_t offset, uint64_t length) const {
  if (offset <= first_.size() && length <= first_.size() - offset) return first_.subspan(offset, length);
  const uint64_t size = stored_size(info_);
  if (length == 0 || offset >= size || length > size - offset) return {};
  const Piece& piece = pieces_[offset / piece_size];
  const size_t in_piece = offset % piece_size;
  return piece.bytes.subspan(in_piece, std::min<uint64_t>(length, piece.bytes.size() - in_piece));
}

memory::Chunk HotObject::peek(uint64_t offset, uint64_t length) const {
  const Bytes bytes = view(offset, length);
  if (bytes.empty()) return {};
  return {{}, bytes, pieces_[offset / piece_size].lease};
}

void HotObject::fetch_ahead() const {
  const auto* const begin = reinterpret_cast<const char*>(this);
  const auto* const end = reinterpret_cast<const char*>(&info_.delete_marker);
  for (const char* at = begin; at < end; at += line) __builtin_prefetch(at);
}

void HotObject::fetch_ahead_behind() const {
  __builtin_prefetch(info_.etag.data());
  // Prefetch the beginning; from there on the processor predicts the rest of the copy.
  const std::byte* const end = first_.data() + std::min(first_.size(), 8 * line);
  for (const std::byte* at = first_.data(); at < end; at += line) __builtin_prefetch(at);
}

Task<Result<memory::Chunk>> HotObject::read(uint64_t offset, size_t length) {
  if (length == 0 || length > chunk_size_max) co_return fail(Errc::invalid_argument, "reader: length");
  const uint64_t size = stored_size(info_);
  if (offset > size || length > size - offset) co_return fail(Errc::invalid_range, "reader: range");
  memory::Chunk first = peek(offset, length);
  if (first.bytes.size() == length) co_return first;
  // The range spans two pieces: gather it.
  VB_CO_ASSIGN(memory::Lease lease, arena_.lease(length));
  const memory::Chunk second = peek(offset + first.bytes.size(), length - first.bytes.size());
  copy_bytes(lease.data(), first.bytes);
  copy_bytes(lease.data() + first.bytes.size(), second.bytes);
  const Bytes bytes(lease.data(), length);
  memory::Chunk whole{std::move(lease), bytes};
  co_return whole;
}

size_t HotObject::fit(uint64_t offset, size_t length, size_t memory_max) const {
  return std::min({length, memory_max, piece_size - static_cast<size_t>(offset % piece_size)});
}

HotObject::Piece HotPieces::make_piece(memory::Chunk& chunk) {
  if (wasteful(chunk.lease, chunk.bytes.size()) && chunk.bytes.size() <= 64 * KiB) {
    auto copy = arena_.lease(chunk.bytes.size());
    if (!copy) return {};
    copy_bytes(copy->data(), chunk.bytes);
    const Bytes bytes = copy->bytes();
    return {std::make_shared<const memory::Lease>(std::move(*copy)), bytes};
  }
  const Bytes bytes = chunk.bytes;
  // The peer that sent or requested these bytes is charged only while its transfer lasts.
  chunk.charge = chunk.lease.detach_charge();
  auto lease = std::make_shared<const memory::Lease>(std::move(chunk.lease));
  chunk.shared = lease;
  return {std::move(lease), bytes};
}

memory::Chunk HotPieces::take(memory::Chunk chunk, uint64_t offset, bool last) {
  const size_t index = offset / HotObject::piece_size;
  const size_t n = chunk.bytes.size();
  const bool again = index < pieces_.size() && pieces_[index].lease != nullptr;
  if (given_up_ || again || n == 0) return chunk;
  const bool is_piece = offset % HotObject::piece_size == 0 && (n == HotObject::piece_size || last) && chunk.lease;
  if (!is_piece || offset + n > size_max_ || !fill_.add(chunk.lease.capacity(), chunk.lease.payer())) {
    give_up();
    return chunk;
  }
  HotObject::Piece piece = make_piece(chunk);
  if (piece.lease == nullptr) {
    give_up();
    return chunk;
  }
  if (index >= pieces_.size()) pieces_.resize(index + 1);
  pieces_[index] = std::move(piece);
  taken_ += n;
  return chunk;
}

void HotPieces::give_up() {
  given_up_ = true;
  pieces_.clear();
  fill_.release();
}

std::shared_ptr<HotObject> HotPieces::finish(const ObjectInfo& info) {
  const uint64_t size = stored_size(info);
  if (given_up_ || taken_ != size || size == 0) return nullptr;
  const size_t count = (size + HotObject::piece_size - 1) / HotObject::piece_size;
  const bool whole = pieces_.size() == count &&
                     std::ranges::all_of(pieces_, [](const HotObject::Piece& piece) { return piece.lease != nullptr; });
  if (!whole) return nullptr;
  auto object = std::make_shared<HotObject>(arena_, info, std::move(pieces_));
  give_up();
  return object;
}

}  // namespace verbena::store
