#include "simulator/rados_model.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include "simulator/rados_model_session.h"

namespace verbena::simulator {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t objects_of_a_page = 16;

// FNV-1a: the standard library's hash is free to change.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : text) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3u;
  return hash ^ hash >> 32;
}

}  // namespace

RadosModel& RadosModel::get() {
  static RadosModel* const one = new RadosModel;  // outlives every thread
  return *one;
}

void RadosModel::start(uint64_t seed, std::function<void(uint64_t)> note) {
  {
    const Lock lock(mutex_);
    random_.seed(seed);
    note_ = std::move(note);
    if (std::exchange(started_, true)) return;
    later(milliseconds(500), [this] { tick(); });
  }
  std::thread([this] { run(); }).detach();
}

void RadosModel::add_pool(const std::string& name, bool erasure_coded) {
  const Lock lock(mutex_);
  pools_[name].erasure_coded = erasure_coded;
}

void RadosModel::run() {
  Lock lock(mutex_);
  for (;;) {
    if (events_.empty()) {
      sleeps_until_ = RadosTime::max();
      woken_.wait(lock);
    } else if (events_.top().at > now()) {
      sleeps_until_ = events_.top().at;
      woken_.wait_until(lock, sleeps_until_);
    } else {
      const auto next = events_.top().run;
      events_.pop();
      next();
    }
  }
}

void RadosModel::at(RadosTime time, std::function<void()> run) { events_.push({time, ++last_event_, std::move(run)}); }

RadosDuration RadosModel::delay() {
  return chance(weather_.slow) ? milliseconds(draw(200)) : microseconds(10 + draw(300));
}

// What befalls it.

template <class F>
void RadosModel::each_session(const std::string& user, F function) {
  const Lock lock(mutex_);
  for (const auto& weak : sessions_) {
    const RadosSessionPtr session = weak.lock();
    if (session && session->user_ == user) function(*session);
  }
}

void RadosModel::set_weather(RadosWeather weather) {
  const Lock lock(mutex_);
  weather_ = weather;
}

void RadosModel::stall(size_t osd, RadosDuration lasts) {
  const Lock lock(mutex_);
  stalled_until_[osd % osds] = now() + lasts;
}

void RadosModel::set_full(bool full) {
  const Lock lock(mutex_);
  full_ = full;
}

void RadosModel::cut(const std::string& user, RadosDuration lasts) {
  each_session(user, [&](RadosSession& session) { session.cut_until_ = now() + lasts; });
}

void RadosModel::hold_writes(const std::string& user, size_t osd, RadosDuration lasts) {
  each_session(user, [&](RadosSession& session) {
    RadosTime& until = session.writes_held_until_[osd % osds];
    until = std::max(until, now() + lasts);
  });
}

void RadosModel::freeze(const std::string& user, bool frozen) {
  each_session(user, [&](RadosSession& session) { session.frozen_ = frozen; });
}

void RadosModel::shut_out(const std::string& user) {
  each_session(user, [](RadosSession& session) { session.shut_out_ = true; });
}

void RadosModel::let_in(const std::string& user) {
  each_session(user, [](RadosSession& session) { session.shut_out_ = false; });
}

void RadosModel::hold(const std::string& user, const std::string& ending, RadosDuration lasts) {
  each_session(user, [&](RadosSession& session) { session.held_until_[ending] = now() + lasts; });
}

void RadosModel::hold_from(const std::string& user, const std::string& object, const std::string& row,
                           const std::string& ending, RadosDuration lasts) {
  each_session(user, [&](RadosSession& session) { session.hold_from_ = {object, row, ending, lasts}; });
}

void RadosModel::fail_call(const std::string& user, const std::string& part, size_t after, int code, bool is_made) {
  each_session(user, [&](RadosSession& session) { session.failing_ = {part, after, code, is_made}; });
}

void RadosModel::fail_notify(const std::string& user, int code) {
  each_session(user, [&](RadosSession& session) { session.failing_notify_ = code; });
}

void RadosModel::kill(const std::string& user) {
  each_session(user, [](RadosSession& session) { session.dead_ = true; });
}

uint64_t RadosModel::calls() {
  const Lock lock(mutex_);
  return calls_;
}

std::vector<std::string> RadosModel::list(const std::string& pool) {
  const Lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, object] : pools_[pool].objects) {
    if (object) names.push_back(name);
  }
  return names;
}

std::optional<RadosObject> RadosModel::find(const std::string& pool, const std::string& object) {
  const Lock lock(mutex_);
  const auto& objects = pools_[pool].objects;
  const auto found = objects.find(object);
  return found == objects.end() ? std::nullopt : found->second;
}

// Calls.

size_t RadosModel::group_of(const std::string& object) { return hash_of(object) % groups; }

