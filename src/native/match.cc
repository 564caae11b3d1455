#include "native/match.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

#include "native/endpoint.h"
#include "s3/access/authorize.h"
#include "s3/access/quota.h"
#include "s3/names.h"
#include "s3/objects/read.h"

namespace verbena::native {
// Ends with its coroutine, however that ends.
struct Matching::Running {
  explicit Running(std::shared_ptr<Matching> m) : matching(std::move(m)) {}
  Running(const Running&) = delete;
  ~Running() {
    matching->op_->endpoint->end_read_ahead(*matching->op_->stream->client);
    --matching->running_;
    matching->ended_.cancel();
  }
  std::shared_ptr<Matching> matching;
};

Matching::Matching(OpPtr op)
    : op_(std::move(op)),
      hot_(op_->endpoint->door().service, op_->caller, op_->bucket),
      out_(op_->body_space(), op_->match->details),
      ended_(op_->endpoint->core().io(), SteadyClock::time_point::max()) {
  const auto patience = std::chrono::milliseconds(op_->header.timeout_ms);
  until_ = patience.count() == 0 ? Deadline::max() : deadline_in(patience);
  turn_until_ = deadline_in(turn_time);
}

Task<void> Matching::serve(std::shared_ptr<Matching> self) {
  const std::shared_ptr<Endpoint> endpoint = self->op_->endpoint;
  // Yields to what arrived earlier.
  if (!endpoint->may_serve_at_once()) co_await endpoint->turn();
  const auto done = co_await self->run();
  self->account();
  const uint64_t lease = self->lease_.finish(done.has_value());
  wire::MatchWriter& out = self->out_;
  OpPtr op = std::move(self->op_);
  if (done) {
    op->body_size = out.finish(lease);
  } else {
    op->fail(done.error().code);
  }
  endpoint->reply(std::move(op));
}

Task<Result<void>> Matching::run() {
  if (op_->match->lease_ms != 0) co_await begin_lease();
  VB_CO_TRY(keys_.open(*op_));
  for (const uint32_t count : op_->match->counts) {
    if (!out_.begin_list()) break;
    VB_CO_ASSIGN(const bool goes_on, co_await match_list(count));
    if (!goes_on) break;
  }
  co_return Result<void>{};
}

Task<Result<bool>> Matching::match_list(uint32_t count) {
  for (uint32_t left = count; left != 0;) {
    if (is_turn_over()) co_await take_turn();
    if (is_late()) {
      out_.end_list(Errc::ok, true);
      co_return false;
    }
    if (keys_.must_fetch()) VB_CO_TRY(co_await keys_.fetch());
    // Rates admit few keys at once.
    const bool rated = auth::rates_are_in_use();
    const MatchKeys::Some keys = keys_.next(rated ? std::min<size_t>(left, together) : left);
    left -= static_cast<uint32_t>(keys.size());
    Result<void> admitted;
    if (rated) admitted = co_await admit(keys.size());
    if (!admitted) {
      keys_.skip(left);
      out_.end_list(wire_code(admitted.error().code), false);
      co_return true;
    }
    const size_t counted = count_at_a_glance(keys);
    if (!full_ && counted < keys.size()) co_await count_each(keys.subspan(counted));
    if (full_ || end_ != Errc::ok) {
      keys_.skip(left);
      out_.end_list(std::exchange(end_, Errc::ok), full_);
      co_return !full_;
    }
    in_turn_ += (counted + glances_a_key - 1) / glances_a_key + keys.size() - counted;
  }
  out_.end_list(Errc::ok, false);
  co_return true;
}

size_t Matching::count_at_a_glance(MatchKeys::Some keys) {
  if (lease_.is_on() || !keys_.are_packed() || !still_allowed() || !hot_.looks_in_memory()) return 0;
  std::array<uint64_t, cache::KeyRun::count_max> sizes;
  op_->endpoint->door().service.store.hot_sizes(keys_.run(keys), sizes);
  size_t known = 0;
  for (size_t equal = 0; known < keys.size() && sizes[known] != store::Store::not_hot; known += equal) {
    for (equal = 1; known + equal < keys.size() && sizes[known + equal] == sizes[known];) ++equal;
    full_ = !out_.add(wire::KeyPlace::memory, sizes[known], static_cast<uint32_t>(equal));
    if (full_) break;
  }
  looked_at_ += known;
  if (!op_->is_told()) {
    counted_ += known;
    return known;
  }
  for (size_t i = 0; i < known; ++i) {
    op_->endpoint->account(*op_, {.bucket_name = op_->bucket, .key = keys[i], .object_size = sizes[i]});
  }
  return known;
}

Task<void> Matching::count_each(MatchKeys::Some keys) {
  while (!keys.empty()) {
    const MatchKeys::Some some = keys.first(std::min(keys.size(), together));
    keys = keys.subspan(some.size());
    co_await look(some);
    for (size_t i = 0; i < some.size(); ++i) {
      if (count(some[i], seen_[i])) continue;
      if (!full_) end_ = seen_[i].code;
      co_return;
    }
  }
}

bool Matching::is_late() const {
  return op_->stream->closed || (until_ != Deadline::max() && SteadyClock::now() >= until_);
}

// Asked for each group: keys and policies change meanwhile.
bool Matching::still_allowed() {
  if (!op_->endpoint->still_known(*op_->stream)) return false;
  if (Endpoint::is_old(op_->caller, *op_->stream)) Endpoint::renew(op_->caller, *op_->stream);
  return true;
}

// Each key is a request. The first one was admitted with the message.
Task<Result<void>> Matching::admit(size_t keys) {
  const bool first = !std::exchange(admitted_, true);
  const std::array<s3::BucketRequests, 1> asked{{{op_->bucket, keys - (first ? 1 : 0)}}};
  s3::RateRefusal refusal;
  co_return co_await s3::admit_requests(op_->endpoint->door().service, op_->caller, asked, refusal);
}

bool Matching::is_turn_over() const {
  return in_turn_ >= turn_keys || (in_turn_ != 0 && SteadyClock::now() >= turn_until_);
}

Task<void> Matching::take_turn() {
  op_->endpoint->took_turn(in_turn_, 0);
  in_turn_ = 0;
  co_await op_->endpoint->turn();
  turn_until_ = deadline_in(turn_time);
}

Task<void> Matching::look(MatchKeys::Some keys) {
  for (Seen& seen : seen_) seen = {};
  if (!still_allowed()) {
    for (Seen& seen : seen_) seen.code = Errc::access_denied;
    co_return;
  }
  look_in_memory(keys);
  Endpoint& endpoint = *op_->endpoint;
  ClientLoad& client = *op_->stream->client;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (seen_[i].known) continue;
    const bool last = std::all_of(seen_.begin() + static_cast<ptrdiff_t>(i) + 1,
                                  seen_.begin() + static_cast<ptrdiff_t>(keys.size()), [](auto& s) { return s.known; });
    if (last || !endpoint.may_read_ahead(client)) {
      co_await look_up(keys[i], seen_[i]);
      if (seen_[i].code != Errc::ok) break;
      continue;
    }
    ++running_;
    endpoint.begin_read_ahead(client);
    boost::asio::co_spawn(endpoint.core().io(), look_up_aside(shared_from_this(), keys[i], seen_[i]),
                          boost::asio::detached);
  }
  while (running_ != 0) co_await ended_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
}

