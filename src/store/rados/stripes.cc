#include "store/rados/stripes.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/checksum.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/logic/keys.h"
#include "store/logic/record.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr size_t stripes_in_flight_max = 4;  // of one writer

}  // namespace

// Writes under way. Of the writer's core.
struct StripeWriter::Flights {
  Flights(boost::asio::any_io_executor executor, const std::shared_ptr<Garbage>& collector)
      : landed(executor), garbage(collector) {}
  ~Flights() {
    // The last write has ended, and no change has the blob.
    if (!abandoned) return;
    if (const auto collector = garbage.lock()) collector->discard(blob, size);
  }
  boost::asio::steady_timer landed;
  const std::weak_ptr<Garbage> garbage;  // of a store that may have gone
  size_t count = 0;
  int error = 0;
  bool abandoned = false;
  uint64_t blob = 0, size = 0;

  static Task<> fly(std::shared_ptr<Flights> flights, Cluster& cluster, std::string object, Buffer bytes,
                    std::string checksums) {
    const size_t size = bytes.length();
    librados::ObjectWriteOperation op;
    op.write_full(bytes);
    op.setxattr(checksums_attribute, to_buffer(checksums));
    bytes.clear();
    const int code = co_await cluster.write(Pool::data, std::move(object), std::move(op), size);
    if (code < 0 && flights->error == 0) flights->error = code;
    --flights->count;
    flights->landed.cancel();
  }
};

StripeWriter::StripeWriter(BlobSpace& space) : space_(space), id_(space.next_blob()), life_(space.garbage->life()) {}

StripeWriter::~StripeWriter() {
  if (!striped_ || kept_ || !flights_) return;
  flights_->abandoned = true;
  flights_->blob = id_;
  flights_->size = size_;
}

// The chunk's memory goes back at once: what librados is given it may hold for longer than any answer takes.
Task<Result<void>> StripeWriter::append(memory::Chunk chunk) {
  if (size_ + chunk.bytes.size() > stored_size_max) co_return fail(Errc::entity_too_large);
  if (space_.garbage->full()) co_return std::unexpected(to_error(-ENOSPC, "rados: stripe"));
  if (!flights_) {
    auto executor = co_await boost::asio::this_coro::executor;
    flights_ = std::make_shared<Flights>(executor, space_.garbage);
  }
  if (!striped_ && size_ + chunk.bytes.size() <= inline_max) {
    small_.append(as_text(chunk.bytes));
    size_ += chunk.bytes.size();
    co_return Result<void>{};
  }
  if (!std::exchange(striped_, true)) {
    size_ = 0;
    const std::string before = std::exchange(small_, {});
    add(as_bytes(before));
  }
  add(chunk.bytes);
  chunk.release();
  co_return co_await wait_for_room(stripes_in_flight_max);
}

void StripeWriter::add(Bytes bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    const size_t n = std::min<size_t>(bytes.size(), stripe_size - stripe_.length());
    add_to_block(bytes.first(n));
    bytes = bytes.subspan(n);
    if (stripe_.length() == stripe_size) launch();
  }
}

void StripeWriter::add_to_block(Bytes bytes) {
  const auto* from = reinterpret_cast<const char*>(bytes.data());
  uint64_t at = stripe_.length();
  stripe_.push_back(ceph::buffer::copy(from, static_cast<unsigned>(bytes.size())));
  while (!bytes.empty()) {
    const size_t n = std::min<size_t>(bytes.size(), block_size - at % block_size);
    crc_ = crc32c(bytes.first(n), crc_);
    at += n;
    if (at % block_size == 0) keys::append_number(checksums_, std::exchange(crc_, 0), 4);
    bytes = bytes.subspan(n);
  }
}

void StripeWriter::launch() {
  if (stripe_.length() % block_size != 0) keys::append_number(checksums_, std::exchange(crc_, 0), 4);
  ++flights_->count;
  auto flight = Flights::fly(flights_, space_.cluster, stripe_object(id_, stripes_++), std::exchange(stripe_, {}),
                             std::exchange(checksums_, {}));
  boost::asio::co_spawn(flights_->landed.get_executor(), std::move(flight), boost::asio::detached);
}

Task<Result<void>> StripeWriter::wait_for_room(size_t in_flight_max) {
  const auto flights = flights_;
  while (flights->count > in_flight_max) {
    flights->landed.expires_at(boost::asio::steady_timer::time_point::max());
    boost::system::error_code woken;
    co_await flights->landed.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
  }
  if (flights->error != 0) co_return std::unexpected(to_error(flights->error, "rados: stripe"));
  co_return Result<void>{};
}

Task<Result<BlobRef>> StripeWriter::finish() {
  if (size_ == 0) co_return BlobRef{};
  if (!striped_) co_return BlobRef{BlobKind::in_index, id_, size_};
  if (stripe_.length() != 0) launch();
  VB_CO_TRY(co_await wait_for_room(0));
  co_return BlobRef{BlobKind::extents, id_, size_};
}

namespace {

struct Piece {
  BlobRef blob;
  uint64_t start = 0;  // in the object
};

class StripeReader final : public ObjectReader {
 public:
  StripeReader(BlobSpace& space, std::shared_ptr<const void> hold, std::string name, ObjectInfo info)
      : space_(space), hold_(std::move(hold)), name_(std::move(name)), info_(std::move(info)) {}

