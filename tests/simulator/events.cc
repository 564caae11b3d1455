// Events of a bucket, delivered to a target that is slow, refuses, fails and loses its answers: each change's arrives
// at least once, none of a key before an earlier one, none of what was not done, and none by a server that another one
// has taken over from (docs/events.md). And a key's time of an overwrite is never an earlier one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "events/delivery.h"
#include "simulator/register.h"
#include "simulator/scene.h"
#include "simulator/scheduler.h"

namespace verbena::simulator {
namespace {

constexpr const char* queue_name = "model";
constexpr size_t keys_count = 3;

// A server's term as the leader: the number of its deliverer, and the server's own number of the term. 0: no leader.
struct Term {
  uint64_t deliverer = 0, number = 0;
  bool operator==(const Term&) const = default;
};

// What has arrived, of all servers. It outlives them.
class Inbox {
 public:
  uint64_t new_deliverer() { return ++deliverers_; }
  // Before a message. Which server was told last is told no more once another one has begun.
  void begins(const Term& term) {
    if (!terms_.empty() && terms_.back() == term) return;
    if (std::ranges::find(terms_, term) != terms_.end())
      return tell("a server that was taken over from goes on telling");
    terms_.push_back(term);
  }
  bool calm = false;
  std::string wrong;
  // By key, in the order of first arrivals: a value that was put, or 0 for a removal.
  std::array<std::vector<uint32_t>, keys_count> arrived;

  void take(const std::string& record, const Values& values) {
    const std::string sequencer = member(record, "sequencer"), key = member(record, "key");
    if (sequencer.empty()) return;  // of no key
    const size_t at = key.size() == 2 ? static_cast<size_t>(key[1] - '0') : keys_count;
    if (at >= keys_count) return tell("an event of an unknown key: " + record);
    if (!seen_[at].insert(sequencer).second) return;
    if (sequencer != *seen_[at].rbegin()) {
      tell(fmt::format("{}: the event {} arrives for the first time after {}", key, sequencer, *seen_[at].rbegin()));
    }
    const bool removed = member(record, "eventName").starts_with("ObjectRemoved");
    arrived[at].push_back(removed ? 0 : values.named(member(record, "eTag")));
  }

 private:
  static std::string member(const std::string& record, const std::string& name) {
    const std::string begin = "\"" + name + "\":\"";
    const size_t at = record.find(begin);
    if (at == std::string::npos) return {};
    const size_t from = at + begin.size();
    return record.substr(from, record.find('"', from) - from);
  }
  void tell(std::string what) {
    if (wrong.empty()) wrong = std::move(what);
  }

  std::array<std::set<std::string>, keys_count> seen_;  // sequencers, which have one length
  uint64_t deliverers_ = 0;
  std::vector<Term> terms_;  // that something was told in, in the order of the first messages
};

uint64_t draw_below(uint64_t below) { return Scheduler::get().random() % below; }

class ModelTarget final : public events::Target {
 public:
  // `term`: as in Delivery::Options.
  ModelTarget(Inbox& inbox, const Values& values, std::function<uint64_t()> term, std::function<void()> may_freeze)
      : inbox_(inbox),
        values_(values),
        term_(std::move(term)),
        may_freeze_(std::move(may_freeze)),
        number_(inbox.new_deliverer()),
        one_by_one_(draw_below(2) == 0) {}

  Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) override {
    const size_t step = one_by_one_ ? 1 : messages.size();
    const Term term{.deliverer = number_, .number = term_ ? term_() : 0};
    for (size_t at = 0; at < messages.size(); at += step) {
      if (at != 0) may_freeze_();
      if (!inbox_.calm && draw_below(20) == 0) sleep_for(static_cast<int64_t>(draw_below(2'000'000)) * 1000);
      const uint64_t fate = inbox_.calm ? 99 : draw_below(24);
      if (fate == 0) co_return fail(Errc::service_unavailable, "simulated: the target is down");
      if (fate == 1) co_return fail(Errc::invalid_request, "simulated: the target refuses");
      const int64_t asked_ns = Scheduler::get().steady_ns();
      VB_CO_TRY(may_send());
      // Unless it was frozen since it asked, the answer still holds.
      if (term.number != 0 && Scheduler::get().steady_ns() - asked_ns < frozen_ns) inbox_.begins(term);
      for (size_t i = at; i < at + step; ++i) {
        if (fate == 2 && draw_below(2) == 0) break;  // the connection ends in the middle
        inbox_.take(messages[i], values_);
      }
      if (fate == 2) co_return fail(Errc::io_error, "simulated: the answer is lost");
      delivered += step;
    }
    co_return Result<void>();
  }