void Matching::look_in_memory(MatchKeys::Some keys) {
  if (!hot_.looks_in_memory()) return;
  std::array<store::Store::HotLookup, together> lookups;
  for (size_t i = 0; i < keys.size(); ++i) lookups[i] = {.bucket = op_->bucket, .key = keys[i]};
  op_->endpoint->door().service.store.hot_many(std::span(lookups).first(keys.size()));
  for (size_t i = 0; i < keys.size(); ++i) {
    const store::ObjectReader* const object = lookups[i].found.get();
    if (object == nullptr || !s3::is_sent_as_it_lies(object->info())) continue;
    seen_[i] = {.place = wire::KeyPlace::memory, .size = object->info().size, .known = true};
    if (lease_.is_on()) seen_[i].object = std::move(lookups[i].found);
  }
}

Task<void> Matching::look_up_aside(std::shared_ptr<Matching> self, std::string_view key, Seen& seen) {
  const Running running(self);
  co_await self->look_up(key, seen);
}

Task<void> Matching::look_up(std::string_view key, Seen& seen) {
  s3::GetRequest request;
  request.bucket = op_->bucket;
  request.key = key;
  s3::ObjectRead read(op_->endpoint->door().service, op_->caller, request, s3::ObjectRead::Of::head);
  const auto step = co_await read.finish(read.look());
  seen.known = true;
  if (step == s3::ObjectRead::Step::refusal) {
    seen.code = wire_code(read.error().code);
    co_return;
  }
  seen.place = read.found().reader != nullptr ? wire::KeyPlace::memory : wire::KeyPlace::disk;
  seen.size = read.info().size;
  if (lease_.is_on()) co_await open_for_lease(key, seen);
}

