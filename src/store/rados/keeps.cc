#include "store/rados/keeps.h"

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
#include "store/rados/layout.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr std::chrono::seconds watch_max{15};  // of silence; the cluster then ends the watch
constexpr size_t over_max = 4096;
constexpr std::chrono::milliseconds step{100};
const std::string live(live_keeper), broken(broken_keeper);
constexpr std::string_view let_go_answer = "gone";

// One who was notified has said that it answers for the key no more.
bool has_let_go(librados::IoCtx& context, Buffer& reply) {
  if (reply.length() == 0) return false;
  std::vector<librados::notify_ack_t> answers;
  std::vector<librados::notify_timeout_t> silent;
  try {
    context.decode_notify_response(reply, &answers, &silent);
  } catch (const std::exception& damaged) {
    log::warn("rados: a keeper's answer: {}", damaged.what());
    return false;
  }
  return std::ranges::any_of(answers, [](auto& answer) { return answer.payload_bl.to_str() == let_go_answer; });
}

int64_t count(auto time) { return time.time_since_epoch().count(); }

}  // namespace

size_t Keeps::rest_of(uint64_t bucket, std::string_view key) {
  return (std::hash<std::string_view>{}(key) ^ bucket) % rests;
}

bool Keeps::may_keep(uint64_t bucket, std::string_view key) const {
  return count(SteadyClock::now()) >= rest_until_[rest_of(bucket, key)].load(std::memory_order_relaxed);
}

void Keeps::listen(SharedKeys::Listener* listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = listener;
}

void Keeps::let_go_of_bucket(std::string_view name) {
  const std::lock_guard lock(listener_mutex_);
  if (listener_ != nullptr) listener_->let_go_of_bucket(name);
}

void Keeps::let_go(uint64_t bucket, std::string_view key) {
  const BucketPtr state = registry_.find(bucket);
  const std::lock_guard lock(listener_mutex_);
  if (listener_ == nullptr) return;
  if (state) {
    listener_->let_go(state->record.info.name, key);
  } else {
    listener_->let_go_of_all();
  }
}

// Whoever changes the key waits for the answer, so this goes without the engine's thread.
void Keeps::handle_notify(uint64_t id, uint64_t cookie, uint64_t, librados::bufferlist& message) {
  static auto& gone = metrics::counter("verbena_rados_let_go_total",
                                       "Read leases that this server has returned because another one changes the key");
  const std::string text = message.to_str();
  const uint64_t keeper = keeper_.load();
  if (text.size() < 8 || keeper == 0) return;
  const uint64_t bucket = keys::read_number(std::string_view(text).substr(0, 8));
  const std::string_view key = std::string_view(text).substr(8);
  rest_until_[rest_of(bucket, key)].store(count(SteadyClock::now() + rest_), std::memory_order_relaxed);
  let_go(bucket, key);
  gone.add();
  librados::bufferlist answer = to_buffer(let_go_answer);
  registry_.cluster().context(Pool::index).notify_ack(keeper_object(keeper), id, cookie, answer);
}

void Keeps::handle_error(uint64_t, int code) {
  log::info("rados: the watch as a keeper was lost (errno {})", -code);
  deaf_ = true;
  const auto self = shared_from_this();
  boost::asio::post(io_, [self] { self->timer_.cancel(); });
}

// Being one.

Task<Result<void>> Keeps::watch() {
  deaf_ = false;
  auto handle = std::make_shared<uint64_t>(0);
  Cluster::Start start = [this, handle](librados::AioCompletion* completion) {
    return registry_.cluster()
        .context(Pool::index)
        .aio_watch2(keeper_object(keeper_), completion, handle.get(), this, watch_max.count());
  };
  const int code = co_await registry_.cluster().call(std::move(start), handle);
  if (code < 0) {
    deaf_ = true;
    co_return std::unexpected(to_error(code, "rados: watch as a keeper"));
  }
  watch_ = *handle;
  co_return Result<void>{};
}

