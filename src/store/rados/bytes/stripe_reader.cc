#include "store/rados/bytes/stripe_reader.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/log.h"
#include "base/metrics.h"
#include "store/logic/record.h"
#include "store/rados/bytes/stripe_blocks.h"

namespace verbena::store::rados {
namespace {

std::unexpected<Error> corrupt(const std::string& name, const char* what) {
  static auto& counter = metrics::counter("verbena_store_corrupt_reads_total", "Reads that met damaged data");
  counter.add();
  log::error("store: {} is damaged: {}", log::printable(name), what);
  return fail(Errc::corrupt_object, what);
}

// One call and its waiters.
struct Fetch {
  Fetch(boost::asio::any_io_executor executor, BlobRef of, uint64_t number)
      : arrived(executor, boost::asio::steady_timer::time_point::max()),
        blob(of),
        stripe(number),
        stripe_bytes(std::min(stripe_size, of.size - number * stripe_size)) {}

  // Adds the part if it is adjacent to the fetched range or inside it.
  bool take(StripePart& part) {
    const BlockRange wanted = BlockRange::of(part.at, part.into.size(), stripe_bytes);
    if (!parts.empty() && (wanted.first > range.last || wanted.last < range.first)) return false;
    range = parts.empty() ? wanted : BlockRange{std::min(range.first, wanted.first), std::max(range.last, wanted.last)};
    parts.push_back(std::move(part));
    return true;
  }

  Task<Result<void>> wait() {
    boost::system::error_code woken;
    while (!result) co_await arrived.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
    co_return *result;
  }

  boost::asio::steady_timer arrived;  // never expires: cancelled when the result is there
  const BlobRef blob;
  const uint64_t stripe, stripe_bytes;
  BlockRange range;
  std::vector<StripePart> parts;
  std::optional<Result<void>> result;
};
using FetchPtr = std::shared_ptr<Fetch>;

}  // namespace

// The calls of one object's readers. Lives until the last call has ended: `hold` protects the stripes until then.
class StripeReads : public std::enable_shared_from_this<StripeReads> {
 public:
  StripeReads(Cluster& cluster, std::shared_ptr<const void> hold, std::string name)
      : cluster_(cluster), hold_(std::move(hold)), name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  FetchPtr join(const boost::asio::any_io_executor& executor, BlobRef blob, uint64_t stripe, StripePart part) {
    for (const FetchPtr& fetch : open_) {
      if (fetch->blob.id == blob.id && fetch->stripe == stripe && fetch->take(part)) return fetch;
    }
    auto fetch = std::make_shared<Fetch>(executor, blob, stripe);
    fetch->take(part);
    open_.push_back(fetch);
    // Runs after everything requested in this turn.
    boost::asio::post(executor, [self = shared_from_this(), fetch, executor] {
      std::erase(self->open_, fetch);
      boost::asio::co_spawn(executor, run(self, fetch), boost::asio::detached);
    });
    return fetch;
  }

 private:
  struct Reply {
    Buffer bytes, checksums;
    int bytes_code = 0, checksums_code = 0;
  };

  static Task<> run(std::shared_ptr<StripeReads> self, FetchPtr fetch) {
    // Wakes the waiters in any case, because nothing else would.
    Result<void> outcome = fail(Errc::internal, "rados: a read threw");
    try {
      outcome = co_await self->call(*fetch);
    } catch (const std::exception& thrown) {
      log::error("rados: a read threw: {}", thrown.what());
    }
    fetch->result = std::move(outcome);
    fetch->parts.clear();
    fetch->arrived.cancel();
  }

