// A bucket whose versioning is enabled, suspended and enabled again while clients, listings and lifecycle passes run: a
// put or a removal while it is suspended replaces the null version and no other.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>

#include "simulator/register.h"
#include "simulator/scene.h"

namespace verbena::simulator {
namespace {

enum class Status : uint8_t { off, enabled, suspended };

struct Kept {
  uint32_t content = 0;  // 0: a delete marker
  std::string id{};      // "null", or "?": one that was not told
  bool may_go = false;   // by a rule: it has been noncurrent
  auto operator<=>(const Kept&) const = default;
  bool is(const Kept& other) const {
    return content == other.content && (id == other.id || (id == "?" && other.id != "null"));
  }
};
using Chain = std::vector<Kept>;  // oldest first

Chain with(Chain chain, uint32_t content, Status status, const std::string& id, bool ruled) {
  for (Kept& one : chain) one.may_go = ruled;
  if (status != Status::enabled) std::erase_if(chain, [](const Kept& one) { return one.id == "null"; });
  if (content != 0 || status != Status::off) chain.push_back({.content = content, .id = id});
  return chain;
}

class Suspensions final : public Scene {
 public:
  explicit Suspensions(World& world) : Scene(world, "suspensions"), ruled_(draw(2) == 0) {}

  void begin(Loop& loop) override {
    make_bucket(loop, "paused");
    if (!ruled_) return;
    const Reply reply = ask(loop, "PUT", "/paused?lifecycle", {},
                            "<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter/>"
                            "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>"
                            "</NoncurrentVersionExpiration></Rule></LifecycleConfiguration>");
    if (!reply.ok()) fail_with("no rule: " + reply.body);
  }
  void act(Loop& loop) override {
    const size_t key = draw(keys_.size());
    const uint64_t choice = draw(20);
    if (choice < 7) return write(loop, key, draw(4) != 0);
    if (choice < 9) return remove_version(loop, key);
    if (choice < 14) return get(loop, key);
    if (choice < 16) return get_null(loop, key);
    if (choice < 18) return list(loop, key);
    if (!status_.busy()) set_status(loop);
  }
  void crash() override {
    status_.release();
    for (auto& key : keys_) key.release();
  }
  void look(Loop& loop) override {
    for (size_t key = 0; key < keys_.size(); ++key) {
      get(loop, key);
      get_null(loop, key);
      list(loop, key);
    }
  }

 private:
  using Key = Register<Chain>;
  static std::string target(size_t key) { return fmt::format("/paused/n{}", key); }

  void set_status(Loop& loop) {
    const bool enables = !status_.may_be().contains(Status::enabled) || draw(3) == 0;
    const Status next = enables ? Status::enabled : Status::suspended;
    status_.begin({next});
    const Reply reply = ask(loop, "PUT", "/paused?versioning", {},
                            fmt::format("<VersioningConfiguration><Status>{}</Status></VersioningConfiguration>",
                                        enables ? "Enabled" : "Suspended"));
    if (reply.ok()) return status_.done(next);
    note_failure("versioning", reply);
    status_.unknown(settled());
  }

  // A put of a null version is answered without an id, whether versioning is off or suspended, which is the same to it.
  static bool fits(Status status, const Reply& reply, bool puts) {
    if (reply.version_id == "null") return status == Status::suspended && !puts;
    if (!reply.version_id.empty()) return status == Status::enabled;
    return status == Status::off || (puts && status == Status::suspended);
  }
  static Status status_of(const Reply& reply) {
    if (reply.version_id.empty()) return Status::off;
    return reply.version_id == "null" ? Status::suspended : Status::enabled;
  }

