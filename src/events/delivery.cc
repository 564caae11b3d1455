#include "events/delivery.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <utility>

#include "base/log.h"
#include "base/log_limit.h"
#include "events/look_pause.h"
#include "events/run_task.h"

namespace verbena::events {
namespace {

using namespace std::chrono_literals;

// An announced event becomes readable a moment later: when its change is durable.
constexpr auto look_again_after = 5ms;
constexpr auto remove_again_after = 1s;
// The interval of checks whether a refused or unread bucket may be tried again, or another one has events.
constexpr std::chrono::milliseconds refused_again_after{50};
constexpr size_t courses_kept = 1024;
constexpr std::chrono::milliseconds shared_again_after{50};
constexpr size_t record_logged_max = 8192;

}  // namespace

Delivery::Delivery(store::Store& store, s3::EventQueues& queues, std::string name, Options options)
    : store_(store), queues_(queues), name_(std::move(name)), options_(options) {}

std::expected<std::unique_ptr<Delivery>, std::string> Delivery::make(store::Store& store, s3::EventQueues& queues,
                                                                     std::string name, const MakeTarget& make_target,
                                                                     Options options) {
  std::unique_ptr<Delivery> delivery(new Delivery(store, queues, std::move(name), options));
  auto target = make_target();
  if (!target) return std::unexpected(target.error());
  delivery->target_ = std::move(*target);
  delivery->target_->ask_before_each([one = delivery.get()] { return !one->lost_duty(); });
  return delivery;
}

Result<void> Delivery::load() {
  VB_ASSIGN(const auto backlog, run_task(io_, store_.event_backlog(name_)));
  queues_.load(name_, backlog);
  return {};
}

void Delivery::start() { thread_ = std::thread(&Delivery::loop, this); }

void Delivery::begin_stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    woken_.notify_all();
  }
  queues_.wake(name_);
  target_->cut();
}

void Delivery::stop() {
  if (!thread_.joinable()) return;
  begin_stop();
  thread_.join();
}

bool Delivery::sleep(std::chrono::milliseconds time, bool whatever_is_asked) {
  std::unique_lock lock(mutex_);
  woken_.wait_for(lock, time, [&] { return stop_ || (asked_ != nullptr && !whatever_is_asked); });
  return !stop_;
}

bool Delivery::ask(const SkipPtr& skip) {
  {
    const std::lock_guard lock(mutex_);
    if (asked_ != nullptr) return false;
    asked_ = skip;
    skip_asked_ = true;
    woken_.notify_all();
  }
  queues_.wake(name_);
  return true;
}

bool Delivery::take_back(const SkipPtr& skip) {
  const std::lock_guard lock(mutex_);
  if (asked_ != skip) return false;
  asked_.reset();
  skip_asked_ = false;
  return true;
}

void Delivery::skip_what_was_asked() {
  SkipPtr skip;
  {
    const std::lock_guard lock(mutex_);
    if (asked_ == nullptr) return;
    asked_.swap(skip);
    skip_asked_ = false;
    skip->state = Skip::State::begun;
  }
  try {
    skip->record = let_go(*skip);
  } catch (const std::exception& e) {
    log::error("events: {}: {}", name_, e.what());
    skip->record = fail(Errc::internal, "events: an event cannot be dropped");
  }
  skip->state = Skip::State::done;
}

// Logged before it is removed.
Result<std::string> Delivery::let_go(const Skip& skip) {
  if (!delivers()) return fail(Errc::unsupported, "events: another server delivers");
  if (!stuck_.has(skip.bucket, skip.event)) return fail(Errc::not_found, "events: not stuck");
  VB_ASSIGN(const auto events, run_task(io_, store_.events(name_, skip.bucket, skip.event - 1, 1, 1)));
  if (events.empty() || events.front().id != skip.event) {
    stuck_.moved_on(skip.bucket);
    return fail(Errc::not_found, "events: not there");
  }
  const std::string& record = events.front().record;
  log::warn("events: {}: {} drops an event that the target does not take: {}", name_, skip.who,
            log::printable(record, record_logged_max));
  VB_TRY(run_task(io_, store_.remove_events(name_, skip.bucket, {skip.event})));
  queues_.removed(name_, skip.bucket, 1, record.size());
  queues_.let_go(name_, 1);
  stuck_.moved_on(skip.bucket);
  Course& course = courses_[skip.bucket];
  forget_page(course);
  course = {.behind = skip.event, .singly = course.singly};
  return record;
}