 private:
  static constexpr int64_t frozen_ns = 1'000'000'000;

  Inbox& inbox_;
  const Values& values_;
  const std::function<uint64_t()> term_;
  const std::function<void()> may_freeze_;
  const uint64_t number_;
  const bool one_by_one_;
};

class Events final : public Scene {
 public:
  explicit Events(World& world) : Scene(world, "events"), room_(draw(3) == 0 ? 3 + draw(20) : 100'000) {}

  void opened(World::Server& server) override {
    auto& part = parts_[server.number];
    part.queues = std::make_unique<s3::EventQueues>(std::vector<s3::EventQueues::Target>{{queue_name, "file"}},
                                                    s3::EventQueues::Limits{.events_max = room_});
    server.service->events = part.queues.get();
    events::Delivery::Options options;
    options.retry_most = std::chrono::seconds(2);
    options.events_max = 1 + draw(16);
    options.page_max = 1 + draw(30);
    options.on_duty = term(server);
    auto made = events::Delivery::make(
        *server.store, *part.queues, queue_name,
        [this, on_duty = options.on_duty, freezes = may_freeze(server)] {
          return std::make_unique<ModelTarget>(inbox_, values(), on_duty, freezes);
        },
        options);
    part.delivery = std::move(*made);
    if (const auto loaded = part.delivery->load(); !loaded && !befell()) {
      return fail_with("the events that wait cannot be read: " + describe(loaded.error()));
    }
    part.delivery->start();
  }
  void closes(World::Server& server) override { parts_[server.number].delivery.reset(); }
  void gone(size_t server) override { parts_.erase(server); }

  void begin(Loop& loop) override {
    make_bucket(loop, "told");
    const Reply reply = ask(loop, "PUT", "/told?notification", {{"x-amz-skip-destination-validation", "true"}},
                            "<NotificationConfiguration><QueueConfiguration><Queue>arn:verbena:sqs::model:file</Queue>"
                            "<Event>s3:ObjectCreated:*</Event><Event>s3:ObjectRemoved:*</Event></QueueConfiguration>"
                            "</NotificationConfiguration>");
    if (!reply.ok()) fail_with("no notifications: " + reply.body);
  }
  void begin_round(Loop& /*loop*/) override { inbox_.calm = false; }

  void act(Loop& loop) override {
    if (!inbox_.wrong.empty()) return fail_with(inbox_.wrong);
    const size_t key = draw(keys_count);
    const uint32_t value = draw(3) == 0 ? 0 : values().add(draw(4) == 0 ? 30'000 : 8);
    if (!keys_[key].is.busy()) change(loop, key, value);  // another client may have begun while the value was made
  }
  void crash() override {
    for (Key& key : keys_) key.is.release();
  }

  // Everything arrives now.
  void look(Loop& loop) override {
    constexpr int64_t most_ns = 300'000'000'000, step_ns = 200'000'000;
    inbox_.calm = true;
    if (befell()) return;
    Scheduler& scheduler = Scheduler::get();
    const int64_t until_ns = scheduler.steady_ns() + most_ns;
    const auto is_done = [&] {
      return is_empty(loop) && is_explained(keys_[0], 0) && is_explained(keys_[1], 1) && is_explained(keys_[2], 2);
    };
    // Servers that share a store may learn late of events that wait.
    while (!is_done() && scheduler.steady_ns() < until_ns) sleep_for(step_ns);
    if (!inbox_.wrong.empty()) return fail_with(inbox_.wrong);
    for (size_t key = 0; key < keys_count; ++key) judge(key);
    if (scheduler.steady_ns() >= until_ns) fail_with("events wait for a target that takes them");
  }

 private:
  struct Part {  // of a server
    std::unique_ptr<s3::EventQueues> queues;
    std::unique_ptr<events::Delivery> delivery;
  };
  struct Change {
    uint32_t value;
    bool sure;
  };
  struct Key {
    Register<uint32_t> is{};
    std::vector<Change> changes{};  // since it was last judged
    std::string modified{};         // as a listing shows it, since it was last removed
  };

  void change(Loop& loop, size_t at, uint32_t value) {
    Key& key = keys_[at];
    const std::string target = fmt::format("/told/e{}", at);
    const bool was_there = !key.is.may_be().contains(0), was_gone = key.is.may_be() == std::set<uint32_t>{0};
    key.is.begin({value});
    const Reply reply = value == 0 ? ask(loop, "DELETE", target) : ask(loop, "PUT", target, {}, values().bytes(value));
    const bool done = reply.ok();
    if (value == 0) key.modified.clear();
    if (done && value != 0 && draw(2) == 0) judge_time(loop, at);
    // Of a removal of nothing there is none.
    if (value != 0 || !was_gone) key.changes.push_back({value, done && (value != 0 || was_there)});
    if (done) return key.is.done(value);
    // The queue of its events may be full, for the target takes none.
    if (reply.body.find("events is full") == std::string::npos) note_failure("a change", reply);
    key.is.unknown(settled());
  }

  // Of a key that this client has just put, and no other one changes. A listing's times have one length.
  void judge_time(Loop& loop, size_t at) {
    const std::string modified =
        ask(loop, "GET", fmt::format("/told?list-type=2&prefix=e{}", at)).element("LastModified");
    std::string& before = keys_[at].modified;
    if (!modified.empty() && modified < before) fail_with(fmt::format("e{}: put at {} after {}", at, modified, before));
    before = modified;
  }

  bool is_empty(Loop& loop) {
    const auto backlog = run_on(loop, server().store->event_backlog(queue_name));
    return backlog && std::ranges::all_of(*backlog, [](const store::EventBacklog& of) { return of.events == 0; });
  }

  // Whether the arrivals are the changes, without some that are not sure.
  bool is_explained(const Key& key, size_t at) const {
    const std::vector<uint32_t>& arrived = inbox_.arrived[at];
    std::set<size_t> explained{0};  // so many arrivals, by the changes so far
    for (const Change& change : key.changes) {
      std::set<size_t> next;
      for (const size_t count : explained) {
        if (count < arrived.size() && arrived[count] == change.value) next.insert(count + 1);
        if (!change.sure) next.insert(count);
      }
      explained = std::move(next);
    }
    return explained.contains(arrived.size());
  }

  void judge(size_t at) {
    Key& key = keys_[at];
    std::vector<uint32_t>& arrived = inbox_.arrived[at];
    if (!is_explained(key, at)) {
      std::string text = fmt::format("e{}: the changes", at);
      for (const Change& change : key.changes) text += fmt::format(" {}{}", change.value, change.sure ? "" : "?");
      text += "; events of";
      for (const uint32_t value : arrived) text += fmt::format(" {}", value);
      return fail_with(text);
    }
    key.changes.clear();
    arrived.clear();
  }

  const uint64_t room_;
  Inbox inbox_;
  std::map<size_t, Part> parts_;
  std::array<Key, keys_count> keys_{};
};

}  // namespace

std::unique_ptr<Scene> make_events(World& world) { return std::make_unique<Events>(world); }

}  // namespace verbena::simulator
