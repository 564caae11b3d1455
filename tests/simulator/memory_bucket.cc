// A bucket with `memory` durability: while the server runs its keys are as acknowledged. The end of a server that met a
// fault may take back what changed a key in the last moments before that, and since; an orderly end takes nothing
// (docs/reliability.md, src/store/local/README.md).
#include <fmt/format.h>

#include <array>
#include <set>
#include <vector>

#include "simulator/register.h"
#include "simulator/scene.h"
#include "simulator/scheduler.h"

namespace verbena::simulator {
namespace {

// What a key has that answers InternalError: its head was kept, its bytes were not.
constexpr uint32_t broken = UINT32_MAX;
// A second is promised. Threads stall, and the process stands still for four.
constexpr int64_t lost_most_ns = 8'000'000'000;

class MemoryBucket final : public Scene {
 public:
  explicit MemoryBucket(World& world) : Scene(world, "memory") {}

  void begin(Loop& loop) override {
    const Reply reply = ask(loop, "PUT", "/quick", {{"x-verbena-durability", "memory"}});
    if (!reply.ok()) fail_with("no bucket: " + reply.body);
    well_ns_ = Scheduler::get().steady_ns();
  }
  void act(Loop& loop) override {
    const size_t key = draw(keys_.size());
    const uint64_t choice = draw(20);
    if (choice < 9) return put(loop, key, draw(4) == 0);
    if (choice < 11) return remove(loop, key);
    if (choice < 18) return get(loop, key);
    list(loop);
  }
  // So that something waits when the server stops: its clients have been gone for seconds by then.
  void settle(Loop& loop) override {
    for (size_t key = 0; key < keys_.size(); ++key) put(loop, key, /*if_absent=*/false);
  }
  // Not before: a fault may befall the stop.
  void gone(size_t /*server*/) override {
    look_whether_it_fell();
    for (Key& key : keys_) {
      if (fell_ns_ != 0) widen(key);  // an orderly end loses nothing
      if (failed_to_sync()) key.is.add({broken});
    }
  }
  void crash() override {
    for (Key& key : keys_) {
      key.is.release();
      key.before.clear();
    }
    fell_ns_ = 0;
    well_ns_ = Scheduler::get().steady_ns();
  }
  void look(Loop& loop) override {
    for (size_t key = 0; key < keys_.size(); ++key) get(loop, key);
    list(loop);
    for (size_t key = 0; key < keys_.size(); ++key) get(loop, key);
  }

 private:
  struct Before {
    uint32_t value;
    int64_t until_ns;  // of the steady clock: replaced by then
  };
  struct Key {
    Register<uint32_t> is{};  // a value, 0: no object, or `broken`
    std::vector<Before> before{};
  };
  static std::string target(size_t key) { return fmt::format("/quick/q{}", key); }

  // What was acknowledged in the last moments before this, or is from now on, may be lost with the server's end. Until
  // then it is read: the disk may take nothing, and the server has it in memory. A fault may be noticed long after it
  // befell, when the server has ended, but it came after the last look that found none.
  void look_whether_it_fell() {
    if (fell_ns_ != 0) return;
    if (befell()) {
      fell_ns_ = well_ns_;
    } else {
      well_ns_ = Scheduler::get().steady_ns();
    }
  }
  void widen(Key& key) const {
    std::vector<uint32_t> more;
    for (const Before& before : key.before) {
      if (before.until_ns >= fell_ns_ - lost_most_ns) more.push_back(before.value);
    }
    if (more.empty() && !key.is.busy()) return;
    more.push_back(0);
    more.push_back(broken);
    key.is.add(more);
  }