  Task<Result<void>> call(const Fetch& fetch) {
    const uint64_t size = fetch.range.last - fetch.range.first;
    auto reply = std::make_shared<Reply>();
    librados::ObjectReadOperation op;
    op.read(fetch.range.first, size, &reply->bytes, &reply->bytes_code);
    op.getxattr(checksums_attribute, &reply->checksums, &reply->checksums_code);
    std::string object = stripe_object(fetch.blob.id, fetch.stripe);
    const int code = co_await cluster_.read(Cluster::Pool::data, std::move(object), std::move(op), reply, size);
    if (code == -ENOENT || code == -ENODATA) co_return corrupt(name_, "a stripe is missing");
    if (code < 0) co_return std::unexpected(to_error(code, "rados: stripe"));
    const std::string checksums = to_text(reply->checksums);
    auto copied = copy_checked(std::move(reply->bytes), checksums, fetch.stripe_bytes, fetch.range, fetch.parts);
    if (!copied) co_return corrupt(name_, copied.error().context);
    co_return Result<void>{};
  }

  Cluster& cluster_;
  const std::shared_ptr<const void> hold_;
  const std::string name_;
  std::vector<FetchPtr> open_;  // not sent yet
};

StripeReader::StripeReader(BlobSpace& space, std::shared_ptr<const void> hold, std::string name, ObjectInfo info)
    : space_(space),
      info_(std::move(info)),
      reads_(std::make_shared<StripeReads>(space.cluster, std::move(hold), std::move(name))) {}

StripeReader::~StripeReader() = default;

Result<StripeReader::Prepared> StripeReader::prepare(Rows& rows, std::span<const BlobRef> blobs) {
  uint64_t at = 0;
  bool waits = false;
  for (const BlobRef& blob : blobs) {
    if (blob.size == 0) continue;
    pieces_.push_back({blob, at});
    at += blob.size;
    if (blob.kind != BlobKind::in_index) continue;
    auto value = rows.get_inline(blob.id);
    if (!value && value.error() == Errc::would_block) {
      waits = true;  // requests the others too
      continue;
    }
    if (!value && value.error() == Errc::not_found) return Prepared::outdated;
    if (!value) return std::unexpected(value.error());
    auto bytes = decode_inline(*value);
    if (!bytes || bytes->size() != blob.size) return corrupt(reads_->name(), "checksum of a small object");
    small_.emplace(blob.id, std::move(*bytes));
  }
  if (waits) return fail(Errc::would_block, "rados: small blobs");
  if (at != stored_size(info_)) return corrupt(reads_->name(), "parts do not add up");
  return Prepared::ready;
}

std::vector<StripeReader::Piece>::const_iterator StripeReader::piece_at(uint64_t offset) const {
  return std::prev(std::ranges::upper_bound(pieces_, offset, {}, &Piece::start));
}

Task<Result<memory::Chunk>> StripeReader::read(uint64_t offset, size_t length) {
  const uint64_t size = stored_size(info_);
  if (length == 0 || length > chunk_size_max) co_return fail(Errc::invalid_argument, "reader: length");
  if (offset > size || length > size - offset) co_return fail(Errc::invalid_range, "reader: range");
  VB_CO_ASSIGN(memory::Lease leased, space_.arena.lease(length));
  auto lease = std::make_shared<memory::Lease>(std::move(leased));
  auto executor = co_await boost::asio::this_coro::executor;
  std::vector<FetchPtr> fetches;
  auto piece = piece_at(offset);
  for (size_t done = 0; done < length;) {
    const uint64_t at = offset + done - piece->start;
    size_t n = std::min<uint64_t>(length - done, piece->blob.size - at);
    if (piece->blob.kind == BlobKind::in_index) {
      std::memcpy(lease->data() + done, small_.at(piece->blob.id).data() + at, n);
    } else {
      n = std::min<uint64_t>(n, stripe_size - at % stripe_size);
      StripePart part{at % stripe_size, MutableBytes(lease->data() + done, n), lease};
      fetches.push_back(reads_->join(executor, piece->blob, at / stripe_size, std::move(part)));
    }
    done += n;
    if (at + n == piece->blob.size) ++piece;
  }
  Result<void> all;
  for (const FetchPtr& fetch : fetches) {
    auto came = co_await fetch->wait();
    if (!came && all) all = std::move(came);
  }
  if (!all) co_return std::unexpected(all.error());
  const Bytes bytes(lease->data(), length);
  co_return memory::Chunk{std::move(*lease), bytes};
}

}  // namespace verbena::store::rados