void Delivery::loop() {
  // Libraries write to sockets that the peer has closed.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  auto retry = options_.retry_first;
  while (!stop_) {
    if (options_.on_duty) {
      if (!has_work() && !sleep(shared_again_after)) return;
    } else {
      queues_.wait(name_);
    }
    if (stop_) return;
    skip_what_was_asked();
    const Outcome outcome = tried_round();
    if (outcome == Outcome::delivered) retry = options_.retry_first;
    if (outcome == Outcome::nothing && !sleep(look_again_after)) return;
    const bool waits = outcome == Outcome::refused || outcome == Outcome::unread;
    if (waits && !sleep(std::min(options_.retry_first, refused_again_after))) return;
    if (outcome != Outcome::failed) continue;
    if (!sleep(retry)) return;
    retry = std::min(retry * 2, options_.retry_most);
  }
}

bool Delivery::has_work() {
  // A new leader does not wait for what it had rested before: the last one may have left events that it has not seen.
  const uint64_t term = options_.on_duty();
  if (term != 0 && std::exchange(looked_in_, term) != term) next_look_ = {};
  if (SteadyClock::now() >= next_look_) {
    const auto began = SteadyClock::now();
    const auto backlog = run_task(io_, store_.event_backlog(name_));
    if (backlog) queues_.load(name_, *backlog);
    const auto now = SteadyClock::now();
    next_look_ = now + pause_after_look(options_.look_every, now - began);
  }
  if (!delivers()) stuck_.clear();  // reported by the leader
  return !stop_ && delivers() && !queues_.waiting(name_).empty();
}

// An exception (no memory, no descriptor) is a failure like others: tried again later.
Delivery::Outcome Delivery::tried_round() {
  try {
    return round();
  } catch (const std::exception& e) {
    log::error("events: {}: {}", name_, e.what());
    return Outcome::failed;
  }
}

// One batch of each bucket in turn, so that no bucket waits for all events of another. A failure ends the round, since
// the target may be down; the next one begins after that bucket, since only its events may be at fault. What cannot be
// read of a bucket ends no round: it says nothing of the target. An operator's request ends it, too.
Delivery::Outcome Delivery::round() {
  if (lost_duty()) {
    forget_pages();
    term_ = options_.on_duty();
  }
  auto waiting = queues_.waiting(name_);
  std::ranges::rotate(waiting, std::ranges::find_if(waiting, [&](const auto& one) { return one.bucket > reached_; }));
  // Some buckets without events are remembered: removed rows stay in the index for a while, and reading from the front
  // again would walk over all of them each time.
  std::erase_if(courses_, [&](const auto& known) {
    return known.second.page.empty() && courses_.size() > waiting.size() + courses_kept &&
           std::ranges::find(waiting, known.first, &s3::EventQueues::Waiting::bucket) == waiting.end();
  });
  Outcome all = Outcome::nothing;
  for (const auto& one : waiting) {
    if (ends() || skip_asked_) return all;
    reached_ = one.bucket;  // the next round continues here if this one ends
    Course& course = courses_[one.bucket];
    if (SteadyClock::now() < course.not_before) {
      if (all == Outcome::nothing) all = Outcome::refused;
      continue;
    }
    const Outcome outcome = deliver(one.bucket, course);
    if (outcome == Outcome::refused || outcome == Outcome::unread || outcome == Outcome::failed) {
      course.retry = std::clamp(course.retry * 2, options_.retry_first, options_.retry_most);
      course.not_before = SteadyClock::now() + course.retry;
    }
    if (outcome == Outcome::failed) return outcome;
    if (outcome == Outcome::delivered) course.retry = {};
    if (outcome == Outcome::delivered || all == Outcome::nothing) all = outcome;
  }
  return all;
}

// Reads a bucket's next events, as of one moment.
//
// The ids of a single server are in the order of its commits (store/local/committer.h), so all new events are after the
// last one read. The ids of servers that share a store come from several clocks: a change of another key may be
// committed later with a lesser id than one that was delivered. So there each read begins at the front, where nothing
// is missed. That keeps the order of each key: its ids grow from change to change, so with any event of a key all
// earlier ones were found as well, and later ones have greater ids than all of them. Only the order of different keys,
// which is not promised, is that of clocks. A page is delivered completely before the next read, so a late event waits
// for one page at most; and pages are large, since removed rows stay in the index for a while and a read from the front
// walks over them.
Result<void> Delivery::read_page(uint64_t bucket, Course& course) {
  if (!course.page.empty()) return {};
  if (held_bytes_ >= options_.held_bytes_max) forget_pages();  // of other buckets, which are read again
  const uint64_t after = options_.on_duty ? 0 : course.behind;
  VB_ASSIGN(auto events, run_task(io_, store_.events(name_, bucket, after, options_.page_max, options_.bytes_max)));
  if (events.empty()) course.behind = 0;
  for (auto& event : events) {
    held_bytes_ += event.record.size();
    course.page.push_back(std::move(event));
  }
  return {};
}

