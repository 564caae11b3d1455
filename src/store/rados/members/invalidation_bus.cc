#include "store/rados/members/invalidation_bus.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>

#include "base/log.h"
#include "base/metrics.h"
#include "store/rados/cluster/layout.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr std::chrono::milliseconds look_every{500};
constexpr std::chrono::milliseconds answer_max{3000};  // time for the answers of one attempt
constexpr std::chrono::milliseconds suspended_max{100};
constexpr std::chrono::milliseconds ask_max{1000};  // likewise for a joining server; whole seconds
constexpr std::chrono::seconds ask_every{3};

}  // namespace

InvalidationBus::InvalidationBus(Cluster& cluster, boost::asio::io_context& io, Subscriber subscriber)
    : cluster_(cluster), io_(io), subscriber_(std::move(subscriber)), timer_(io) {}

void InvalidationBus::handle_notify(uint64_t id, uint64_t cookie, uint64_t, librados::bufferlist& message) {
  Notice notice = decode_notice(message.to_str(), everything);
  boost::asio::co_spawn(io_, answer(id, cookie, std::move(notice)), boost::asio::detached);
}

void InvalidationBus::handle_error(uint64_t, int code) {
  log::warn("rados: the watch was lost (errno {})", -code);
  lost_ = true;
  fresh_until_ = 0;
  const auto self = shared_from_this();
  boost::asio::post(io_, [self] { self->timer_.cancel(); });
}

// The changing server waits for this. If the notice cannot be handled, nothing may be served from memory, and soon no
// request at all.
Task<> InvalidationBus::answer(uint64_t id, uint64_t cookie, Notice notice) {
  const auto self = shared_from_this();
  Buffer said;
  if (notice.kind == Notice::Kind::asking) {
    said = to_buffer(subscriber_.intents());
  } else {
    const bool is_over = notice.kind == Notice::Kind::over;
    if (auto heard = co_await subscriber_.hear(std::move(notice)); !heard) {
      log::warn("rados: a message of another server could not be followed: {}", describe(heard.error()));
      if (heard.error() == Errc::limit_exceeded) co_return;
      // The notice is sent again. Until the bucket could be read it has an intent, so nothing of it is served from
      // memory.
      if (is_over && heard.error() == Errc::slow_down) co_return;
      lost_ = true;
      fresh_until_ = 0;
      timer_.cancel();
      co_return;
    }
  }
  cluster_.context(Pool::index).notify_ack(std::string(root_object), id, cookie, said);
}

Task<Result<void>> InvalidationBus::begin() {
  lost_ = false;
  ++watches_;
  suspended_ = LeaseClock::suspended();
  auto handle = std::make_shared<uint64_t>(0);
  Cluster::Start start = [this, handle](librados::AioCompletion* completion) {
    return cluster_.context(Pool::index)
        .aio_watch2(std::string(root_object), completion, handle.get(), this, watch_max.count());
  };
  const int code = co_await cluster_.call(std::move(start), handle);
  if (code < 0) co_return std::unexpected(to_error(code, "rados: watch"));
  watch_ = *handle;
  // A change in progress was announced to the servers that watched before. A change without an intent at any server has
  // ended, and the reload after this sees it; later changes are announced to this server.
  all_said_ = co_await ask();
  if (!all_said_) subscriber_.doubt_all(true);
  Notice all{.bucket = everything};
  VB_CO_TRY(co_await subscriber_.hear(std::move(all)));
  if (all_said_) subscriber_.doubt_all(false);
  co_return Result<void>{};
}

Task<bool> InvalidationBus::ask() {
  auto reply = std::make_shared<Buffer>();
  Cluster::Start start = [this, reply](librados::AioCompletion* completion) {
    librados::bufferlist message = to_buffer(encode(Notice{.kind = Notice::Kind::asking}));
    return cluster_.context(Pool::index)
        .aio_notify(std::string(root_object), completion, message, ask_max.count(), reply.get());
  };
  const int code = co_await cluster_.call_within(ask_max + cluster_.options().timeout, std::move(start), reply);
  co_return code >= 0 && take(*reply);
}

bool InvalidationBus::take(Buffer& reply) {
  std::vector<librados::notify_ack_t> answers;
  std::vector<librados::notify_timeout_t> silent;
  try {
    cluster_.context(Pool::index).decode_notify_response(reply, &answers, &silent);
  } catch (const std::exception& damaged) {
    log::warn("rados: answers of the other servers: {}", damaged.what());
    return false;
  }
  bool all = silent.empty();
  for (librados::notify_ack_t& answer : answers) {
    if (answer.payload_bl.length() == 0) continue;  // a server from before intents
    const auto intents = decode_intents(to_text(answer.payload_bl));
    all = intents && subscriber_.take_intents(*intents) && all;
  }
  return all;
}

Task<> InvalidationBus::ask_again() {
  const auto self = shared_from_this();
  const uint64_t watch = watches_;
  if (co_await ask()) {
    // This server was notified of changes that ended meanwhile, unless no server was left to notify it.
    Notice all{.bucket = everything};
    const auto read = co_await subscriber_.hear(std::move(all));
    // Answers under an earlier watch do not cover changes that began between the two watches.
    if (read && !lost_ && watch == watches_) {
      all_said_ = true;
      subscriber_.doubt_all(false);
    }
  }
  asking_ = false;
}