Task<> Keeps::unwatch() {
  if (watch_ == 0) co_return;
  Cluster::Start start = [this, handle = std::exchange(watch_, 0)](librados::AioCompletion* completion) {
    return registry_.cluster().context(Pool::index).aio_unwatch(handle, completion);
  };
  (void)co_await registry_.cluster().call(std::move(start), nullptr);
}

// The row comes last: what it names can be told by then.
Task<Result<void>> Keeps::begin() {
  VB_CO_ASSIGN(const uint64_t number, co_await registry_.take_number());
  librados::ObjectWriteOperation object;
  object.create(false);
  const int made = co_await registry_.cluster().write(Pool::index, keeper_object(number), std::move(object));
  if (made < 0) co_return std::unexpected(to_error(made, "rados: keeper"));
  keeper_ = number;
  told_kept_.clear();
  auto watched = co_await watch();
  if (watched) {
    librados::ObjectWriteOperation op;
    op.create(false);
    const std::map<std::string, Buffer> row = {{keeper_row(number), to_buffer(live)}};
    op.omap_set(row);
    const int code = co_await registry_.cluster().write(Pool::index, std::string(servers_object), std::move(op));
    if (code < 0) watched = std::unexpected(to_error(code, "rados: keeper"));
  }
  if (!watched) co_await leave();
  co_return watched;
}

// First nothing is answered any more, then the row goes.
Task<> Keeps::leave() {
  until_ = 0;
  term_ = 0;
  co_await unwatch();
  const uint64_t number = keeper_.exchange(0);
  if (number == 0) co_return;
  note_over(number);
  for (const std::string& state : {live, broken}) (void)co_await remove(number, state);
}

Task<> Keeps::give_up() {
  log::warn("rados: another server has waited for this one's answer: its read leases have ended");
  co_await leave();
}

Task<Result<void>> Keeps::pass() {
  if (keeper_ == 0) VB_CO_TRY(co_await begin());
  if (deaf_) {
    co_await unwatch();
    if (auto watched = co_await watch(); !watched) {
      // Who has ended this keeper has taken away what it watches, too.
      VB_CO_ASSIGN(const std::string row, co_await registry_.row(std::string(servers_object), keeper_row(keeper_)));
      if (row != live) co_await give_up();
      co_return watched;
    }
  }
  const auto began = LeaseClock::now();
  const auto now = SteadyClock::now();
  VB_CO_ASSIGN(const std::string state, co_await registry_.row(std::string(servers_object), keeper_row(keeper_)));
  if (state != live) {
    co_await give_up();
    co_return Result<void>{};
  }
  until_.store(count(began + lease), std::memory_order_release);
  term_.store(keeper_, std::memory_order_release);
  if (now >= next_telling_) {
    next_telling_ = now + tellings_every;
    if (auto told = co_await tell_how_many(); !told) log::debug("rados: kept keys: {}", describe(told.error()));
  }
  if (!on_duty_() || now < next_left_look_) co_return Result<void>{};
  next_left_look_ = now + left_looks_every;
  co_return co_await look_for_left();
}

// For `verbena rados status`.
Task<Result<void>> Keeps::tell_how_many() {
  std::string kept;
  {
    const std::lock_guard lock(listener_mutex_);
    kept = keys::number(listener_ == nullptr ? 0 : listener_->kept(term_));
  }
  if (kept == told_kept_) co_return Result<void>{};
  librados::ObjectWriteOperation op;
  op.assert_exists();
  op.setxattr(kept_attribute, to_buffer(kept));
  const int code = co_await registry_.cluster().write(Pool::index, keeper_object(keeper_), std::move(op));
  if (code < 0) co_return std::unexpected(to_error(code, "rados: keeper"));
  told_kept_ = std::move(kept);
  co_return Result<void>{};
}

Task<> Keeps::run() {
  static auto& gauge =
      metrics::gauge("verbena_rados_keeping", "1: this server answers for keys that it keeps without asking");
  while (!stopping_) {
    if (auto done = co_await pass(); !done) log::info("rados: {}", describe(done.error()));
    gauge.set(term(LeaseClock::now()) != 0 ? 1 : 0);
    timer_.expires_after(look_every);
    boost::system::error_code woken;
    if (!stopping_) co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
  }
  gauge.set(0);
  co_await leave();
}