void Delivery::forget_page(Course& course) {
  for (const auto& event : course.page) held_bytes_ -= event.record.size();
  course.page.clear();
}

void Delivery::forget_pages() {
  for (auto& [bucket, course] : courses_) forget_page(course);
}

Delivery::Outcome Delivery::deliver(uint64_t bucket, Course& course) {
  const auto read = read_page(bucket, course);
  tell_unread(bucket, course, read);
  if (!read) return Outcome::unread;
  if (course.page.empty()) return Outcome::nothing;
  // A cancellation may have been requested before there was a delivery to cancel.
  if (stop_) return Outcome::nothing;
  std::vector<std::string> messages;
  const size_t most = std::min(course.page.size(), course.singly != 0 ? 1 : options_.events_max);
  for (size_t i = 0; i < most; ++i) messages.push_back(course.page[i].record);
  size_t delivered = 0;
  const auto done = run_task(io_, target_->deliver(messages, delivered));
  if (delivered != 0) {
    if (!remove(bucket, course, delivered)) return Outcome::failed;
    stuck_.moved_on(bucket, course.behind);
  }
  // Not the target's failure: delivery stopped here.
  if (!done && lost_duty()) {
    queues_.tried(name_, delivered, /*failed=*/false);
    return Outcome::nothing;
  }
  if (!stop_ || done) tell(done, delivered);
  if (done) {
    if (course.singly != 0) --course.singly;
    return Outcome::delivered;
  }
  course.singly = options_.events_max;
  // Which event of the batch failed is not known: they are sent one by one from now on.
  if (!stop_ && most == 1) tell_stuck(bucket, course.page.front(), done.error());
  return done.error() == Errc::invalid_request ? Outcome::refused : Outcome::failed;
}

// Removes the leading events of the page. Events that could not be removed are delivered again only after a restart. A
// server that is no longer the leader still removes what its target has confirmed, by id.
bool Delivery::remove(uint64_t bucket, Course& course, size_t delivered) {
  std::vector<uint64_t> ids;
  uint64_t bytes = 0;
  for (size_t i = 0; i < delivered; ++i) {
    ids.push_back(course.page[i].id);
    bytes += course.page[i].record.size();
  }
  for (;;) {
    const auto removed = run_task(io_, store_.remove_events(name_, bucket, ids));
    if (removed) break;
    log::warn("events: {}: delivered events cannot be removed: {}", name_, describe(removed.error()));
    if (!sleep(remove_again_after, /*whatever_is_asked=*/true)) return false;
  }
  course.behind = ids.back();
  course.page.erase(course.page.begin(), course.page.begin() + static_cast<ptrdiff_t>(delivered));
  held_bytes_ -= bytes;
  queues_.removed(name_, bucket, delivered, bytes);
  return true;
}

// Each bucket once, until its events can be read again.
void Delivery::tell_unread(uint64_t bucket, Course& course, const Result<void>& read) {
  if (std::exchange(course.unread, !read) == !read) return;
  static log::Limit limit;
  if (read) {
    limit.info("events: {}: the events of bucket {:x} can be read again", name_, bucket);
  } else {
    limit.warn("events: {}: the events of bucket {:x} cannot be read and wait: {}", name_, bucket,
               describe(read.error()));
  }
}

void Delivery::tell_stuck(uint64_t bucket, const store::QueuedEvent& event, const Error& error) {
  std::string why = describe(error);
  if (const std::string said = target_->said(); !said.empty()) why += ": " + said;
  stuck_.failed(bucket, event, {error == Errc::invalid_request, std::move(why)}, system_clock().now_us());
}

void Delivery::tell(const Result<void>& delivered, size_t confirmed) {
  queues_.tried(name_, confirmed, !delivered);
  if (!delivered && !std::exchange(failing_, true)) {
    log::warn("events: {} takes nothing and is tried again: {}", name_, describe(delivered.error()));
  } else if (delivered && std::exchange(failing_, false)) {
    log::info("events: {} takes events again", name_);
  }
}

}  // namespace verbena::events