  void put(Loop& loop, size_t at, bool if_absent) {
    constexpr std::array<size_t, 3> sizes{8, 3000, 40'000};
    const uint32_t value = values().add(sizes[draw(sizes.size())]);
    Key& key = keys_[at];
    look_whether_it_fell();
    if (key.is.busy()) return;  // from here to begin() no other client has its turn
    s3::Headers headers;
    if (if_absent) headers.emplace_back("if-none-match", "*");
    const bool was_there = !key.is.may_be().contains(0), was_gone = key.is.may_be() == std::set<uint32_t>{0};
    begin(key, value);
    const Reply reply = ask(loop, "PUT", target(at), headers, values().bytes(value));
    end(key, value, "a put", reply);
    if (!if_absent) return;
    if (reply.ok() && was_there) fail_with(fmt::format("q{}: put if absent over what is there", at));
    if (reply.status == 412 && was_gone) fail_with(fmt::format("q{}: there is nothing, and a put if absent fails", at));
  }
  void remove(Loop& loop, size_t at) {
    Key& key = keys_[at];
    look_whether_it_fell();
    if (key.is.busy()) return;
    begin(key, 0);
    end(key, 0, "a removal", ask(loop, "DELETE", target(at)));
  }

  void begin(Key& key, uint32_t value) {
    for (const uint32_t one : key.is.may_be()) key.before.push_back({one, INT64_MAX});
    key.is.begin({value});
  }
  void end(Key& key, uint32_t value, std::string_view what, const Reply& reply) {
    look_whether_it_fell();
    const int64_t now_ns = Scheduler::get().steady_ns();
    for (Before& before : key.before) before.until_ns = std::min(before.until_ns, now_ns);
    if (fell_ns_ == 0)
      std::erase_if(key.before, [&](const Before& one) { return one.until_ns < now_ns - lost_most_ns; });
    if (reply.ok()) {
      key.is.done(value);
    } else if (reply.status == 412) {
      key.is.refused();
    } else {
      note_failure(what, reply);
      key.is.unknown(settled());
    }
  }

  void get(Loop& loop, size_t at) {
    auto& is = keys_[at].is;
    const auto reading = is.begin_read();
    const Reply reply = ask(loop, "GET", target(at));
    look_whether_it_fell();
    const bool lost = reply.code == "InternalError", gone = reply.code == "NoSuchKey";
    uint32_t value = 0;
    std::string etag = reply.etag;
    std::erase(etag, '"');
    if (reply.ok() && !values().recognize(etag, reply.body, value)) {
      fail_with(fmt::format("q{}: {} bytes that are not those of {}", at, reply.body.size(), reply.etag));
    }
    if (!reply.ok() && !gone && (!lost || befell())) {
      note_failure("a read", reply);
      return is.end_read(reading);
    }
    const std::set<uint32_t> may_be = reading->may_be;
    const auto fits = [&](uint32_t one) { return lost ? one == broken : one == value; };
    if (is.end_read(reading, fits)) return;
    fail_with(
        fmt::format("q{} has {}{}; it may have {}", at, value, lost ? " lost bytes" : "", fmt::join(may_be, ", ")));
  }

  // A head may be there whose bytes are not.
  void list(Loop& loop) {
    std::vector<Register<uint32_t>::Reading> readings;
    for (Key& key : keys_) readings.push_back(key.is.begin_read());
    const auto page = run_on(loop, server().store->list_versions("quick", {}));
    look_whether_it_fell();
    for (size_t at = 0; at < keys_.size(); ++at) {
      auto& is = keys_[at].is;
      if (!page) {
        is.end_read(readings[at]);
        continue;
      }
      uint32_t value = 0;
      for (const store::VersionEntry& entry : page->versions) {
        if (entry.key == fmt::format("q{}", at)) value = values().named(entry.info.etag);
      }
      const auto fits = [&](uint32_t one) { return one == broken || one == value; };
      if (!is.end_read(readings[at], fits)) fail_with(fmt::format("a listing shows q{} with {}", at, value));
    }
    if (!page && !befell()) fail_with("no listing: " + describe(page.error()));
  }

  std::array<Key, 3> keys_{};
  // Of the steady clock.
  int64_t well_ns_ = 0;  // nothing had befallen the server yet
  int64_t fell_ns_ = 0;  // it was well last; 0: nothing has befallen it
};

}  // namespace

std::unique_ptr<Scene> make_memory_bucket(World& world) { return std::make_unique<MemoryBucket>(world); }

}  // namespace verbena::simulator