RadosTime RadosModel::blocked_until(const RadosSession& session, const std::string& object) const {
  RadosTime until = std::max(stalled_until_[group_of(object) % osds], session.cut_until_);
  for (const auto& [ending, held] : session.held_until_) {
    if (object.ends_with(ending)) until = std::max(until, held);
  }
  return until;
}

RadosTime RadosModel::held_until(const RadosCall& call) const {
  return call.is_write ? call.session->writes_held_until_[group_of(call.object) % osds] : RadosTime();
}

bool RadosModel::reaches(const RadosSession& session, const std::string& object) const {
  return !session.dead_ && !session.closed_ && !session.shut_out_ && !session.frozen_ &&
         blocked_until(session, object) <= now();
}

// In the order in which its client sends its calls on that object.
void RadosModel::send(const RadosCallPtr& call) {
  RadosSession& session = *call->session;
  ++calls_;
  call->deadline = now() + session.timeout_;
  session.under_way_.push_back(call);
  if (session.dead_) {
    later(milliseconds(1), [this, call] { finish(call, -ESHUTDOWN); });
    return;
  }
  auto arrives = now() + delay();
  if (chance(weather_.late)) arrives += milliseconds(draw(draw(2) == 0 ? 12'000 : 70'000));
  auto& last = session.last_arrivals_[call->object];
  last = std::max(last, arrives);
  at(last, [this, call] { arrive(call); });
}

// What a dead client had sent comes within a minute, in order, or from some call on not at all.
bool RadosModel::falls_with_its_client(const RadosCallPtr& call) {
  RadosSession& session = *call->session;
  if (!session.dead_) return false;
  const auto [landing, is_new] = session.landing_.try_emplace(call->object, now());
  if (is_new && draw(4) == 0) landing->second += milliseconds(draw(60'000));
  if (landing->second != RadosTime::max() && draw(3) == 0) landing->second = RadosTime::max();
  if (landing->second == RadosTime::max()) return true;
  if (landing->second <= now()) return false;
  at(landing->second, [this, call] { make(call); });
  return true;
}

void RadosModel::arrive(const RadosCallPtr& call) {
  RadosSession& session = *call->session;
  if (call->is_sent_again && call->is_over) return;
  if (session.shut_out_) return finish(call, -ESHUTDOWN);
  const RadosTime held = held_until(*call), until = std::max(blocked_until(session, call->object), held);
  if (until > now()) {
    auto& last = session.last_arrivals_[call->object];  // nothing that is sent after it overtakes it
    last = std::max(last, held);
    return at(until, [this, call] { arrive(call); });
  }
  if (falls_with_its_client(call) || fails(call)) return;
  make(call);
}

bool RadosModel::fails(const RadosCallPtr& call) {
  auto& failing = call->session->failing_;
  if (!failing || call->object.find(failing->part) == std::string::npos || failing->after-- != 0) return false;
  const int code = failing->code;
  if (failing->is_made && !call->act) {
    call->outcome = execute(*call);
    call->made_at = ++group_calls_[group_of(call->object)];
  }
  failing.reset();
  later(delay(), [this, call, code] { finish(call, code); });
  return true;
}

void RadosModel::make(const RadosCallPtr& call) {
  const size_t group = group_of(call->object);
  const bool is_known = call->outcome && group_calls_[group] - call->made_at < weather_.calls_remembered;
  if (!call->is_write || !is_known) {
    if (call->act) {
      auto outcome = call->act();
      if (!outcome) return;
      call->outcome = std::move(outcome);
    } else {
      call->outcome = execute(*call);
    }
    call->made_at = ++group_calls_[group];
    begin_hold(*call);
    if (note_) note_(hash_of(call->object) ^ static_cast<uint64_t>(call->outcome->code) << 8 ^ group_calls_[group]);
  }
  answer(call);
}

void RadosModel::begin_hold(const RadosCall& call) {
  auto& from = call.session->hold_from_;
  if (!from || !call.object.ends_with(from->object)) return;
  const auto& objects = pools_[call.pool].objects;
  const auto found = objects.find(call.object);
  if (found == objects.end() || !found->second || !found->second->rows.contains(from->row)) return;
  call.session->held_until_[from->ending] = now() + from->lasts;
  from.reset();
}

RadosOutcome RadosModel::execute(RadosCall& call) {
  const auto found = pools_.find(call.pool);
  if (found == pools_.end()) return {.code = -ENOENT, .answers = {}};
  const RadosLimits limits{found->second.erasure_coded, full_};
  auto& objects = found->second.objects;
  if (!call.is_write) {
    static const std::optional<RadosObject> none;
    const auto object = objects.find(call.object);
    auto outcome = read_object(object == objects.end() ? none : object->second, call.operations, limits);
    list_watchers(call, outcome);
    return outcome;
  }
  auto& slot = objects[call.object];
  const bool existed = slot.has_value();
  const int64_t now_s = std::chrono::system_clock::now().time_since_epoch() / seconds(1);
  auto outcome = write_object(slot, call.operations, limits, ++versions_, now_s);
  if (!slot) objects.erase(call.object);
  if (existed && outcome.code >= 0 && !objects.contains(call.object)) end_watches(call.pool, call.object);
  return outcome;
}

void RadosModel::answer(const RadosCallPtr& call) {
  if (call->is_over) return;
  if (!call->is_sent_again && chance(weather_.answer_lost)) {
    call->is_sent_again = true;
    const auto again = now() + milliseconds(50 + draw(3000));
    auto& last = call->session->last_arrivals_[call->object];
    last = std::max(last, again);
    return at(again, [this, call] { arrive(call); });
  }
  later(delay(), [this, call] {
    // The answer comes when its client can be reached.
    if (call->session->cut_until_ > now()) return at(call->session->cut_until_, [this, call] { answer(call); });
    if (!call->session->dead_) finish(call, call->outcome->code);
  });
}

void RadosModel::finish(const RadosCallPtr& call, int code) {
  if (std::exchange(call->is_over, true)) return;
  std::shared_ptr<RadosOutcome> outcome;
  if (call->outcome && call->outcome->code == code) outcome = std::make_shared<RadosOutcome>(std::move(*call->outcome));
  call->session->completions_.post([call, code, outcome] {
    for (size_t i = 0; outcome && i < std::min(outcome->answers.size(), call->operations.size()); ++i) {
      if (call->operations[i].deliver) call->operations[i].deliver(outcome->answers[i]);
    }
    call->done(code, outcome ? outcome->version : 0);
  });
}

// Clients.

RadosSessionPtr RadosSession::connect(const std::string& user, RadosDuration timeout) {
  RadosSessionPtr session(new RadosSession(user, timeout));
  RadosModel& model = session->model_;
  model.enter([&] {
    session->id_ = ++model.last_client_;
    std::erase_if(model.sessions_, [](const auto& weak) { return weak.expired(); });
    model.sessions_.push_back(session);
  });
  return session;
}

void RadosSession::close() {
  model_.enter([this] { closed_ = true; });
  completions_.close();
  notices_.close();
}

void RadosSession::send(RadosCallPtr call) {
  model_.enter([&] { model_.send(call); });
}

int RadosSession::wait_for(RadosCallPtr call) {
  std::mutex mutex;
  std::condition_variable ended;
  std::optional<int> result;
  call->done = [&](int code, uint64_t) {
    const std::lock_guard lock(mutex);
    result = code;
    ended.notify_one();
  };
  send(std::move(call));
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return result.has_value(); });
  return *result;
}

