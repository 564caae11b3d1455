#include "store/rados/coherence/read_leases.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <list>

#include "base/log.h"
#include "base/metrics.h"
#include "store/logic/keys.h"
#include "store/rados/cluster/layout.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr std::chrono::seconds watch_max{15};  // of silence; the cluster then ends the watch
constexpr size_t over_max = 4096;
constexpr std::chrono::milliseconds step{100};
const std::string live(live_holder), broken(broken_holder);
constexpr std::string_view let_go_answer = "gone";

// Whether a notified holder has confirmed that it no longer serves the key.
bool has_let_go(librados::IoCtx& context, Buffer& reply) {
  if (reply.length() == 0) return false;
  std::vector<librados::notify_ack_t> answers;
  std::vector<librados::notify_timeout_t> silent;
  try {
    context.decode_notify_response(reply, &answers, &silent);
  } catch (const std::exception& damaged) {
    log::warn("rados: a lease holder's answer: {}", damaged.what());
    return false;
  }
  return std::ranges::any_of(answers, [](auto& answer) { return answer.payload_bl.to_str() == let_go_answer; });
}

int64_t count(auto time) { return time.time_since_epoch().count(); }

}  // namespace

size_t ReadLeases::rest_of(uint64_t bucket, std::string_view key) {
  return (std::hash<std::string_view>{}(key) ^ bucket) % rests;
}

bool ReadLeases::may_keep(uint64_t bucket, std::string_view key) const {
  return count(SteadyClock::now()) >= rest_until_[rest_of(bucket, key)].load(std::memory_order_relaxed);
}

void ReadLeases::listen(SharedKeys::Listener* listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = listener;
}

void ReadLeases::let_go_of_bucket(std::string_view name) {
  const std::lock_guard lock(listener_mutex_);
  if (listener_ != nullptr) listener_->let_go_of_bucket(name);
}

void ReadLeases::let_go(uint64_t bucket, std::string_view key) {
  const BucketPtr state = registry_.find(bucket);
  const std::lock_guard lock(listener_mutex_);
  if (listener_ == nullptr) return;
  if (state) {
    listener_->let_go(state->record.info.name, key);
  } else {
    listener_->let_go_of_all();
  }
}

// Not on the engine's thread, because the server that changes the key waits for the answer.
void ReadLeases::handle_notify(uint64_t id, uint64_t cookie, uint64_t, librados::bufferlist& message) {
  static auto& gone = metrics::counter("verbena_rados_leases_dropped_total",
                                       "Read leases that this server gave up because another one changes their keys");
  const std::string text = message.to_str();
  const uint64_t holder = holder_.load();
  if (text.size() < 8 || holder == 0) return;
  const uint64_t bucket = keys::read_number(std::string_view(text).substr(0, 8));
  const std::string_view key = std::string_view(text).substr(8);
  rest_until_[rest_of(bucket, key)].store(count(SteadyClock::now() + rest_), std::memory_order_relaxed);
  let_go(bucket, key);
  gone.add();
  librados::bufferlist answer = to_buffer(let_go_answer);
  registry_.cluster().context(Pool::index).notify_ack(holder_object(holder), id, cookie, answer);
}

void ReadLeases::handle_error(uint64_t, int code) {
  log::info("rados: the watch as a lease holder was lost (errno {})", -code);
  deaf_ = true;
  const auto self = shared_from_this();
  boost::asio::post(io_, [self] { self->timer_.cancel(); });
}

// --- This server as a lease holder

Task<Result<void>> ReadLeases::watch() {
  deaf_ = false;
  auto handle = std::make_shared<uint64_t>(0);
  Cluster::Start start = [this, handle](librados::AioCompletion* completion) {
    return registry_.cluster()
        .context(Pool::index)
        .aio_watch2(holder_object(holder_), completion, handle.get(), this, watch_max.count());
  };
  const int code = co_await registry_.cluster().call(std::move(start), handle);
  if (code < 0) {
    deaf_ = true;
    co_return std::unexpected(to_error(code, "rados: watch as a lease holder"));
  }
  watch_ = *handle;
  co_return Result<void>{};
}

