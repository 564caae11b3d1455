// Buckets that are removed and made again under their names while clients work: none of an earlier one's objects, rules
// or uploads is in a later one, and none that was acknowledged goes with a bucket.
#include <fmt/format.h>

#include <array>
#include <deque>
#include <set>

#include "simulator/register.h"
#include "simulator/scene.h"

namespace verbena::simulator {
namespace {

class Passing {
 public:
  explicit Passing(std::string name) : name(std::move(name)) {}

  const std::string name;
  Register<bool> there{};
  std::array<Register<uint32_t>, 3> keys{};  // 0: no object
  bool versioned = false;                    // by the last that made it
  bool ruled = false;                        // a rule may remove all of its objects
  uint64_t number = 1;                       // of those of that name
  uint64_t ended = 0;                        // the last number that was surely removed
  std::set<uint32_t> alive{}, dead{};        // values that were put: in this one, and in one that was removed since

  bool surely_there() const { return !there.busy() && there.may_be() == std::set<bool>{true}; }
  bool surely_gone() const { return !there.busy() && there.may_be() == std::set<bool>{false}; }
};

class Buckets final : public Scene {
 public:
  explicit Buckets(World& world) : Scene(world, "buckets") {
    // Over Ceph a name may be given twice, which few buckets would not show.
    for (size_t at = 0; at < (shared() ? 4 : 2); ++at) buckets_.emplace_back(fmt::format("passing{}", at));
  }
  void begin(Loop& loop) override {
    for (Passing& bucket : buckets_) make(loop, bucket);
  }
  void begin_round(Loop& /*loop*/) override { churns_ = shared() && draw(2) == 0; }

  void act(Loop& loop) override {
    Passing& bucket = buckets_[draw(buckets_.size())];
    const size_t key = draw(bucket.keys.size());
    const uint64_t choice = churns_ && draw(2) == 0 ? 17 + draw(3) : draw(20);
    if (choice < 5) return put(loop, bucket, key);
    if (choice < 7) return remove(loop, bucket, key);
    if (choice < 13) return read(loop, bucket, key);
    if (choice < 15) return list(loop, bucket);
    if (choice < 16) return act_on_upload(loop, bucket, key);
    if (bucket.there.busy()) return;
    if (!bucket.there.may_be().contains(true)) return make(loop, bucket);
    if (choice < 17) return set_rule(loop, bucket);
    if (draw(4) != 0) empty(loop, bucket);
    if (!bucket.there.busy()) end(loop, bucket);
  }
  void crash() override {
    for (Passing& bucket : buckets_) {
      bucket.there.release();
      for (auto& key : bucket.keys) key.release();
    }
  }
  void look(Loop& loop) override {
    for (Passing& bucket : buckets_) {
      for (size_t key = 0; key < bucket.keys.size(); ++key) read(loop, bucket, key);
      look_at_versions(loop, bucket);
    }
  }

 private:
  struct Upload {
    Passing* bucket;
    size_t key;
    uint64_t number;  // of its bucket
    std::string id;
  };
  static std::string target(const Passing& bucket, size_t key) { return fmt::format("/{}/p{}", bucket.name, key); }

  // Of a call that began when the bucket was surely there: `still` says that nothing has changed that since.
  struct Look {
    const Passing& bucket;
    uint64_t changes = bucket.there.changes();
    bool there = bucket.surely_there(), gone = bucket.surely_gone();
    bool still() const { return bucket.there.changes() == changes && !bucket.there.busy(); }
  };
  // False: there was no such bucket.
  bool found(const Look& look, const Reply& reply) {
    if (reply.code != "NoSuchBucket") return true;
    if (look.there && look.still()) fail_with(look.bucket.name + " is said not to be there");
    return false;
  }