bool RadosSession::has_pool(const std::string& name) {
  return model_.enter([&] { return model_.pools_.contains(name); });
}

bool RadosSession::is_erasure_coded(const std::string& pool) {
  return model_.enter([&] { return model_.pools_[pool].erasure_coded; });
}

RadosCallPtr RadosSession::call_on(const std::string& pool, const std::string& object,
                                   std::function<void(int, uint64_t)> done) {
  return std::make_shared<RadosCall>(
      RadosCall{.session = shared_from_this(), .pool = pool, .object = object, .done = std::move(done)});
}

std::vector<std::string> RadosSession::list(const std::string& pool, const std::string& name_space,
                                            const std::string& after) {
  std::vector<std::string> names;
  const auto call = call_on(pool, name_space, {});
  const auto comes_before = [](const std::string& a, const std::string& b) {
    return std::pair(hash_of(a), a) < std::pair(hash_of(b), b);
  };
  call->act = [this, call = call.get(), &names, &after, comes_before] {
    names.clear();
    for (const auto& [name, object] : model_.pools_[call->pool].objects) {
      if (object && name.starts_with(call->object) && (after.empty() || comes_before(after, name))) {
        names.push_back(name);
      }
    }
    std::ranges::sort(names, comes_before);
    if (names.size() > objects_of_a_page) names.resize(objects_of_a_page);
    return std::optional(RadosOutcome{.answers = {}});
  };
  const int code = wait_for(call);
  if (code < 0) throw std::system_error(-code, std::generic_category(), "rados: list");
  return names;
}

RadosSession::Lane::Lane() : thread_([this] { run(); }) {}

void RadosSession::Lane::post(std::function<void()> what) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    queue_.push_back(std::move(what));
  }
  woken_.notify_one();
}

void RadosSession::Lane::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  woken_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void RadosSession::Lane::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    woken_.wait(lock, [this] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    next();
  }
}

}  // namespace verbena::simulator