Task<> ReadLeases::unwatch() {
  if (watch_ == 0) co_return;
  Cluster::Start start = [this, handle = std::exchange(watch_, 0)](librados::AioCompletion* completion) {
    return registry_.cluster().context(Pool::index).aio_unwatch(handle, completion);
  };
  (void)co_await registry_.cluster().call(std::move(start), nullptr);
}

// The row is written last: leases of this holder can be recalled by then.
Task<Result<void>> ReadLeases::begin() {
  VB_CO_ASSIGN(const uint64_t number, co_await registry_.take_number());
  librados::ObjectWriteOperation object;
  object.create(false);
  const int made = co_await registry_.cluster().write(Pool::index, holder_object(number), std::move(object));
  if (made < 0) co_return std::unexpected(to_error(made, "rados: lease holder"));
  holder_ = number;
  told_count_.clear();
  auto watched = co_await watch();
  if (watched) {
    librados::ObjectWriteOperation op;
    op.create(false);
    const std::map<std::string, Buffer> row = {{holder_row(number), to_buffer(live)}};
    op.omap_set(row);
    const int code = co_await registry_.cluster().write(Pool::index, std::string(servers_object), std::move(op));
    if (code < 0) watched = std::unexpected(to_error(code, "rados: lease holder"));
  }
  if (!watched) co_await leave();
  co_return watched;
}

// First stops serving from memory, then removes the row.
Task<> ReadLeases::leave() {
  until_ = 0;
  term_ = 0;
  co_await unwatch();
  const uint64_t number = holder_.exchange(0);
  if (number == 0) co_return;
  note_over(number);
  for (const std::string& state : {live, broken}) (void)co_await remove(number, state);
}

Task<> ReadLeases::give_up() {
  log::warn("rados: another server has waited for this one's answer: its read leases have ended");
  co_await leave();
}

Task<Result<void>> ReadLeases::pass() {
  if (holder_ == 0) VB_CO_TRY(co_await begin());
  if (deaf_) {
    co_await unwatch();
    if (auto watched = co_await watch(); !watched) {
      // The server that ended this lease holder has also removed its watched object.
      VB_CO_ASSIGN(const std::string row, co_await registry_.row(std::string(servers_object), holder_row(holder_)));
      if (row != live) co_await give_up();
      co_return watched;
    }
  }
  const auto began = LeaseClock::now();
  const auto now = SteadyClock::now();
  VB_CO_ASSIGN(const std::string state, co_await registry_.row(std::string(servers_object), holder_row(holder_)));
  if (state != live) {
    co_await give_up();
    co_return Result<void>{};
  }
  until_.store(count(began + lease), std::memory_order_release);
  term_.store(holder_, std::memory_order_release);
  if (now >= next_telling_) {
    next_telling_ = now + tellings_every;
    if (auto told = co_await tell_how_many(); !told) log::debug("rados: kept keys: {}", describe(told.error()));
  }
  if (!is_leader_() || now < next_left_look_) co_return Result<void>{};
  next_left_look_ = now + left_looks_every;
  co_return co_await look_for_left();
}

// Reported by `verbena rados status`.
Task<Result<void>> ReadLeases::tell_how_many() {
  std::string kept;
  {
    const std::lock_guard lock(listener_mutex_);
    kept = keys::number(listener_ == nullptr ? 0 : listener_->kept(term_));
  }
  if (kept == told_count_) co_return Result<void>{};
  librados::ObjectWriteOperation op;
  op.assert_exists();
  op.setxattr(leases_attribute, to_buffer(kept));
  const int code = co_await registry_.cluster().write(Pool::index, holder_object(holder_), std::move(op));
  if (code < 0) co_return std::unexpected(to_error(code, "rados: lease holder"));
  told_count_ = std::move(kept);
  co_return Result<void>{};
}

Task<> ReadLeases::run() {
  static auto& gauge =
      metrics::gauge("verbena_rados_lease_holder", "1: this server holds read leases and answers from memory by them");
  while (!stopping_) {
    if (!registry_.cluster().may_write()) {
      if (holder_ != 0) co_await leave();  // others end what it leaves behind
    } else if (auto done = co_await pass(); !done) {
      log::info("rados: {}", describe(done.error()));
    }
    gauge.set(term(LeaseClock::now()) != 0 ? 1 : 0);
    timer_.expires_after(look_every);
    boost::system::error_code woken;
    if (!stopping_) co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
  }
  gauge.set(0);
  co_await leave();
}