  void make(Loop& loop, Passing& bucket) {
    bucket.there.begin({true});
    const Reply reply = ask(loop, "PUT", "/" + bucket.name);
    if (!reply.ok()) {
      note_failure("a bucket's making", reply);
      return bucket.there.unknown(settled());
    }
    bucket.versioned = draw(2) == 0;
    Reply set;
    if (bucket.versioned) {
      set = ask(loop, "PUT", "/" + bucket.name + "?versioning", {},
                "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
      if (!set.ok()) note_failure("versioning", set);
    }
    bucket.there.done(true);
  }

  void set_rule(Loop& loop, Passing& bucket) {
    bucket.there.begin({true});
    bucket.ruled = true;
    const Reply reply = ask(loop, "PUT", "/" + bucket.name + "?lifecycle", {},
                            "<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter/><Expiration>"
                            "<Date>2001-01-01T00:00:00Z</Date></Expiration></Rule></LifecycleConfiguration>");
    if (!reply.ok() && reply.code != "NoSuchBucket") note_failure("a rule", reply);
    const bool known = reply.ok() || settled();
    if (reply.ok()) return bucket.there.done(true);
    if (known) return bucket.there.refused();
    bucket.there.unknown(false);
  }

  // Its keys that no other client changes, oldest versions first, so that none becomes current.
  void empty(Loop& loop, Passing& bucket) {
    for (size_t key = 0; key < bucket.keys.size(); ++key) {
      auto& is = bucket.keys[key];
      if (is.busy()) continue;
      is.begin({0});
      store::ListVersionsRequest request;
      request.prefix = fmt::format("p{}", key);
      const auto page = run_on(loop, server().store->list_versions(bucket.name, request));
      bool all = page.has_value() || page.error() == Errc::no_such_bucket;
      for (size_t left = page ? page->versions.size() : 0; all && left > 0; --left) {
        const std::string& id = page->versions[left - 1].info.version_id;
        const Reply reply = ask(loop, "DELETE", target(bucket, key) + "?versionId=" + (id.empty() ? "null" : id));
        all = reply.ok() || reply.code == "NoSuchBucket" || reply.code == "NoSuchVersion";
        if (!all) note_failure("a version's removal", reply);
      }
      if (all && bucket.surely_there()) {
        is.done(0);
      } else {
        is.unknown(settled());
      }
    }
  }

  void end(Loop& loop, Passing& bucket) {
    bucket.there.begin({false});
    std::vector<size_t> held;  // surely, at the begin
    std::vector<uint64_t> changes;
    for (size_t key = 0; key < bucket.keys.size(); ++key) {
      auto& is = bucket.keys[key];
      if (!is.busy() && !is.may_be().contains(0)) held.push_back(key);
      is.add({0});
      changes.push_back(is.changes());
    }
    const std::set<uint32_t> before = bucket.alive;
    const bool ruled = bucket.ruled;
    const Reply reply = ask(loop, "DELETE", "/" + bucket.name);
    if (reply.code == "BucketNotEmpty") {
      for (const size_t key : held) {
        if (bucket.keys[key].changes() == changes[key]) bucket.keys[key].remove(0);
      }
      return bucket.there.refused();
    }
    if (!reply.ok() && reply.code != "NoSuchBucket") {
      note_failure("a bucket's removal", reply);
      return bucket.there.unknown(settled());
    }
    for (const size_t key : held) {
      if (bucket.keys[key].changes() == changes[key]) bucket.keys[key].remove(0);
    }
    for (size_t key = 0; key < bucket.keys.size(); ++key) {
      const auto& is = bucket.keys[key];
      // What was acknowledged meanwhile came before, too: none has made the bucket again.
      if (!reply.ok() || ruled || is.busy() || is.may_be().contains(0)) continue;
      fail_with(fmt::format("{} was removed although it held value {}", target(bucket, key), *is.may_be().rbegin()));
    }
    bucket.there.done(false);
    bucket.ruled = false;
    bucket.ended = bucket.number++;
    bucket.dead.insert(before.begin(), before.end());
    for (const uint32_t value : before) bucket.alive.erase(value);
    for (auto& is : bucket.keys) is.reset(0);
  }

  void put(Loop& loop, Passing& bucket, size_t key) {
    auto& is = bucket.keys[key];
    constexpr size_t sizes[] = {8, 300, 5000, 20'000};
    const uint32_t value = values().add(sizes[draw(4)]);
    if (is.busy()) return;
    const Look look{bucket};
    const bool ruled = bucket.ruled;
    is.begin({value});
    const Reply reply = ask(loop, "PUT", target(bucket, key), {}, values().bytes(value));
    if (reply.ok()) {
      bucket.alive.insert(value);
      if (bucket.surely_gone() && !ruled && !bucket.ruled) {
        fail_with(fmt::format("{}: value {} was acknowledged, and its bucket has gone", target(bucket, key), value));
      }
      is.done(value);
      if (ruled || bucket.ruled) is.add({0});
      return;
    }
    if (!found(look, reply)) {
      is.refused();
      return is.add({0});
    }
    note_failure("a PUT", reply);
    is.unknown(settled());
  }

  void remove(Loop& loop, Passing& bucket, size_t key) {
    auto& is = bucket.keys[key];
    if (is.busy()) return;
    const Look look{bucket};
    is.begin({0});
    const Reply reply = ask(loop, "DELETE", target(bucket, key));
    if (reply.ok() || !found(look, reply)) return is.done(0);
    note_failure("a removal", reply);
    is.unknown(settled());
  }

  using Reading = Register<uint32_t>::Reading;
  void judge(const Passing& bucket, size_t key, Register<uint32_t>& is, Reading reading, bool ruled, uint32_t seen,
             const std::string& what) {
    const bool may_go = ruled || bucket.ruled;
    std::string may_be;
    for (const uint32_t one : is.may_be()) may_be += fmt::format(" {}", one);
    if (is.end_read(reading, [&](uint32_t one) { return one == seen || (seen == 0 && may_go); })) return;
    fail_with(fmt::format("{} has value {} by {}, of{}; {}", target(bucket, key), seen, what, may_be,
                          bucket.dead.contains(seen) ? "its bucket was removed" : "not its last"));
  }

  void read(Loop& loop, Passing& bucket, size_t key) {
    auto& is = bucket.keys[key];
    const Look look{bucket};
    const bool ruled = bucket.ruled;
    const auto reading = is.begin_read();
    const Reply reply = ask(loop, "GET", target(bucket, key));
    if (!reply.ok() && reply.status != 404) {
      note_failure("a GET", reply);
      return is.end_read(reading);
    }
    std::vector<uint32_t> seen;
    if (reply.ok() && (!values().split(reply.body, seen) || seen.size() != 1)) {
      is.end_read(reading);
      return fail_with(target(bucket, key) + ": wrong bytes");
    }
    found(look, reply);
    judge(bucket, key, is, reading, ruled, seen.empty() ? 0 : seen[0], "GET");
  }

  // A read of each key.
  void list(Loop& loop, Passing& bucket) {
    const Look look{bucket};
    const bool ruled = bucket.ruled;
    std::vector<Reading> readings;
    for (auto& is : bucket.keys) readings.push_back(is.begin_read());
    const Reply reply = ask(loop, "GET", "/" + bucket.name + "?list-type=2");
    const bool there = found(look, reply);
    if (!reply.ok() && there) note_failure("a listing", reply);
    for (size_t key = 0; key < readings.size(); ++key) {
      if (!reply.ok() && there) {
        bucket.keys[key].end_read(readings[key]);
        continue;
      }
      uint32_t seen = 0;
      if (const size_t at = reply.body.find(fmt::format("<Key>p{}</Key>", key)); at != std::string::npos) {
        const size_t tag = reply.body.find("&quot;", at) + 6;
        seen = values().named(reply.body.substr(tag, reply.body.find("&quot;", tag) - tag));
      }
      judge(bucket, key, bucket.keys[key], readings[key], ruled, seen, "a listing");
    }
  }

  void look_at_versions(Loop& loop, Passing& bucket) {
    const auto page = run_on(loop, server().store->list_versions(bucket.name, {}));
    if (!page) return;
    for (const store::VersionEntry& entry : page->versions) {
      const uint32_t value = entry.info.delete_marker ? 0 : values().named(entry.info.etag);
      if (!bucket.dead.contains(value)) continue;
      fail_with(fmt::format("{}/{} has value {}, of a bucket that was removed", bucket.name, entry.key, value));
    }
  }

  // An upload goes with its bucket.
  void act_on_upload(Loop& loop, Passing& bucket, size_t key) {
    if (uploads_.size() < 8 && draw(2) == 0) {
      const Reply reply = ask(loop, "POST", target(bucket, key) + "?uploads");
      if (reply.ok()) uploads_.push_back({&bucket, key, bucket.number, reply.element("UploadId")});
      return;
    }
    if (uploads_.empty()) return;
    const auto at = uploads_.begin() + static_cast<ptrdiff_t>(draw(uploads_.size()));
    const Upload upload = *at;
    const bool gone = upload.number <= upload.bucket->ended;
    const Reply reply =
        ask(loop, "PUT", target(*upload.bucket, upload.key) + "?partNumber=1&uploadId=" + upload.id, {}, "a part");
    if (reply.ok() && gone) fail_with(fmt::format("an upload of a {} that was removed lives on", upload.bucket->name));
    if (gone) std::erase_if(uploads_, [&](const Upload& one) { return one.id == upload.id; });
  }

  bool churns_ = false;  // a round in which buckets are made and removed half of the time
  std::deque<Passing> buckets_{};
  std::deque<Upload> uploads_;
};

}  // namespace

std::unique_ptr<Scene> make_buckets(World& world) { return std::make_unique<Buckets>(world); }

}  // namespace verbena::simulator
