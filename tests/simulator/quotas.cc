// A bucket with a quota: what it holds stays within it, and what fits is taken (docs/quotas.md). Where servers share
// the store, only once each may know what the others stored.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>
#include <list>

#include "auth/limits.h"
#include "s3/access/quota.h"
#include "s3/access_generation.h"
#include "simulator/register.h"
#include "simulator/scene.h"

namespace verbena::simulator {
namespace {

constexpr const char* bucket = "limited";

struct Amount {
  uint64_t bytes = 0, objects = 0;
  auto operator<=>(const Amount&) const = default;
  Amount operator+(const Amount& more) const { return {bytes + more.bytes, objects + more.objects}; }
};
Amount least(const Amount& a, const Amount& b) { return {std::min(a.bytes, b.bytes), std::min(a.objects, b.objects)}; }
Amount most(const Amount& a, const Amount& b) { return {std::max(a.bytes, b.bytes), std::max(a.objects, b.objects)}; }
// `wanted`: what is not asked for is not refused.
bool fits(const Amount& held, const Amount& wanted, const Amount& limit) {
  return (wanted.bytes == 0 || held.bytes + wanted.bytes <= limit.bytes) &&
         (wanted.objects == 0 || held.objects + wanted.objects <= limit.objects);
}

class Quotas final : public Scene {
 public:
  explicit Quotas(World& world) : Scene(world, "quotas") {}

  void begin(Loop& loop) override {
    make_bucket(loop, bucket);
    set_limit(loop);
  }
  void begin_round(Loop& loop) override {
    if (draw(2) == 0) set_limit(loop);
    changed_in_round_ = false;
  }
  void act(Loop& loop) override {
    if (!changed_in_round_ && draw(80) == 0) {
      changed_in_round_ = true;
      return set_limit(loop);
    }
    const size_t at = draw(places_.size());
    Place& place = places_[at];
    if (place.held.busy()) return;
    if (at >= objects_count) return act_on_upload(loop, place, at);
    if (draw(3) == 0) return remove(loop, place, object(at));
    put(loop, place, object(at), draw_size());
  }
  void crash() override {
    for (Place& place : places_) {
      place.held.release();
      place.asked = {};
    }
    calls_.clear();
  }
  void settle(Loop& loop) override;
  void look(Loop& /*loop*/) override {}

 private:
  static constexpr size_t objects_count = 5, uploads_count = 2;
  struct Place {  // an object, or an upload
    Register<Amount> held{};
    Amount asked{};  // by a call that is under way
    std::string upload{};
  };
  // What was so at some time of it.
  struct Under {
    Amount low, high, limit_low, limit_high;
  };
  using Under_way = std::list<Under>::iterator;

  static std::string object(size_t at) { return fmt::format("/{}/q{}", bucket, at); }
  uint64_t draw_size() {
    constexpr uint64_t sizes[] = {0, 8, 300, 5000, 20'000, 40'000};
    return sizes[draw(6)];
  }

  Amount low() const {
    Amount sum;
    for (const Place& place : places_) {
      Amount of = *place.held.may_be().begin();
      for (const Amount& one : place.held.may_be()) of = least(of, one);
      sum = sum + of;
    }
    return sum;
  }
  Amount high() const {
    Amount sum;
    for (const Place& place : places_) {
      Amount of;
      for (const Amount& one : place.held.may_be()) of = most(of, one);
      sum = sum + of + place.asked;
    }
    return sum;
  }
  void look_again() {
    const Amount low_now = low(), high_now = high();
    for (Under& call : calls_) {
      call.low = least(call.low, low_now);
      call.high = most(call.high, high_now);
      call.limit_low = least(call.limit_low, least(limit_, before_));
      call.limit_high = most(call.limit_high, most(limit_, before_));
    }
  }

  // No other client sets it.
  void set_limit(Loop& loop) {
    const Amount next{20'000 + draw(80'000), 3 + draw(6)};
    before_ = limit_;
    limit_ = next;
    look_again();
    auth::Quota quota;
    quota.bytes = next.bytes;
    quota.objects = next.objects;
    const auto set = run_on(loop, server().store->set_document(bucket, s3::quota_document, auth::quota_text(quota)));
    for (World::Server* one : servers()) one->service->access->all_changed();
    limit_sure_ = set.has_value();
    before_ = limit_;
    if (!set)
      note_failure("a quota", {.status = 500, .code = describe(set.error()), .body = {}, .version_id = {}, .etag = {}});
  }

  // A call that needs so much room, which stays with the place or not.
  template <class Send>
  Reply reserve(Place& place, const Amount& wanted, const Send& send) {
    place.asked = wanted;
    look_again();
    const Under_way call = calls_.insert(calls_.end(), {low(), high(), least(limit_, before_), most(limit_, before_)});
    const Reply reply = send();
    const bool judges = limit_sure_ && !shared();
    if (judges && reply.ok() && reply.code.empty() && !fits(call->low, wanted, call->limit_high)) {
      fail_with(fmt::format("{} bytes and {} objects beside at least {} and {} were taken: the quota is {} and {}",
                            wanted.bytes, wanted.objects, call->low.bytes, call->low.objects, call->limit_high.bytes,
                            call->limit_high.objects));
    }
    const Amount held{call->high.bytes - wanted.bytes, call->high.objects - wanted.objects};
    if (judges && reply.code == "QuotaExceeded" && fits(held, wanted, call->limit_low)) {
      fail_with(fmt::format("{} bytes and {} objects beside at most {} and {} were refused: the quota is {} and {}",
                            wanted.bytes, wanted.objects, held.bytes, held.objects, call->limit_low.bytes,
                            call->limit_low.objects));
    }
    calls_.erase(call);
    return reply;
  }

