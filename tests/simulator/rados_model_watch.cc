// Watches and notifies of the model, and the time-outs of calls.
#include <algorithm>
#include <cerrno>

#include "simulator/rados_model_session.h"

namespace verbena::simulator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds tick_every{500};
constexpr seconds notify_default{30};

void add(std::string& into, uint64_t number) { into.append(reinterpret_cast<const char*>(&number), sizeof number); }

}  // namespace

void RadosModel::tick() {
  later(tick_every, [this] { tick(); });
  for (const auto& weak : sessions_) {
    const RadosSessionPtr session = weak.lock();
    if (!session) continue;
    const bool is_gone = session->dead_ || session->shut_out_;
    std::erase_if(session->under_way_, [&](const RadosCallPtr& call) {
      if (call->is_over) return true;
      if (call->deadline > now() || (!call->has_timeout && !is_gone)) return false;
      finish(call, call->has_timeout ? -ETIMEDOUT : -ESHUTDOWN);
      return true;
    });
    for (auto& [number, watching] : session->watching_) {
      if (!watching.lost || watching.told || !reaches(*session, watching.object)) continue;
      watching.told = true;
      session->notices_.post([session, number = number] {
        if (auto* context = session->context_of(number)) context->handle_error(number, -ENOTCONN);
      });
    }
  }
  std::vector<uint64_t> over;
  for (auto& [number, watch] : watches_) {
    keep_watch(number, watch);
    if (now() - watch.heard > watch.lasts) {
      over.push_back(number);
    } else if (chance(weather_.watch_broken / 2)) {
      break_watch(number, watch);
    }
  }
  for (const uint64_t number : over) end_watch(number);
}

// Its client is told so. Notifies go on waiting for it until the client ends it, or its time is over: an OSD keeps a
// watch whose connection was lost.
void RadosModel::break_watch(uint64_t number, Watch& watch) {
  const RadosSessionPtr session = watch.session.lock();
  if (!session) return;
  const auto watching = session->watching_.find(number);
  if (watching != session->watching_.end()) watching->second.lost = true;
}

// Its client's pings.
void RadosModel::keep_watch(uint64_t number, Watch& watch) {
  const RadosSessionPtr session = watch.session.lock();
  if (session && session->shut_out_) watch.heard = {};  // never
  if (!session || !reaches(*session, watch.object)) return;
  const auto watching = session->watching_.find(number);
  if (watching == session->watching_.end() || watching->second.lost) return;
  watch.heard = now();
  watching->second.confirmed = now() - milliseconds(draw(50));
}

void RadosModel::end_watch(uint64_t number) {
  const auto found = watches_.find(number);
  if (found == watches_.end()) return;
  if (const RadosSessionPtr session = found->second.session.lock()) {
    const auto watching = session->watching_.find(number);
    if (watching != session->watching_.end()) watching->second.lost = true;
  }
  watches_.erase(found);
  const auto notifies = notifies_;
  for (const auto& [id, notify] : notifies) forget(notify, number);
}

void RadosModel::end_watches(const std::string& pool, const std::string& object) {
  std::vector<uint64_t> over;
  for (const auto& [number, watch] : watches_) {
    if (watch.pool == pool && watch.object == object) over.push_back(number);
  }
  for (const uint64_t number : over) end_watch(number);
}

void RadosModel::list_watchers(const RadosCall& call, RadosOutcome& outcome) const {
  for (size_t i = 0; i < outcome.answers.size(); ++i) {
    if (call.operations[i].kind != RadosOperation::Kind::watchers) continue;
    for (const auto& [number, watch] : watches_) {
      const RadosSessionPtr session = watch.session.lock();
      if (watch.pool != call.pool || watch.object != call.object) continue;
      outcome.answers[i].rows[std::to_string(number)] = std::to_string(session ? session->id() : 0);
    }
  }
}

std::optional<RadosOutcome> RadosModel::begin_watch(const RadosCallPtr& call, uint64_t number, RadosDuration lasts) {
  const auto& objects = pools_[call->pool].objects;
  if (!objects.contains(call->object)) return RadosOutcome{.code = -ENOENT, .answers = {}};
  watches_[number] = {call->session, call->pool, call->object, lasts, now()};
  const auto watching = call->session->watching_.find(number);
  if (watching != call->session->watching_.end()) watching->second.confirmed = now();
  return RadosOutcome{.answers = {}};
}

void RadosModel::begin_notify(const RadosCallPtr& call, std::string message, RadosDuration lasts) {
  const auto notify = std::make_shared<Notify>();
  notify->number = ++last_notify_;
  notify->client = call->session->id();
  notify->call = call;
  notify->message = std::move(message);
  notifies_[notify->number] = notify;
  for (const auto& [number, watch] : watches_) {
    if (watch.pool != call->pool || watch.object != call->object) continue;
    const RadosSessionPtr session = watch.session.lock();
    notify->waiting[number] = session ? session->id() : 0;
    later(delay(), [this, notify, number = number] { tell(notify, number); });
  }
  if (notify->waiting.empty()) return end_notify(notify, 0);
  later(lasts.count() == 0 ? notify_default : lasts, [this, notify] { end_notify(notify, -ETIMEDOUT); });
}

