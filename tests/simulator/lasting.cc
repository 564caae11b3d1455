// Objects with an end (TTL) in a plain bucket and in one with versions: gone for readers from the second of their end
// on, there before it; renewed only while they are there; removed soon after, and only then.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "s3/workers/ends_worker.h"
#include "simulator/lasting.h"
#include "simulator/register.h"
#include "simulator/scene.h"

namespace verbena::simulator {
namespace {

// What it tells has been so a while ago: clients have renewed or replaced some of it since.
class LateIndex final : public store::EndIndex {
 public:
  LateIndex(store::EndIndex& below, int64_t late_ns) : below_(below), late_ns_(late_ns) {}
  bool keeps_ends() const override { return below_.keeps_ends(); }
  Task<Result<std::vector<store::EndedKey>>> ended(size_t max, const store::EndedKey* after) override {
    auto found = co_await below_.ended(max, after);
    if (found && !found->empty()) sleep_for(late_ns_);
    co_return found;
  }
  Task<Result<void>> forget_end(store::EndedKey ended) override { return below_.forget_end(std::move(ended)); }
  int64_t ended_us(std::string_view bucket) const override { return below_.ended_us(bucket); }

 private:
  store::EndIndex& below_;
  const int64_t late_ns_;
};

class LastingObjects final : public Scene {
 public:
  explicit LastingObjects(World& world) : Scene(world, "lasting") {}