  // After the answer.
  void close(Place& place, const Amount& wanted, const Amount& next, const Reply& reply) {
    if (reply.ok() && reply.code.empty()) {
      place.held.done(next);
    } else if (reply.code == "QuotaExceeded") {
      place.held.refused();
    } else {
      note_failure("a change", reply);
      place.held.unknown(settled());
    }
    if (!place.held.busy()) place.asked = {};
    look_again();
    if (reply.ok()) check_sum(wanted);
  }
  // All that came since the quota was set are within it, if one is that needed room.
  void check_sum(const Amount& wanted) {
    const Amount now = low();
    if (!limit_sure_ || changed_in_round_ || shared()) return;
    if ((wanted.bytes == 0 || now.bytes <= limit_.bytes) && (wanted.objects == 0 || now.objects <= limit_.objects)) {
      return;
    }
    fail_with(fmt::format("holds at least {} bytes and {} objects: the quota is {} and {}", now.bytes, now.objects,
                          limit_.bytes, limit_.objects));
  }

  bool put(Loop& loop, Place& place, const std::string& target, uint64_t size) {
    const Amount next{size, 1};
    place.held.begin({next});
    const Reply reply = reserve(place, next, [&] { return ask(loop, "PUT", target, {}, std::string(size, 'q')); });
    close(place, next, next, reply);
    return reply.ok();
  }
  void remove(Loop& loop, Place& place, const std::string& target) {
    const bool may_be_gone = place.held.may_be().contains(Amount{});
    place.held.begin({Amount{}});
    look_again();
    const Reply reply = ask(loop, "DELETE", target);
    if (reply.ok() || (reply.code == "NoSuchUpload" && may_be_gone)) {
      place.held.done({});
    } else {
      note_failure("a removal", reply);
      place.held.unknown(settled());
    }
    look_again();
  }

  void act_on_upload(Loop& loop, Place& place, size_t at) {
    const std::string target = fmt::format("/{}/u{}", bucket, at);
    if (place.upload.empty()) return begin_upload(loop, place, target);
    const std::string of = target + "?uploadId=" + place.upload;
    if (draw(3) != 0) return put_part(loop, place, of);
    remove(loop, place, of);
    if (!place.held.busy()) place.upload.clear();
  }
  void begin_upload(Loop& loop, Place& place, const std::string& target) {
    if (place.held.may_be() != std::set<Amount>{Amount{}}) return;
    const Amount next{0, 1};
    place.held.begin({next});
    const Reply reply = reserve(place, next, [&] { return ask(loop, "POST", target + "?uploads"); });
    close(place, next, next, reply);
    if (reply.ok()) place.upload = reply.element("UploadId");
  }
  // One part, in place of that before.
  void put_part(Loop& loop, Place& place, const std::string& of) {
    const uint64_t size = draw_size();
    const bool may_be_gone = place.held.may_be().contains(Amount{});
    place.held.begin({{size, 1}});
    const Reply reply =
        reserve(place, {size, 0}, [&] { return ask(loop, "PUT", of + "&partNumber=1", {}, std::string(size, 'p')); });
    if (reply.code == "NoSuchUpload" && may_be_gone) {
      place.held.done({});
      place.upload.clear();
      place.asked = {};
      return look_again();
    }
    close(place, {size, 0}, {size, 1}, reply);
  }

  void probe(Loop& loop);

  std::array<Place, objects_count + uploads_count> places_{};
  std::list<Under> calls_;
  Amount limit_{}, before_{};  // two while it is being set
  bool limit_sure_ = false, changed_in_round_ = false;
};

// Everything is known by now: to the byte.
void Quotas::settle(Loop& loop) {
  constexpr int64_t known_ns = 20'000'000'000;
  if (shared()) sleep_for(known_ns);
  if (befell() || low() != high()) return;
  const auto usage = run_on(loop, server().store->bucket_usage(bucket));
  if (usage && !befell() && (usage->all_bytes() != low().bytes || usage->all_objects() != low().objects)) {
    return fail_with(fmt::format("holds {} bytes and {} objects, and counts {} and {}", low().bytes, low().objects,
                                 usage->all_bytes(), usage->all_objects()));
  }
  if (limit_sure_) probe(loop);
}

// One byte too many, and just as many as fit.
void Quotas::probe(Loop& loop) {
  Place& place = places_[0];
  const Amount now = low();
  const uint64_t room = limit_.bytes - std::min(limit_.bytes, now.bytes);
  const bool has_room = now.objects < limit_.objects;
  if (put(loop, place, object(0), room + 1)) return fail_with("a byte more than the quota was taken");
  if (befell() || !has_room || room == 0) return;
  if (!put(loop, place, object(0), room) && !befell()) fail_with("what just fits was refused");
}

}  // namespace

std::unique_ptr<Scene> make_quotas(World& world) { return std::make_unique<Quotas>(world); }

}  // namespace verbena::simulator