void ReadLeases::stop() {
  stopping_ = true;
  until_ = 0;
  const auto self = shared_from_this();
  boost::asio::post(io_, [self] { self->timer_.cancel(); });
}

// --- Other lease holders

Task<Result<bool>> ReadLeases::has_watcher(uint64_t holder) {
  struct Reply {
    std::list<obj_watch_t> watchers;
    int code = 0;
  };
  auto reply = std::make_shared<Reply>();
  librados::ObjectReadOperation op;
  op.list_watchers(&reply->watchers, &reply->code);
  const int code = co_await registry_.cluster().read(Pool::index, holder_object(holder), std::move(op), reply);
  if (code == -ENOENT) co_return false;
  if (code < 0) co_return std::unexpected(to_error(code, "rados: lease holder"));
  co_return !reply->watchers.empty();
}

// A holder that two looks find without a watch.
Task<Result<void>> ReadLeases::look_for_left() {
  VB_CO_ASSIGN(const auto rows, co_await registry_.all(std::string(servers_object), "k"));
  std::set<uint64_t> unwatched;
  for (const auto& [row, state] : rows) {
    const uint64_t holder = keys::parse_number(std::string_view(row).substr(1)).value_or(0);
    if (holder == 0 || holder == holder_) continue;
    VB_CO_ASSIGN(const bool watched, co_await has_watcher(holder));
    if (!watched) unwatched.insert(holder);
  }
  for (const uint64_t holder : unwatched) {
    if (unwatched_.contains(holder)) VB_CO_TRY(co_await try_end(holder));  // proceeds to its end step by step
  }
  unwatched_ = std::move(unwatched);
  co_return Result<void>{};
}

bool ReadLeases::is_over(uint64_t holder) const {
  const std::lock_guard lock(mutex_);
  return over_.contains(holder);
}

void ReadLeases::note_over(uint64_t holder) {
  const std::lock_guard lock(mutex_);
  if (over_.size() >= over_max) over_.clear();  // reading one again costs a call
  over_.insert(holder);
  broken_since_.erase(holder);
}

Deadline ReadLeases::broken_since(uint64_t holder) {
  const std::lock_guard lock(mutex_);
  return broken_since_.try_emplace(holder, SteadyClock::now()).first->second;
}