  void begin(Loop& loop) override {
    for (const Bucket& bucket : buckets_) make_bucket(loop, bucket.name);
    const Reply reply = ask(loop, "PUT", "/lasting-versions?versioning", {},
                            "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
    if (!reply.ok()) fail_with("no versioning: " + reply.body);
  }
  void opened(World::Server& server) override;
  // The store's threads may still be waking the worker's loop.
  void closes(World::Server& server) override {
    if (const auto worker = workers_.find(server.number); worker != workers_.end()) worker->second->stop();
  }
  void gone(size_t server) override { workers_.erase(server); }
  void clock_went_back(int64_t by_ns) override { calls_.clock_went_back(by_ns); }

  void act(Loop& loop) override;
  void crash() override {
    for (Bucket& bucket : buckets_) {
      for (auto& key : bucket.keys) key.release();
    }
  }
  void look(Loop& loop) override {
    for (Bucket& bucket : buckets_) {
      for (size_t key = 0; key < names.size(); ++key) get(loop, bucket, key);
      list(loop, bucket);
    }
    look_at_versions(loop);
  }
  void settle(Loop& loop) override;

 private:
  static constexpr std::array<const char*, 4> names{"e0", "e1", "d/e2", "d/e3"};
  static constexpr size_t in_folder = 2;  // from here on
  using Key = Register<Lasting>;
  struct Bucket {
    std::string name;
    std::array<Key, names.size()> keys{};
    // An end of that second, or an earlier one, was told: it stays so until the server ends. Where servers share the
    // store 0: what one of them found absent another one has removed, by a clock that is ahead.
    int64_t told_s = 0;
  };
  using Span = LastingCall;

  LastingCalls::Call begin_call(const Bucket& bucket) { return calls_.begin(bucket.told_s, clocks_apart_ns()); }
  static std::string target(const Bucket& bucket, size_t key) { return fmt::format("/{}/{}", bucket.name, names[key]); }
  bool was_absent(const Lasting& one) { return one.may_be_absent(latest_ns()); }
  int64_t draw_ttl() {
    constexpr int64_t ttls_s[] = {1, 1, 2, 3, 5, 8, 3600};
    return ttls_s[draw(7)];
  }

  // A change of a key. `make`: from what may be there to what is there then, nothing if it is refused by that. Without
  // a call it is asked for what may become so.
  template <class Make, class Send>
  void change(Bucket& bucket, size_t at, std::string_view what, const Make& make, const Send& send);
  template <class Fits>
  void judge(Bucket& bucket, size_t at, Key::Reading reading, const Fits& fits, const std::string& seen);
  void told_absent(Bucket& bucket, const std::set<Lasting>& may_be);

  void put(Loop& loop, Bucket& bucket, size_t at);
  void touch(Loop& loop, Bucket& bucket, size_t at);
  void upload(Loop& loop, Bucket& bucket, size_t at);
  void remove(Loop& loop, Bucket& bucket, size_t at);
  void get(Loop& loop, Bucket& bucket, size_t at);
  void list(Loop& loop, Bucket& bucket);
  void sweep(Loop& loop);
  void refused(Loop& loop, Bucket& bucket, size_t at);
  void look_at_versions(Loop& loop);
  bool is_swept(Loop& loop, int64_t by_s);
  int64_t swept_within_s() const;
  void check_usage(Loop& loop, const Bucket& bucket, int64_t by_s);
  std::optional<std::string> usage_difference(Loop& loop, const Bucket& bucket, int64_t by_s);
  store::EndIndex& index() { return dynamic_cast<store::EndIndex&>(*server().store); }

  std::array<Bucket, 2> buckets_{Bucket{"lasting"}, Bucket{"lasting-versions"}};
  LastingCalls calls_;
  std::map<size_t, std::unique_ptr<s3::EndsWorker>> workers_;    // by server
  std::map<std::string, std::pair<size_t, uint32_t>> versions_;  // that were acknowledged: key and content
};

void LastingObjects::opened(World::Server& server) {
  for (Bucket& bucket : buckets_) bucket.told_s = 0;
  auto* const index = dynamic_cast<store::EndIndex*>(server.store.get());
  if (index == nullptr || !index->keeps_ends()) return;
  auto& worker = workers_[server.number];
  s3::EndsOptions options{.page_size = 1 + draw(6), .at_once = 1 + draw(4)};
  if (shared()) options.on_duty = [term = term(server)] { return term() != 0; };
  worker = std::make_unique<s3::EndsWorker>(*server.service, *index, std::move(options));
  worker->start();
}

void LastingObjects::act(Loop& loop) {
  Bucket& bucket = buckets_[draw(3) == 0 ? 1 : 0];
  const size_t at = draw(names.size());
  if (workers_.empty()) return refused(loop, bucket, at);
  const uint64_t choice = draw(30);
  if (choice < 11) return get(loop, bucket, at);
  if (choice < 14) return list(loop, bucket);
  if (choice < 16) return sweep(loop);
  if (bucket.keys[at].busy()) return;
  if (choice < 22) return put(loop, bucket, at);
  if (choice < 26) return touch(loop, bucket, at);
  if (choice < 28) return upload(loop, bucket, at);
  remove(loop, bucket, at);
}

// Before any byte is taken.
void LastingObjects::refused(Loop& loop, Bucket& bucket, size_t at) {
  const bool uploads = draw(2) == 0;
  const Reply reply = ask(loop, uploads ? "POST" : "PUT", target(bucket, at) + (uploads ? "?uploads" : ""),
                          {{"x-verbena-ttl", "60"}}, uploads ? "" : "bytes");
  if (reply.ok()) fail_with("a TTL is taken where none is kept");
  if (reply.code != "NotImplemented") note_failure("a TTL where none is kept", reply);
  const Reply none = ask(loop, "GET", target(bucket, at));
  if (none.ok()) fail_with("an object of a refused TTL");
}

template <class Make, class Send>
void LastingObjects::change(Bucket& bucket, size_t at, std::string_view what, const Make& make, const Send& send) {
  Key& key = bucket.keys[at];
  if (key.busy()) return;
  const auto span_at = begin_call(bucket);
  const std::set<Lasting> before = key.may_be();
  std::vector<Lasting> next;
  for (const Lasting& one : before) {
    if (const auto made = make(one, nullptr)) next.push_back(span_at->makes(made->content, made->ttl_s, latest_ns()));
  }
  key.begin(next);
  const Reply reply = send();
  const Span span = calls_.end(span_at);
  if (reply.ok()) {
    std::vector<Lasting> now;
    for (const Lasting& one : before) {
      if (const auto made = make(one, &span)) now.push_back(span.made(made->content, made->ttl_s, latest_ns()));
    }
    if (now.empty()) {
      fail_with(
          fmt::format("{}: {} of {} by what could not be there", target(bucket, at), what, before.begin()->content));
      return key.refused();
    }
    return key.done_as(std::move(now));
  }
  const bool absent = reply.code == "NoSuchKey", there = reply.code == "PreconditionFailed";
  if (absent || there || reply.code == "InvalidRequest") {
    key.refused();
    const bool fits = std::ranges::any_of(before, [&](const Lasting& one) {
      if (absent) return was_absent(one);
      return span.may_find(one) && (there || one.ttl_s == 0);
    });
    if (!fits) fail_with(fmt::format("{}: {}: {} by what was there", target(bucket, at), what, reply.code));
    if (absent && fits) told_absent(bucket, before);
    return;
  }
  note_failure(what, reply);
  key.unknown(settled());
}

// All that it may be has an end: one has come.
void LastingObjects::told_absent(Bucket& bucket, const std::set<Lasting>& may_be) {
  if (shared()) return;
  int64_t first_s = INT64_MAX;
  for (const Lasting& one : may_be) first_s = std::min(first_s, one.ttl_s == 0 ? 0 : one.from_s);
  if (!may_be.empty()) bucket.told_s = std::max(bucket.told_s, first_s);
}

void LastingObjects::put(Loop& loop, Bucket& bucket, size_t at) {
  constexpr size_t sizes[] = {8, 300, 20'000, 150'000};
  const uint32_t value = values().add(sizes[draw(4)]);
  const int64_t ttl_s = draw(6) == 0 ? 0 : draw_ttl();
  const bool if_absent = draw(3) == 0;
  s3::Headers headers;
  if (ttl_s != 0) headers.emplace_back("x-verbena-ttl", std::to_string(ttl_s));
  if (if_absent) headers.emplace_back("if-none-match", "*");
  const auto make = [&](const Lasting& one, const Span* span) -> std::optional<Lasting> {
    if (if_absent && span != nullptr && !was_absent(one)) return std::nullopt;
    return Lasting{.content = value, .ttl_s = ttl_s};
  };
  change(bucket, at, "a put", make, [&] {
    Reply reply = ask(loop, "PUT", target(bucket, at), headers, values().bytes(value));
    if (reply.ok() && !reply.version_id.empty()) versions_[reply.version_id] = {at, value};
    return reply;
  });
}

// By verbena-touch, or by a copy onto itself.
void LastingObjects::touch(Loop& loop, Bucket& bucket, size_t at) {
  const bool copies = draw(4) == 0;
  const int64_t ttl_s = copies || draw(2) == 0 ? draw_ttl() : 0;
  s3::Headers headers;
  if (ttl_s != 0) headers.emplace_back("x-verbena-ttl", std::to_string(ttl_s));
  if (copies) headers.emplace_back("x-amz-copy-source", target(bucket, at).substr(1));
  const auto make = [&](const Lasting& one, const Span* span) -> std::optional<Lasting> {
    if (one.content == 0 || (ttl_s == 0 && one.ttl_s == 0)) return std::nullopt;
    if (span != nullptr && !span->may_find(one)) return std::nullopt;
    return Lasting{.content = one.content, .ttl_s = ttl_s != 0 ? ttl_s : one.ttl_s};
  };
  change(bucket, at, copies ? "a copy" : "a touch", make,
         [&] { return ask(loop, "PUT", target(bucket, at) + (copies ? "" : "?verbena-touch"), headers); });
}

// The end counts from its completion.
void LastingObjects::upload(Loop& loop, Bucket& bucket, size_t at) {
  const uint32_t value = values().add(300 + draw(40'000), /*of_one_part=*/true);
  const int64_t ttl_s = draw_ttl();
  const Reply begun = ask(loop, "POST", target(bucket, at) + "?uploads", {{"x-verbena-ttl", std::to_string(ttl_s)}});
  const std::string id = begun.element("UploadId");
  if (!begun.ok()) return note_failure("an upload", begun);
  const Reply part =
      ask(loop, "PUT", fmt::format("{}?partNumber=1&uploadId={}", target(bucket, at), id), {}, values().bytes(value));
  if (!part.ok() || bucket.keys[at].busy()) {
    if (!part.ok()) note_failure("a part", part);
    (void)ask(loop, "DELETE", target(bucket, at) + "?uploadId=" + id);
    return;
  }
  const auto make = [&](const Lasting&, const Span*) {
    return std::optional(Lasting{.content = value, .ttl_s = ttl_s});
  };
  change(bucket, at, "a completion", make, [&] {
    return ask(loop, "POST", target(bucket, at) + "?uploadId=" + id, {},
               fmt::format("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part>"
                           "</CompleteMultipartUpload>",
                           part.etag));
  });
}

void LastingObjects::remove(Loop& loop, Bucket& bucket, size_t at) {
  const auto make = [](const Lasting&, const Span*) { return std::optional(Lasting{}); };
  change(bucket, at, "a removal", make, [&] { return ask(loop, "DELETE", target(bucket, at)); });
}

template <class Fits>
void LastingObjects::judge(Bucket& bucket, size_t at, Key::Reading reading, const Fits& fits, const std::string& seen) {
  std::string text;
  for (const Lasting& one : reading->may_be) {
    text += fmt::format(" {}, {} s, until {} to {};", one.content, one.ttl_s, one.from_s, one.to_s);
  }
  if (bucket.keys[at].end_read(reading, fits)) return;
  fail_with(fmt::format("{}: {}, told {}, now {}: it was:{}", target(bucket, at), seen, bucket.told_s,
                        latest_ns() / Lasting::second_ns, text));
}

void LastingObjects::get(Loop& loop, Bucket& bucket, size_t at) {
  const auto span_at = begin_call(bucket);
  const auto reading = bucket.keys[at].begin_read();
  const Reply reply = ask(loop, "GET", target(bucket, at));
  const Span span = calls_.end(span_at);
  if (reply.code == "NoSuchKey") {
    const std::set<Lasting> may_be = reading->may_be;
    judge(bucket, at, reading, [&](const Lasting& one) { return was_absent(one); }, "absent");
    return told_absent(bucket, may_be);
  }
  if (!reply.ok()) {
    bucket.keys[at].end_read(reading);
    return note_failure("a get", reply);
  }
  std::vector<uint32_t> contents;
  const bool whole = values().split(reply.body, contents) && contents.size() == 1;
  const uint32_t content = whole ? contents[0] : 0;
  const int64_t end_s = reply.expires.empty() ? 0 : std::stoll(reply.expires);
  const auto fits = [&](const Lasting& one) {
    if (content == 0 || one.content != content || (one.ttl_s == 0) != (end_s == 0)) return false;
    return one.ttl_s == 0 || (one.from_s <= end_s && end_s <= one.to_s && span.ends_later(end_s));
  };
  judge(bucket, at, reading, fits,
        fmt::format("{} with the end {}, at {}, told {}", content, end_s, span.lowest_ns / Lasting::second_ns,
                    span.told_s));
}

void LastingObjects::list(Loop& loop, Bucket& bucket) {
  const bool folded = draw(2) == 0;
  const auto span_at = begin_call(bucket);
  std::array<Key::Reading, names.size()> readings;
  for (size_t at = 0; at < names.size(); ++at) readings[at] = bucket.keys[at].begin_read();
  const Reply reply = ask(loop, "GET", fmt::format("/{}?list-type=2{}", bucket.name, folded ? "&delimiter=%2F" : ""));
  const Span span = calls_.end(span_at);
  if (!reply.ok()) {
    for (size_t at = 0; at < names.size(); ++at) bucket.keys[at].end_read(readings[at]);
    return note_failure("a listing", reply);
  }
  const bool folder = reply.body.find("<Prefix>d/</Prefix>") != std::string::npos;
  bool any = false;  // in the folder
  for (size_t at = 0; at < names.size(); ++at) {
    if (folded && at >= in_folder) {
      const std::set<Lasting> may_be = readings[at]->may_be;
      bucket.keys[at].end_read(readings[at]);
      const bool there = std::ranges::any_of(may_be, [&](const auto& one) { return span.may_find(one); });
      const bool absent = std::ranges::any_of(may_be, [&](const auto& one) { return was_absent(one); });
      any |= there;
      if (!folder && !absent) fail_with(target(bucket, at) + ": its folder is not listed");
      continue;
    }
    const bool listed = reply.body.find(fmt::format("<Key>{}</Key>", names[at])) != std::string::npos;
    const auto fits = [&](const Lasting& one) { return listed ? span.may_find(one) : was_absent(one); };
    judge(bucket, at, readings[at], fits, listed ? "listed" : "not listed");
  }
  if (folded && folder && !any) fail_with(bucket.name + ": a folder of ended objects is listed");
}

// Beside the worker: as if an earlier pass had been slow, or its server had been frozen between two steps.
void LastingObjects::sweep(Loop& loop) {
  static const std::atomic<bool> stop{false};
  const int64_t late_ns = draw(2) == 0 ? 0 : static_cast<int64_t>(draw(3 * Lasting::second_ns));
  LateIndex late(index(), late_ns);
  s3::DamagedEnds damaged;
  s3::EndsPass pass(*server().service, late, {.page_size = 1 + draw(6), .at_once = 1 + draw(4)}, stop, damaged);
  (void)run_on(loop, pass.run());
}

// Every version that was acknowledged is there, whether it has ended or not.
void LastingObjects::look_at_versions(Loop& loop) {
  constexpr uint64_t looked_at = 6;
  for (uint64_t i = 0; i < looked_at && !versions_.empty(); ++i) {
    auto version = versions_.begin();
    std::advance(version, static_cast<ptrdiff_t>(draw(versions_.size())));
    const auto& [id, is] = *version;
    const Reply reply = ask(loop, "GET", target(buckets_[1], is.first) + "?versionId=" + id);
    if (!reply.ok()) {
      const bool may_fail = befell() || (shared() && reply.code == "ServiceUnavailable");
      if (!may_fail) fail_with(fmt::format("version {} of {}: {}", id, names[is.first], reply.code));
    } else if (reply.body != values().bytes(is.second)) {
      fail_with(fmt::format("version {} of {} has other bytes", id, names[is.first]));
    }
  }
}

// Whether none of what had ended by that second is left.
bool LastingObjects::is_swept(Loop& loop, int64_t by_s) {
  const auto due = run_on(loop, index().ended(1000, nullptr));
  return due && std::ranges::none_of(*due, [&](const auto& one) { return one.end_us <= by_s * 1'000'000; });
}

// How long what has ended by a second may still be there. Where servers share the store the one that sweeps may have
// begun a minute's pause when an earlier round's pass failed, it may have gone, and its clock may be the last.
int64_t LastingObjects::swept_within_s() const {
  constexpr int64_t alone_s = 30, pause_s = 60;
  if (!shared()) return alone_s;
  return alone_s + pause_s + (duty_ns() + 2 * clocks_apart_ns()) / Lasting::second_ns;
}

// Space comes back; usage is then what a listing counts.
void LastingObjects::settle(Loop& loop) {
  if (workers_.empty()) return;
  sleep_for(Lasting::second_ns * static_cast<int64_t>(1 + draw(6)));
  const int64_t by_s = Scheduler::get().wall_ns() / Lasting::second_ns;
  for (int64_t passed_s = 0; !is_swept(loop, by_s); ++passed_s) {
    if (befell()) return;
    if (passed_s == swept_within_s()) return fail_with("what has ended is still there, and was to be swept long ago");
    sleep_for(Lasting::second_ns);
  }
  for (const Bucket& bucket : buckets_) check_usage(loop, bucket, by_s);
  look_at_versions(loop);
}

// While it is looked at more may end, and be swept: then it is looked at again.
void LastingObjects::check_usage(Loop& loop, const Bucket& bucket, int64_t by_s) {
  const int64_t looks_max = shared() ? swept_within_s() : 1;
  for (int64_t looks = 0; looks < looks_max; ++looks) {
    if (looks != 0) sleep_for(Lasting::second_ns);
    const auto difference = usage_difference(loop, bucket, by_s);
    if (!difference || befell()) return;
    if (looks + 1 == looks_max) return fail_with(fmt::format("usage of {}: {}", bucket.name, *difference));
  }
}

// In words; nothing where there is none, or it cannot be told now.
std::optional<std::string> LastingObjects::usage_difference(Loop& loop, const Bucket& bucket, int64_t by_s) {
  const auto page = run_on(loop, server().store->list(bucket.name, {}));
  const auto usage = run_on(loop, server().store->bucket_usage(bucket.name));
  const auto again = run_on(loop, server().store->list(bucket.name, {}));
  if (!page || !usage || !again || page->entries.size() != again->entries.size()) return std::nullopt;
  uint64_t bytes = 0;
  for (const auto& entry : page->entries) bytes += entry.info.size;
  // More may have ended since, and be counted still.
  const bool exact = is_swept(loop, Span::second_after(latest_ns()));
  if (!exact || Scheduler::get().wall_ns() / Lasting::second_ns < by_s) return std::nullopt;
  if (usage->objects == page->entries.size() && usage->bytes == bytes) return std::nullopt;
  return fmt::format("{} objects of {} bytes; listed {} of {}", usage->objects, usage->bytes, page->entries.size(),
                     bytes);
}

}  // namespace

std::unique_ptr<Scene> make_lasting(World& world) { return std::make_unique<LastingObjects>(world); }

}  // namespace verbena::simulator