void Keeps::stop() {
  stopping_ = true;
  until_ = 0;
  const auto self = shared_from_this();
  boost::asio::post(io_, [self] { self->timer_.cancel(); });
}

// Others.

Task<Result<bool>> Keeps::has_watcher(uint64_t keeper) {
  struct Reply {
    std::list<obj_watch_t> watchers;
    int code = 0;
  };
  auto reply = std::make_shared<Reply>();
  librados::ObjectReadOperation op;
  op.list_watchers(&reply->watchers, &reply->code);
  const int code = co_await registry_.cluster().read(Pool::index, keeper_object(keeper), std::move(op), reply);
  if (code == -ENOENT) co_return false;
  if (code < 0) co_return std::unexpected(to_error(code, "rados: keeper"));
  co_return !reply->watchers.empty();
}

// One that two looks find without a watch.
Task<Result<void>> Keeps::look_for_left() {
  VB_CO_ASSIGN(const auto rows, co_await registry_.all(std::string(servers_object), "k"));
  std::set<uint64_t> unwatched;
  for (const auto& [row, state] : rows) {
    const uint64_t keeper = keys::parse_number(std::string_view(row).substr(1)).value_or(0);
    if (keeper == 0 || keeper == keeper_) continue;
    VB_CO_ASSIGN(const bool watched, co_await has_watcher(keeper));
    if (!watched) unwatched.insert(keeper);
  }
  for (const uint64_t keeper : unwatched) {
    if (unwatched_.contains(keeper)) VB_CO_TRY(co_await try_end(keeper));  // to its end by and by
  }
  unwatched_ = std::move(unwatched);
  co_return Result<void>{};
}

bool Keeps::is_over(uint64_t keeper) const {
  const std::lock_guard lock(mutex_);
  return over_.contains(keeper);
}

void Keeps::note_over(uint64_t keeper) {
  const std::lock_guard lock(mutex_);
  if (over_.size() >= over_max) over_.clear();  // to ask again costs a call each
  over_.insert(keeper);
  broken_since_.erase(keeper);
}

Deadline Keeps::broken_since(uint64_t keeper) {
  const std::lock_guard lock(mutex_);
  return broken_since_.try_emplace(keeper, SteadyClock::now()).first->second;
}