// Again and again while its client cannot be reached.
void RadosModel::tell(const NotifyPtr& notify, uint64_t number) {
  const auto watch = watches_.find(number);
  if (notify->is_over || watch == watches_.end()) return;
  const RadosSessionPtr session = watch->second.session.lock();
  if (!session || session->dead_ || session->closed_) return;
  if (const RadosTime until = blocked_until(*session, watch->second.object); until > now()) {
    return at(until, [this, notify, number] { tell(notify, number); });
  }
  session->notices_.post([session, notify, number] {
    librados::bufferlist message;
    message.append(notify->message.data(), static_cast<unsigned>(notify->message.size()));
    auto* context = session->context_of(number);
    if (context != nullptr) context->handle_notify(notify->number, number, notify->client, message);
  });
}

void RadosModel::forget(const NotifyPtr& notify, uint64_t watch) {
  if (notify->waiting.erase(watch) != 0 && notify->waiting.empty()) end_notify(notify, 0);
}

void RadosModel::end_notify(const NotifyPtr& notify, int code) {
  if (std::exchange(notify->is_over, true)) return;
  notifies_.erase(notify->number);
  RadosOutcome outcome{.code = code, .answers = {{}}};
  std::string& text = outcome.answers.front().bytes;
  add(text, notify->answers.size());
  for (const auto& [watch, answer] : notify->answers) {
    add(text, answer.first);
    add(text, watch);
    add(text, answer.second.size());
    text += answer.second;
  }
  add(text, notify->waiting.size());
  for (const auto& [watch, client] : notify->waiting) {
    add(text, client);
    add(text, watch);
  }
  notify->call->outcome = std::move(outcome);
  later(delay(), [this, call = notify->call] { answer(call); });
}

// Clients.

uint64_t RadosSession::watch(const std::string& pool, const std::string& object, RadosDuration lasts,
                             librados::WatchCtx2* context, std::function<void(int, uint64_t)> done) {
  const auto call = call_on(pool, object, std::move(done));
  call->is_write = true;
  return model_.enter([&] {
    const uint64_t number = ++model_.last_watch_;
    watching_[number] = {context, pool, object, RadosModel::now()};
    call->act = [this, call = std::weak_ptr(call), number, lasts] {
      return model_.begin_watch(call.lock(), number, lasts);
    };
    model_.send(call);
    return number;
  });
}

void RadosSession::unwatch(uint64_t number, std::function<void(int, uint64_t)> done) {
  model_.enter([&] {
    const auto watching = watching_.find(number);
    const auto call = watching == watching_.end()
                          ? call_on("", "", std::move(done))
                          : call_on(watching->second.pool, watching->second.object, std::move(done));
    watching_.erase(number);
    call->is_write = true;
    call->act = [this, number] {
      model_.end_watch(number);
      return std::optional(RadosOutcome{.answers = {}});
    };
    model_.send(call);
  });
}

int RadosSession::age_of(uint64_t watch) {
  return model_.enter([&] {
    const auto found = watching_.find(watch);
    if (found == watching_.end() || found->second.told) return -ENOTCONN;
    const auto age = std::chrono::duration_cast<milliseconds>(RadosModel::now() - found->second.confirmed);
    return static_cast<int>(age.count()) + 1;
  });
}

void RadosSession::notify(const std::string& pool, const std::string& object, std::string message, RadosDuration lasts,
                          std::function<void(RadosAnswer&)> answer, std::function<void(int, uint64_t)> done) {
  const auto call = call_on(pool, object, std::move(done));
  call->has_timeout = false;
  call->operations.push_back(
      {.kind = RadosOperation::Kind::read, .name = {}, .bytes = {}, .deliver = std::move(answer)});
  model_.enter([&] {
    call->act = [this, call = std::weak_ptr(call), message = std::move(message), lasts] {
      const RadosCallPtr of = call.lock();
      if (!model_.pools_[of->pool].objects.contains(of->object)) {
        return std::optional(RadosOutcome{.code = -ENOENT, .answers = {}});
      }
      if (const int code = std::exchange(failing_notify_, 0); code != 0) {
        return std::optional(RadosOutcome{.code = code, .answers = {}});
      }
      model_.begin_notify(of, message, lasts);
      return std::optional<RadosOutcome>();
    };
    model_.send(call);
  });
}

void RadosSession::acknowledge(const std::string& pool, const std::string& object, uint64_t notify, uint64_t watch,
                               std::string answer) {
  const auto call = call_on(pool, object, [](int, uint64_t) {});
  call->has_timeout = false;
  model_.enter([&] {
    call->act = [this, notify, watch, answer = std::move(answer)] {
      const auto found = model_.notifies_.find(notify);
      if (found != model_.notifies_.end() && found->second->waiting.contains(watch)) {
        const RadosModel::NotifyPtr of = found->second;
        of->answers[watch] = {of->waiting[watch], answer};
        model_.forget(of, watch);
      }
      return std::optional(RadosOutcome{.answers = {}});
    };
    model_.send(call);
  });
}

librados::WatchCtx2* RadosSession::context_of(uint64_t watch) {
  return model_.enter([&]() -> librados::WatchCtx2* {
    const auto found = watching_.find(watch);
    return found == watching_.end() ? nullptr : found->second.context;
  });
}

void RadosSession::flush_watches() {
  std::mutex mutex;
  std::condition_variable ended;
  bool flushed = false;
  notices_.post([&] {
    const std::lock_guard lock(mutex);
    flushed = true;
    ended.notify_one();
  });
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return flushed; });
}

}  // namespace verbena::simulator