void InvalidationBus::look_who_did_not_say() {
  const auto now = SteadyClock::now();
  if (all_said_ || asking_ || lost_ || stopping_ || now < next_ask_) return;
  next_ask_ = now + ask_every;
  asking_ = true;
  boost::asio::co_spawn(io_, ask_again(), boost::asio::detached);
}

Task<> InvalidationBus::end() {
  if (watch_ == 0) co_return;
  Cluster::Start start = [this, handle = std::exchange(watch_, 0)](librados::AioCompletion* completion) {
    return cluster_.context(Pool::index).aio_unwatch(handle, completion);
  };
  (void)co_await cluster_.call(std::move(start), nullptr);
}

// librados reports the age of the watch's confirmation by a clock that stops while the machine is suspended.
void InvalidationBus::look_at_watch() {
  const auto now = LeaseClock::now();
  const int age = cluster_.context(Pool::index).watch_check(watch_);
  if (age < 0 || LeaseClock::suspended() - suspended_ > suspended_max) {
    lost_ = true;
    return;
  }
  const auto until = now - std::chrono::milliseconds(age) + lease;
  fresh_until_ = until.time_since_epoch().count();
}

Task<> InvalidationBus::run() {
  const auto self = shared_from_this();
  while (!stopping_) {
    if (watch_ == 0 || lost_) {
      fresh_until_ = 0;
      co_await end();
      if (auto begun = co_await begin(); !begun) {
        log::warn("rados: no watch: {}", describe(begun.error()));
        lost_ = true;
      }
    }
    if (!lost_) look_at_watch();
    look_at_unsure();
    look_who_did_not_say();
    subscriber_.look();
    timer_.expires_after(look_every);
    boost::system::error_code woken;
    if (!stopping_) co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
  }
  fresh_until_ = 0;
  co_await end();
}

void InvalidationBus::stop() {
  stopping_ = true;
  const auto self = shared_from_this();
  boost::asio::post(io_, [self] { self->timer_.cancel(); });
}

void InvalidationBus::tell_again(uint64_t bucket, int times) {
  boost::asio::post(io_, [self = shared_from_this(), bucket, times] {
    int& left = self->unsure_[bucket];
    left = std::max(left, times);
    self->next_again_ = {};
  });
}

void InvalidationBus::tell_all_to_reload() {
  boost::asio::post(io_, [self = shared_from_this()] {
    ++self->reloads_wanted_;
    self->next_again_ = {};
  });
}

void InvalidationBus::look_at_unsure() {
  const auto now = SteadyClock::now();
  const bool reload = reloads_told_ != reloads_wanted_ && !telling_reload_;
  if (stopping_ || (unsure_.empty() && !reload) || now < next_again_ || !cluster_.may_write()) return;
  next_again_ = now + again_every;
  if (reload) boost::asio::co_spawn(io_, tell_reload(), boost::asio::detached);
  for (auto& [bucket, left] : unsure_) {
    boost::asio::co_spawn(io_, tell_unsure(bucket), boost::asio::detached);
    --left;
  }
  std::erase_if(unsure_, [](const auto& one) { return one.second <= 0; });
}

Task<> InvalidationBus::tell_unsure(uint64_t bucket) {
  const auto self = shared_from_this();
  if (auto told = co_await tell(bucket); !told) log::debug("rados: told again: {}", describe(told.error()));
}

// One that is asked for meanwhile is another one: the servers may have read before it.
Task<> InvalidationBus::tell_reload() {
  const auto self = shared_from_this();
  struct Telling {
    bool& now;
    explicit Telling(bool& flag) : now(flag) { now = true; }
    Telling(const Telling&) = delete;
    ~Telling() { now = false; }
  } telling(telling_reload_);
  const uint64_t wanted = reloads_wanted_;
  if (auto told = co_await tell(everything); told) {
    reloads_told_ = wanted;
  } else {
    log::warn("rados: the servers were not told yet to read everything again: {}", describe(told.error()));
  }
}

Task<Result<void>> InvalidationBus::tell(Notice notice) {
  static auto& told = metrics::counter("verbena_rados_notifies_total", "Changes that were announced to every server");
  told.add();
  const std::string body = encode(notice);
  const auto until = deadline_in(tell_max);
  do {
    auto reply = std::make_shared<librados::bufferlist>();
    Cluster::Start start = [this, body, reply](librados::AioCompletion* completion) {
      librados::bufferlist message = to_buffer(body);
      return cluster_.context(Pool::index)
          .aio_notify(std::string(root_object), completion, message, answer_max.count(), reply.get());
    };
    const int code = co_await cluster_.call_within(answer_max + cluster_.options().timeout, std::move(start), reply);
    if (code >= 0) co_return Result<void>{};
    if (code != -ETIMEDOUT && code != -Cluster::unanswered) co_return std::unexpected(to_error(code, "rados: notify"));
  } while (SteadyClock::now() < until && !stopping_);
  co_return fail(Errc::service_unavailable, "The change was made, but a server of the cluster did not confirm it.");
}

}  // namespace verbena::store::rados
