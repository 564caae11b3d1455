// A read batch by a lease, and one that takes a lease of what it finds.
#include "native/endpoint.h"
#include "native/read_batch.h"
#include "s3/access/authorize.h"
#include "s3/objects/read.h"

namespace verbena::native {
namespace {

constexpr int leased_tries_max = 4;

bool has_flag(const Op& op, wire::Flags flag, unsigned since) { return op.has(flag) && op.version() >= since; }

}  // namespace

// Older servers do not know the flags, so older sessions do not have them.
Result<void> ReadBatch::read_leases(Bytes& body) {
  const bool gets = static_cast<wire::Type>(op_->header.type) == wire::Type::get_many;
  const bool reads = gets && has_flag(*op_, wire::flag_lease, wire::version_of_match);
  const bool takes = has_flag(*op_, wire::flag_take_lease, wire::version_of_batch_leases);
  const size_t size = (reads ? wire::lease_size : 0) + (takes ? wire::lease_wish_size : 0);
  if (body.size() < size) return fail(Errc::invalid_request, "batch: no lease behind it");
  wire::Reader in(body.last(size));
  if (reads) lease_ = in.u64();
  if (takes) wish_ = wire::get_lease_wish(in);
  if (takes && wish_.milliseconds == 0) return fail(Errc::invalid_request, "batch: a lease of no time");
  body = body.first(body.size() - size);
  leased_ = lease_ != 0 || takes;
  return {};
}

// The version that the lease holds; a request that names one is answered with that.
Leases::Found ReadBatch::held(const s3::GetRequest& request) const {
  if (lease_ == 0 || !request.version_id.empty()) return {};
  Leases* const leases = leases_of(*op_);
  return leases == nullptr ? Leases::Found{} : leases->find(lease_, request.bucket, request.key);
}

// Objects in memory need no coroutine: of a lease, if it holds what is there.
ReadBatch::Served ReadBatch::serve_leased_now(size_t index) {
  ReadSlot& slot = reply_.slot(index);
  source_.fill_request(slot);
  const Leases::Found kept = held(slot.request);
  if (kept.reader == nullptr && !taken_.is_on()) return look_now(index);
  s3::Service& service = op_->endpoint->door().service;
  const s3::BucketAccessPtr bucket = s3::held_access(service, slot.request.bucket);
  if (bucket == nullptr || !slot.request.version_id.empty()) return Served::waits;
  s3::ObjectRead read(service, op_->caller, slot.request, s3::ObjectRead::Of::bytes);
  if (read.look() != s3::ObjectRead::Step::answer || !s3::is_sent_as_it_lies(read.info())) return Served::waits;
  if (kept.reader != nullptr && !is_same_version(kept.reader->info(), read.info())) return Served::waits;
  s3::OpenObject opened = read.take();
  if (taken_.is_on() && !taken_.hold(bucket, slot.request.key, opened.reader, true)) {
    return refuse(index, Errc::slow_down);
  }
  slot.open(std::move(opened));
  return deliver_now(index);
}

// By the caller's rights of now.
Task<Result<s3::OpenObject>> ReadBatch::open_leased(const s3::GetRequest& request) {
  Leases::Found kept = held(request);
  if (kept.reader != nullptr) {
    // What is there is read as without a lease, from memory or into it, if it is what the lease holds.
    s3::Service& service = op_->endpoint->door().service;
    auto now = co_await service.store.open(request.bucket, request.key);
    Leases::Found version = kept;
    if (now && is_same_version((*now)->info(), kept.reader->info())) version.reader = std::move(*now);
    auto opened = co_await open_held(request, std::move(version));
    // A bucket that was made again is not the lease's: it is read as without one.
    if (opened || opened.error() != Errc::no_such_bucket) {
      if (opened && taken_.is_on() && !taken_.hold(kept.bucket, request.key, std::move(kept.reader), false)) {
        co_return fail(Errc::slow_down, "native: leases hold too much");
      }
      co_return opened;
    }
  }
  if (taken_.is_on() && request.version_id.empty()) co_return co_await open_to_hold(request);
  co_return co_await s3::open_object(op_->endpoint->door().service, op_->caller, request);
}

Task<Result<s3::OpenObject>> ReadBatch::open_held(const s3::GetRequest& request, Leases::Found version) {
  s3::Service& service = op_->endpoint->door().service;
  // Each time anew: a read that does not find the bucket's record in memory discards the object that it was given.
  for (int tries = 0; tries < leased_tries_max; ++tries) {
    VB_CO_ASSIGN(const s3::BucketAccessPtr bucket, co_await s3::same_bucket_access(service, *version.bucket));
    if (s3::cached_access(service, bucket->name) == nullptr) continue;
    s3::ObjectRead read(service, op_->caller, request, s3::ObjectRead::Of::bytes, {version.reader, bucket->mark});
    const s3::ObjectRead::Step step = read.look();
    if (step == s3::ObjectRead::Step::needs_bucket) continue;
    if (co_await read.finish(step) == s3::ObjectRead::Step::refusal) co_return std::unexpected(read.error());
    co_return read.take();
  }
  co_return fail(Errc::slow_down, "native: the bucket's record changes all the time");
}

Task<Result<s3::OpenObject>> ReadBatch::open_to_hold(const s3::GetRequest& request) {
  s3::Service& service = op_->endpoint->door().service;
  for (int tries = 0; tries < leased_tries_max; ++tries) {
    Result<std::shared_ptr<store::ObjectReader>> found = fail(Errc::no_such_bucket);
    auto bucket = co_await s3::bucket_access(service, request.bucket);
    if (bucket) found = co_await service.store.open(request.bucket, request.key);
    if (!found) {
      // As without a lease: whether the caller may learn that there is nothing, is for that to say.
      auto opened = co_await s3::open_object(service, op_->caller, request);
      if (!opened) co_return std::unexpected(opened.error());
      continue;  // it was stored meanwhile
    }
    const std::shared_ptr<store::ObjectReader> object = *found;
    Leases::Found version{std::move(*found), *bucket};
    auto opened = co_await open_held(request, std::move(version));
    if (!opened && opened.error() == Errc::no_such_bucket) continue;  // it was made again meanwhile
    if (!opened) co_return opened;
    if (!taken_.hold(*bucket, request.key, object, false)) {
      co_return fail(Errc::slow_down, "native: leases hold too much");
    }
    co_return opened;
  }
  co_return fail(Errc::slow_down, "native: the object changes all the time");
}

}  // namespace verbena::native