  // would_block; false: a small blob has gone.
  Result<bool> prepare(Rows& rows, std::span<const BlobRef> blobs) {
    uint64_t at = 0;
    bool waits = false;
    for (const BlobRef& blob : blobs) {
      if (blob.size == 0) continue;
      pieces_.push_back({blob, at});
      at += blob.size;
      if (blob.kind != BlobKind::in_index) continue;
      auto value = rows.get_inline(blob.id);
      if (!value && value.error() == Errc::would_block) {
        waits = true;  // the others are asked for, too
        continue;
      }
      if (!value && value.error() == Errc::not_found) return false;
      if (!value) return std::unexpected(value.error());
      auto bytes = decode_inline(*value);
      if (!bytes || bytes->size() != blob.size) return corrupt("checksum of a small object");
      small_.emplace(blob.id, std::move(*bytes));
    }
    if (waits) return fail(Errc::would_block, "rados: small blobs");
    if (at != stored_size(info_)) return corrupt("parts do not add up");
    return true;
  }

  const ObjectInfo& info() const override { return info_; }

  Task<Result<memory::Chunk>> read(uint64_t offset, size_t length) override {
    const uint64_t size = stored_size(info_);
    if (length == 0 || length > chunk_size_max) co_return fail(Errc::invalid_argument, "reader: length");
    if (offset > size || length > size - offset) co_return fail(Errc::invalid_range, "reader: range");
    VB_CO_ASSIGN(memory::Lease lease, space_.arena.lease(length));
    auto piece = std::prev(std::ranges::upper_bound(pieces_, offset, {}, &Piece::start));
    for (size_t done = 0; done < length; ++piece) {
      const uint64_t in_piece = offset + done - piece->start;
      const size_t n = std::min<uint64_t>(length - done, piece->blob.size - in_piece);
      const MutableBytes into(lease.data() + done, n);
      VB_CO_TRY(co_await read_piece(*piece, in_piece, into));
      done += n;
    }
    const Bytes bytes(lease.data(), length);
    co_return memory::Chunk{std::move(lease), bytes};
  }

 private:
  struct Reply {
    Buffer bytes, checksums;
    int bytes_code = 0, checksums_code = 0;
  };

  Task<Result<void>> read_piece(const Piece& piece, uint64_t offset, MutableBytes into) {
    if (piece.blob.kind == BlobKind::in_index) {
      std::memcpy(into.data(), small_.at(piece.blob.id).data() + offset, into.size());
      co_return Result<void>{};
    }
    while (!into.empty()) {
      const uint64_t stripe = offset / stripe_size, at = offset % stripe_size;
      const size_t n = std::min<uint64_t>(into.size(), stripe_size - at);
      VB_CO_TRY(co_await read_stripe(piece.blob, stripe, at, into.first(n)));
      into = into.subspan(n);
      offset += n;
    }
    co_return Result<void>{};
  }

  Task<Result<void>> read_stripe(BlobRef blob, uint64_t stripe, uint64_t at, MutableBytes into) {
    const uint64_t size = std::min(stripe_size, blob.size - stripe * stripe_size);
    const uint64_t first = at / block_size * block_size;
    const uint64_t last = std::min(size, (at + into.size() + block_size - 1) / block_size * block_size);
    auto reply = std::make_shared<Reply>();
    librados::ObjectReadOperation op;
    op.read(first, last - first, &reply->bytes, &reply->bytes_code);
    op.getxattr(checksums_attribute, &reply->checksums, &reply->checksums_code);
    const int code = co_await space_.cluster.read(Pool::data, stripe_object(blob.id, stripe), std::move(op), reply);
    if (code == -ENOENT || code == -ENODATA) co_return corrupt("a stripe is missing");
    if (code < 0) co_return std::unexpected(to_error(code, "rados: stripe"));
    const std::string checksums = to_text(reply->checksums);
    if (reply->bytes.length() != last - first || checksums.size() != (size + block_size - 1) / block_size * 4) {
      co_return corrupt("a stripe ends early");
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(reply->bytes.c_str());
    for (uint64_t block = first; block < last; block += block_size) {
      const Bytes whole(bytes + (block - first), std::min(block_size, last - block));
      const auto wanted = std::string_view(checksums).substr(block / block_size * 4, 4);
      if (crc32c(whole) != keys::read_number(wanted)) co_return corrupt("checksum of a block");
    }
    std::memcpy(into.data(), bytes + (at - first), into.size());
    co_return Result<void>{};
  }

  std::unexpected<Error> corrupt(const char* what) const {
    static auto& counter = metrics::counter("verbena_store_corrupt_reads_total", "Reads that met damaged data");
    counter.add();
    log::error("store: {} is damaged: {}", log::printable(name_), what);
    return fail(Errc::corrupt_object, what);
  }

  BlobSpace& space_;
  const std::shared_ptr<const void> hold_;
  const std::string name_;
  const ObjectInfo info_;
  std::vector<Piece> pieces_;
  std::map<uint64_t, std::string> small_;
};

}  // namespace

std::shared_ptr<BlobWriter> StripedBlobs::create(const Bucket&, std::optional<uint64_t>) {
  return std::make_shared<StripeWriter>(space_);
}

Result<std::shared_ptr<ObjectReader>> StripedBlobs::open(View& rows, std::string name, ObjectInfo info,
                                                         std::span<const BlobRef> blobs) {
  auto* const found = dynamic_cast<Rows*>(&rows);  // none: what is at hand, which is nothing
  if (found == nullptr) return fail(Errc::would_block, "rados");
  VB_ASSIGN(const Guard guard, decode_guard(found->guard().value_or("")));
  info.stamp = guard.token;
  auto reader = std::make_shared<StripeReader>(space_, found->hold(), std::move(name), std::move(info));
  VB_ASSIGN(const bool there, reader->prepare(*found, blobs));
  if (!there) return nullptr;
  return reader;
}

}  // namespace verbena::store::rados