Task<Result<void>> ReadLeases::remove(uint64_t holder, std::string state) {
  librados::ObjectWriteOperation op;
  const std::string row = holder_row(holder);
  const std::map<std::string, std::pair<Buffer, int>> expected = {{row, {to_buffer(state), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(expected, nullptr);
  op.omap_rm_keys({row});
  const int code = co_await registry_.cluster().write(Pool::index, std::string(servers_object), std::move(op));
  if (code < 0 && code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: lease holder"));
  librados::ObjectWriteOperation object;
  object.remove();
  (void)co_await registry_.cluster().write(Pool::index, holder_object(holder), std::move(object));
  co_return Result<void>{};
}

Task<Result<Attempt>> ReadLeases::try_end(uint64_t holder) {
  static auto& ended = metrics::counter("verbena_rados_lease_holders_ended_total",
                                        "Lease holders that did not answer and were waited for");
  const std::string row = holder_row(holder), object(servers_object);
  VB_CO_ASSIGN(const std::string state, co_await registry_.row(object, row));
  if (!state.empty() && state != broken) {
    log::warn("rados: a holder of read leases does not answer: changes of its keys wait for {} s", others_wait.count());
    librados::ObjectWriteOperation op;
    const std::map<std::string, std::pair<Buffer, int>> expected = {{row, {to_buffer(state), LIBRADOS_CMPXATTR_OP_EQ}}};
    op.omap_cmp(expected, nullptr);
    const std::map<std::string, Buffer> now = {{row, to_buffer(broken)}};
    op.omap_set(now);
    const int code = co_await registry_.cluster().write(Pool::index, object, std::move(op));
    if (code < 0 && code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: lease holder"));
    co_return Attempt::again;
  }
  // Counted from when its row was first seen broken: from then on its own reads cannot find it live.
  if (state == broken && SteadyClock::now() < broken_since(holder) + others_wait) co_return Attempt::again;
  if (state == broken) {
    VB_CO_TRY(co_await remove(holder, broken));
    ended.add();
  }
  note_over(holder);  // ended by itself, or by another server
  co_return Attempt::done;
}

Task<Result<void>> ReadLeases::end(uint64_t holder) {
  for (;;) {
    VB_CO_ASSIGN(const Attempt attempt, co_await try_end(holder));
    if (attempt == Attempt::done) co_return Result<void>{};
    while (waits_for(holder)) {
      if (stopping_) co_return fail(Errc::service_unavailable, "The server is being stopped.");
      co_await pause(step);
    }
  }
}

bool ReadLeases::waits_for(uint64_t holder) const {
  const std::lock_guard lock(mutex_);
  const auto since = broken_since_.find(holder);
  return since != broken_since_.end() && SteadyClock::now() < since->second + others_wait;
}

Task<Result<void>> ReadLeases::tell_one(uint64_t holder, std::string message) {
  static auto& told = metrics::counter("verbena_rados_lease_recalls_total",
                                       "Messages to holders of read leases: their key is about to change");
  told.add();
  auto reply = std::make_shared<Buffer>();
  librados::IoCtx& context = registry_.cluster().context(Pool::index);
  Cluster::Start start = [&context, holder, message, reply](librados::AioCompletion* completion) {
    Buffer text = to_buffer(message);
    const auto answer_ms = std::chrono::milliseconds(answer_max).count();
    return context.aio_notify(holder_object(holder), completion, text, static_cast<uint64_t>(answer_ms), reply.get());
  };
  Cluster& cluster = registry_.cluster();
  const int code = co_await cluster.call_within(answer_max + cluster.options().timeout, std::move(start), reply);
  // Only an explicit answer counts: without one there may have been no watch. A watch without an answer in time may be
  // an old one of a holder that has answered by another.
  if (code >= 0 || code == -ETIMEDOUT) {
    if (has_let_go(context, *reply)) co_return Result<void>{};
  } else if (code != -ENOENT && code != -Cluster::unanswered) {
    co_return std::unexpected(to_error(code, "rados: lease holder"));
  }
  co_return co_await end(holder);
}

// In parallel: an unresponsive holder does not delay the others.
Task<Result<void>> ReadLeases::tell_all(std::vector<uint64_t> holders, std::string message) {
  auto executor = co_await boost::asio::this_coro::executor;
  struct All {
    size_t left;
    Result<void> result{};
  };
  auto initiate = [this, executor, message](auto handler, std::vector<uint64_t> whom) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    auto all = std::make_shared<All>(All{whom.size()});
    for (const uint64_t holder : whom) {
      // All on the caller's executor, which has one thread.
      boost::asio::co_spawn(executor, tell_one(holder, message),
                            [executor, shared, all](const std::exception_ptr& thrown, Result<void> result) {
                              // No answer that it dropped the object.
                              if (thrown) result = fail(Errc::internal, "rados: lease holder");
                              if (!result) all->result = std::move(result);
                              if (--all->left != 0) return;
                              boost::asio::post(executor, [shared, all] { (*shared)(std::move(all->result)); });
                            });
    }
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(Result<void>)>(
      std::move(initiate), boost::asio::use_awaitable, std::move(holders));
}

Task<Result<void>> ReadLeases::tell(uint64_t bucket, std::string key, std::string version_token) {
  VB_CO_ASSIGN(const VersionToken seen, decode_version_token(version_token));
  std::vector<uint64_t> others;
  for (const ReadLease& lease : seen.leases) {
    if (lease.holder == holder_) {
      let_go(bucket, key);  // storing a part of an upload changes the version token too, and removes the leases
    } else if (!is_over(lease.holder)) {
      others.push_back(lease.holder);
    }
  }
  if (others.empty()) co_return Result<void>{};
  std::string message = keys::number(bucket) + key;
  if (others.size() == 1) co_return co_await tell_one(others.front(), std::move(message));
  co_return co_await tell_all(std::move(others), std::move(message));
}

}  // namespace verbena::store::rados
