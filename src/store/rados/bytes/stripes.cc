#include "store/rados/bytes/stripes.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "store/rados/bytes/stripe_reader.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr size_t stripes_in_flight_max = 4;  // per writer
constexpr uint64_t blobs_warned_of = BlobSpace::blobs_max / 4 * 3;

}  // namespace

uint64_t BlobSpace::next_blob() {
  const uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  if (number == blobs_warned_of)
    log::warn("rados: restart this server: three quarters of its object numbers are used up");
  if (number < blobs_max) return garbage->incarnation() << 32 | number;
  if (number == blobs_max) log::error("rados: this server has written {} objects and must be restarted", number);
  return 0;
}

// Writes in progress. Used on the writer's core.
struct StripeWriter::Flights {
  Flights(boost::asio::any_io_executor executor, const std::shared_ptr<Garbage>& collector)
      : landed(executor), garbage(collector) {}
  ~Flights() {
    // Called when the last write has ended and no change has taken the blob.
    if (!abandoned) return;
    if (const auto collector = garbage.lock()) collector->discard(blob, size);
  }
  boost::asio::steady_timer landed;
  const std::weak_ptr<Garbage> garbage;  // the store may be gone
  size_t count = 0;
  int error = 0;
  bool abandoned = false;
  uint64_t blob = 0, size = 0;

  static Task<> fly(std::shared_ptr<Flights> flights, Cluster& cluster, std::string object, StripeFill::Stripe stripe) {
    const size_t size = stripe.bytes.length();
    librados::ObjectWriteOperation op;
    op.write_full(stripe.bytes);
    op.setxattr(checksums_attribute, to_buffer(stripe.checksums));
    stripe.bytes.clear();
    const int code = co_await cluster.write(Pool::data, std::move(object), std::move(op), size);
    if (code < 0 && flights->error == 0) flights->error = code;
    --flights->count;
    flights->landed.cancel();
  }
};

StripeWriter::StripeWriter(BlobSpace& space) : space_(space), life_(space.garbage->life()) {}

StripeWriter::~StripeWriter() {
  if (!striped_ || kept_ || !flights_) return;
  flights_->abandoned = true;
  flights_->blob = id_;
  flights_->size = size_;
}

// Copies the chunk and releases it at once: librados may hold its buffers longer than any answer takes.
Task<Result<void>> StripeWriter::append(memory::Chunk chunk) {
  if (size_ + chunk.bytes.size() > stored_size_max) co_return fail(Errc::entity_too_large);
  if (id_ == 0 && !chunk.bytes.empty()) id_ = space_.next_blob();
  if (id_ == 0 && !chunk.bytes.empty())
    co_return fail(Errc::service_unavailable, "The server has no more numbers for objects, and must be restarted.");
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
    const size_t n = std::min<size_t>(bytes.size(), stripe_size - stripe_.size());
    stripe_.add(bytes.first(n));
    bytes = bytes.subspan(n);
    if (stripe_.size() == stripe_size) launch();
  }
}

void StripeWriter::launch() {
  ++flights_->count;
  auto flight = Flights::fly(flights_, space_.cluster, stripe_object(id_, stripes_++), stripe_.take());
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
  if (stripe_.size() != 0) launch();
  VB_CO_TRY(co_await wait_for_room(0));
  co_return BlobRef{BlobKind::extents, id_, size_};
}

std::shared_ptr<BlobWriter> StripedBlobs::create(const Bucket&, std::optional<uint64_t>) {
  return std::make_shared<StripeWriter>(space_);
}

Result<std::shared_ptr<ObjectReader>> StripedBlobs::open(View& rows, std::string name, ObjectInfo info,
                                                         std::span<const BlobRef> blobs) {
  auto* const found = dynamic_cast<Rows*>(&rows);  // null: the view without rows, where nothing is at hand
  if (found == nullptr) return fail(Errc::would_block, "rados");
  VB_ASSIGN(const VersionToken version_token, decode_version_token(found->version_token().value_or("")));
  info.stamp = version_token.token;
  auto reader = std::make_shared<StripeReader>(space_, found->hold(), std::move(name), std::move(info));
  VB_ASSIGN(const auto prepared, reader->prepare(*found, blobs));
  if (prepared == StripeReader::Prepared::outdated) return nullptr;
  return reader;
}

}  // namespace verbena::store::rados