  // A put, or a removal.
  void write(Loop& loop, size_t at, bool puts) {
    Key& key = keys_[at];
    if (key.busy()) return;
    constexpr size_t sizes[] = {8, 300, 20'000};
    const uint32_t value = puts ? values().add(sizes[draw(3)]) : 0;
    const std::set<Chain> before = key.may_be();
    std::vector<Chain> next;
    for (const Chain& chain : before) {
      for (const Status status : {Status::off, Status::enabled, Status::suspended}) {
        next.push_back(with(chain, value, status, status == Status::enabled ? "?" : "null", ruled_));
      }
    }
    key.begin(next);
    const auto statuses = status_.begin_read();
    const Reply reply =
        puts ? ask(loop, "PUT", target(at), {}, values().bytes(value)) : ask(loop, "DELETE", target(at));
    if (!reply.ok()) {
      status_.end_read(statuses);
      note_failure("a change", reply);
      return key.unknown(settled());
    }
    const Status status = status_of(reply);
    if (!status_.end_read(statuses, [&](Status one) { return fits(one, reply, puts); })) {
      fail_with(fmt::format("{}: version {} by a change of another status", target(at), reply.version_id));
    }
    std::vector<Chain> now;
    for (const Chain& chain : before) {
      now.push_back(with(chain, value, status, status == Status::enabled ? reply.version_id : "null", ruled_));
    }
    key.done_as(std::move(now));
  }

  void remove_version(Loop& loop, size_t at) {
    Key& key = keys_[at];
    if (key.busy()) return;
    const std::set<Chain> before = key.may_be();
    const Chain& known = *before.begin();
    if (known.empty()) return;
    const std::string id = known[draw(known.size())].id;
    if (id == "?") return;
    std::vector<Chain> next;
    for (Chain chain : before) {
      std::erase_if(chain, [&](const Kept& one) { return one.id == id; });
      next.push_back(std::move(chain));
    }
    key.begin(next);
    const Reply reply = ask(loop, "DELETE", target(at) + "?versionId=" + id);
    if (reply.ok()) return key.done_as(std::move(next));
    note_failure("a version's removal", reply);
    key.unknown(settled());
  }

  template <class Fits>
  void judge(size_t at, Key::Reading reading, const std::string& seen, const Fits& fits) {
    std::string text;
    for (const Chain& chain : keys_[at].may_be()) {
      text += "\n  may be";
      for (const Kept& one : chain) text += fmt::format(" {} {},", one.content, one.id);
    }
    if (!keys_[at].end_read(reading, fits)) fail_with(fmt::format("{}: {}{}", target(at), seen, text));
  }

  // 0: none.
  bool value_of(const Reply& reply, uint32_t& value) {
    value = 0;
    if (!reply.ok()) return true;
    std::vector<uint32_t> seen;
    if (!values().split(reply.body, seen) || seen.size() != 1) return false;
    value = seen[0];
    return true;
  }

  void get(Loop& loop, size_t at) {
    const auto reading = keys_[at].begin_read();
    const Reply reply = ask(loop, "GET", target(at));
    if (!reply.ok() && reply.status != 404) {
      note_failure("a GET", reply);
      return keys_[at].end_read(reading);
    }
    uint32_t value = 0;
    if (!value_of(reply, value)) fail_with(target(at) + ": wrong bytes");
    judge(at, reading, fmt::format("GET shows {}", value), [&](const Chain& chain) { return may_show(chain, value); });
  }

  static bool may_show(const Chain& chain, uint32_t value) {
    for (auto one = chain.rbegin(); one != chain.rend(); ++one) {
      if (one->content == value) return true;
      if (!one->may_go) return false;
    }
    return value == 0;
  }

  void get_null(Loop& loop, size_t at) {
    const auto reading = keys_[at].begin_read();
    const Reply reply = ask(loop, "GET", target(at) + "?versionId=null");
    if (!reply.ok() && reply.status != 404 && reply.status != 405) {
      note_failure("a GET of the null version", reply);
      return keys_[at].end_read(reading);
    }
    uint32_t value = 0;
    if (!value_of(reply, value)) fail_with(target(at) + ": wrong bytes of the null version");
    judge(at, reading, fmt::format("the null version shows {} {}", value, reply.status), [&](const Chain& chain) {
      const auto null = std::ranges::find(chain, "null", &Kept::id);
      if (reply.status == 404) return null == chain.end() || null->may_go;
      return null != chain.end() && null->content == value;
    });
  }

  void list(Loop& loop, size_t at) {
    if (!one_moment()) return;
    const auto reading = keys_[at].begin_read();
    store::ListVersionsRequest request;
    request.prefix = fmt::format("n{}", at);
    const auto page = run_on(loop, server().store->list_versions("paused", request));
    if (!page || page->truncated) return keys_[at].end_read(reading);
    Chain seen;
    std::string text = "listed";
    for (auto entry = page->versions.rbegin(); entry != page->versions.rend(); ++entry) {
      seen.push_back({.content = entry->info.delete_marker ? 0 : values().named(entry->info.etag),
                      .id = entry->info.version_id.empty() ? "null" : entry->info.version_id});
      text += fmt::format(" {} {},", seen.back().content, seen.back().id);
    }
    judge(at, reading, text, [&](const Chain& chain) { return explains(chain, seen); });
  }
  static bool explains(const Chain& chain, const Chain& seen) {
    size_t at = 0;
    for (const Kept& one : chain) {
      if (at < seen.size() && one.is(seen[at])) {
        ++at;
      } else if (!one.may_go) {
        return false;
      }
    }
    return at == seen.size();
  }

  const bool ruled_;
  Register<Status> status_{};
  std::array<Key, 3> keys_{};
};

}  // namespace

std::unique_ptr<Scene> make_suspensions(World& world) { return std::make_unique<Suspensions>(world); }

}  // namespace verbena::simulator