Task<Result<void>> Keeps::remove(uint64_t keeper, std::string state) {
  librados::ObjectWriteOperation op;
  const std::string row = keeper_row(keeper);
  const std::map<std::string, std::pair<Buffer, int>> guard = {{row, {to_buffer(state), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(guard, nullptr);
  op.omap_rm_keys({row});
  const int code = co_await registry_.cluster().write(Pool::index, std::string(servers_object), std::move(op));
  if (code < 0 && code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: keeper"));
  librados::ObjectWriteOperation object;
  object.remove();
  (void)co_await registry_.cluster().write(Pool::index, keeper_object(keeper), std::move(object));
  co_return Result<void>{};
}

Task<Result<bool>> Keeps::try_end(uint64_t keeper) {
  static auto& ended =
      metrics::counter("verbena_rados_keepers_ended_total", "Keepers that did not answer and were waited for");
  const std::string row = keeper_row(keeper), object(servers_object);
  VB_CO_ASSIGN(const std::string state, co_await registry_.row(object, row));
  if (!state.empty() && state != broken) {
    log::warn("rados: a server that keeps keys does not answer: changes of them wait for {} s", others_wait.count());
    librados::ObjectWriteOperation op;
    const std::map<std::string, std::pair<Buffer, int>> guard = {{row, {to_buffer(state), LIBRADOS_CMPXATTR_OP_EQ}}};
    op.omap_cmp(guard, nullptr);
    const std::map<std::string, Buffer> now = {{row, to_buffer(broken)}};
    op.omap_set(now);
    const int code = co_await registry_.cluster().write(Pool::index, object, std::move(op));
    if (code < 0 && code != -ECANCELED) co_return std::unexpected(to_error(code, "rados: keeper"));
    co_return false;
  }
  // From the first time that it was seen broken: no look of its own finds it live from there on.
  if (state == broken && SteadyClock::now() < broken_since(keeper) + others_wait) co_return false;
  if (state == broken) {
    VB_CO_TRY(co_await remove(keeper, broken));
    ended.add();
  }
  note_over(keeper);  // by itself, or another one has waited
  co_return true;
}

Task<Result<void>> Keeps::end(uint64_t keeper) {
  for (;;) {
    VB_CO_ASSIGN(const bool over, co_await try_end(keeper));
    if (over) co_return Result<void>{};
    while (waits_for(keeper)) {
      if (stopping_) co_return fail(Errc::service_unavailable, "The server is being stopped.");
      co_await pause(step);
    }
  }
}

bool Keeps::waits_for(uint64_t keeper) const {
  const std::lock_guard lock(mutex_);
  const auto since = broken_since_.find(keeper);
  return since != broken_since_.end() && SteadyClock::now() < since->second + others_wait;
}

Task<Result<void>> Keeps::tell_one(uint64_t keeper, std::string message) {
  static auto& told = metrics::counter("verbena_rados_keepers_told_total", "Messages to others that keep a key");
  told.add();
  auto reply = std::make_shared<Buffer>();
  librados::IoCtx& context = registry_.cluster().context(Pool::index);
  Cluster::Start start = [&context, keeper, message, reply](librados::AioCompletion* completion) {
    Buffer text = to_buffer(message);
    const auto answer_ms = std::chrono::milliseconds(answer_max).count();
    return context.aio_notify(keeper_object(keeper), completion, text, static_cast<uint64_t>(answer_ms), reply.get());
  };
  Cluster& cluster = registry_.cluster();
  const int code = co_await cluster.call_within(answer_max + cluster.options().timeout, std::move(start), reply);
  // Without an answer in so many words nothing is known: nobody may have watched. And where somebody has not answered
  // in time, that may be an earlier watch of one who has.
  if (code >= 0 || code == -ETIMEDOUT) {
    if (has_let_go(context, *reply)) co_return Result<void>{};
  } else if (code != -ENOENT && code != -Cluster::unanswered) {
    co_return std::unexpected(to_error(code, "rados: keeper"));
  }
  co_return co_await end(keeper);
}

// At once: one that does not answer holds up no other.
Task<Result<void>> Keeps::tell_all(std::vector<uint64_t> keepers, std::string message) {
  auto executor = co_await boost::asio::this_coro::executor;
  struct All {
    size_t left;
    Result<void> result{};
  };
  auto initiate = [this, executor, message](auto handler, std::vector<uint64_t> whom) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    auto all = std::make_shared<All>(All{whom.size()});
    for (const uint64_t keeper : whom) {
      // All of them on the caller's executor, which is one thread's.
      boost::asio::co_spawn(executor, tell_one(keeper, message),
                            [executor, shared, all](const std::exception_ptr& thrown, Result<void> result) {
                              // Then nothing says that it has let go.
                              if (thrown) result = fail(Errc::internal, "rados: keeper");
                              if (!result) all->result = std::move(result);
                              if (--all->left != 0) return;
                              boost::asio::post(executor, [shared, all] { (*shared)(std::move(all->result)); });
                            });
    }
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(Result<void>)>(
      std::move(initiate), boost::asio::use_awaitable, std::move(keepers));
}

Task<Result<void>> Keeps::tell(uint64_t bucket, std::string key, std::string guard) {
  VB_CO_ASSIGN(const Guard seen, decode_guard(guard));
  std::vector<uint64_t> others;
  for (const Keeping& kept : seen.kept) {
    if (kept.keeper == keeper_) {
      let_go(bucket, key);  // a part of an upload changes the guard, too, and takes the marks away
    } else if (!is_over(kept.keeper)) {
      others.push_back(kept.keeper);
    }
  }
  if (others.empty()) co_return Result<void>{};
  std::string message = keys::number(bucket) + key;
  if (others.size() == 1) co_return co_await tell_one(others.front(), std::move(message));
  co_return co_await tell_all(std::move(others), std::move(message));
}

}  // namespace verbena::store::rados