bool Matching::count(std::string_view key, Seen& seen) {
  if (lease_.is_on() && seen.code == Errc::ok && !hold(key, seen)) seen.code = Errc::slow_down;
  const bool ok = seen.code == Errc::ok;
  if (ok && !out_.add(seen.place, seen.size)) {
    full_ = true;
    return false;
  }
  ++looked_at_;
  if (!op_->is_told()) {
    if (ok) ++counted_;
    return ok;
  }
  Endpoint::Item item{.bucket_name = op_->bucket, .key = key, .outcome = seen.code};
  if (ok) item.object_size = seen.size;
  op_->endpoint->account(*op_, item);
  return ok;
}

void Matching::account() {
  op_->endpoint->door().metrics.batch_items.add(looked_at_);
  if (counted_ != 0) op_->endpoint->account(*op_, {.bucket_name = op_->bucket, .requests = counted_});
}

Task<void> Matching::begin_lease() {
  if (!s3::check_bucket_name(op_->bucket)) co_return;
  auto bucket = co_await s3::bucket_access(op_->endpoint->door().service, op_->bucket);
  if (!bucket) co_return;
  bucket_ = std::move(*bucket);
  lease_.begin(*op_, {op_->match->lease_ms, op_->match->lease});
}

// As it is stored: the rights to it were checked, and are checked again when it is read.
Task<void> Matching::open_for_lease(std::string_view key, Seen& seen) {
  auto opened = co_await op_->endpoint->door().service.store.open(op_->bucket, key);
  if (!opened) {
    seen.code = wire_code(opened.error().code);
    co_return;
  }
  seen.object = std::move(*opened);
  seen.size = seen.object->info().size;
}

bool Matching::hold(std::string_view key, Seen& seen) {
  return lease_.hold(bucket_, key, std::move(seen.object), seen.place == wire::KeyPlace::memory);
}

bool load_lease_end(Op& op, Bytes body) {
  const auto request = wire::decode_lease_end(body);
  if (!request) return false;
  op.bucket.clear();
  op.list.prefix.clear();
  op.lease = request->lease;
  return true;
}

// A lease that has ended already is no error.
Task<void> serve_lease_end(OpPtr op) {
  if (op->stream->leases != nullptr) op->stream->leases->end(op->lease);
  op->fail(Errc::ok);
  op->endpoint->reply(std::move(op));
  co_return;
}

Task<void> serve_match(OpPtr op) { co_await Matching::serve(std::make_shared<Matching>(std::move(op))); }

}  // namespace verbena::native
