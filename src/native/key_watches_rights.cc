// Authorization of watches: evaluated again before a report whenever the result may have changed.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include "base/turns.h"
#include "native/endpoint.h"
#include "native/key_watch.h"
#include "s3/access/access.h"

namespace verbena::native {

// Results of one second, since policies may have conditions on the time, each until a change of its bucket's documents.
struct KeyWatches::Round {
  // All inputs of the conditions. The keys are held, so that no other key can have the same address.
  using Question = std::tuple<auth::AccessKeyPtr, auth::PrincipalPtr, std::string, std::string, bool, call::Door,
                              std::string, std::string>;
  struct Answer {
    uint64_t access_number;  // of the bucket, from before the evaluation
    Result<s3::WatchRight> right;
  };
  int64_t second = 0;
  std::map<Question, Answer> answers;
};

bool KeyWatches::is_fresh(const Watch& watch, bool just_asked) const {
  const DoorState& door = *door_;
  return (just_asked || watch.asked_s == door.service.clock.now_s()) &&
         watch.credentials_generation == watch.stream->generation && is_current(watch.right);
}

bool KeyWatches::is_current(const s3::WatchRight& right) const {
  return right.access_number == door_->service.access->now(right.bucket);
}

// Not in this call, which may come from an answer: there may be as many evaluations as watches.
void KeyWatches::want_right(const WatchPtr& watch) {
  if (std::exchange(watch->asking, true)) return;
  asks_.push_back(watch);
  if (std::exchange(asker_runs_, true)) return;
  boost::asio::post(endpoint_.core().io(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    const auto alive = self == nullptr ? nullptr : self->alive_.lock();
    if (alive != nullptr) boost::asio::co_spawn(alive->core().io(), ask_all(self), boost::asio::detached);
  });
}

Task<void> KeyWatches::ask_all(std::shared_ptr<KeyWatches> self) {
  Turns turns;
  Round round;
  while (!self->asks_.empty()) {
    if (turns.due()) co_await turns.pass();
    const auto alive = self->alive_.lock();
    if (alive == nullptr) break;
    WatchPtr watch = std::move(self->asks_.front());
    self->asks_.pop_front();
    if (!watch->gone) co_await self->ask(std::move(watch), round);
  }
  self->asker_runs_ = false;
}

Task<void> KeyWatches::ask(WatchPtr watch, Round& round) {
  s3::Service& service = door_->service;
  SessionStream& stream = *watch->stream;
  const bool known = !stream.closed && endpoint_.still_known(stream);
  const uint64_t access_number = service.access->now(watch->right.bucket);
  const int64_t now_s = service.clock.now_s();
  if (round.second != now_s) round = {.second = now_s, .answers = {}};
  const uint64_t generation = stream.generation;
  const s3::Call caller{stream.caller};
  Round::Question question(caller.identity.key, caller.identity.principal, caller.peer_address,
                           stream.session->user_agent, caller.secure, caller.door, watch->bucket_name, watch->prefix);
  auto answered = round.answers.find(question);
  if (known && (answered == round.answers.end() || answered->second.access_number != access_number)) {
    auto right = co_await s3::authorize_watch(service, caller, watch->bucket_name, watch->prefix);
    Round::Answer answer{.access_number = access_number, .right = std::move(right)};
    answered = round.answers.insert_or_assign(std::move(question), std::move(answer)).first;
  }
  watch->asking = false;
  if (watch->gone) co_return;
  const Result<s3::WatchRight> denied = fail(Errc::access_denied, "native: the session has ended");
  const Result<s3::WatchRight>& right = known ? answered->second.right : denied;
  if (!right) {
    finish(*watch, known ? wire_code(right.error().code) : Errc::access_denied);
  } else if (const auto found = buckets_.find(watch->bucket);
             !found->second.feed->is_of(right->created_us, right->owner)) {
    finish(*watch, Errc::no_such_bucket);  // a new bucket has the same name
  } else {
    // Waiting changes were selected under the previous rights.
    const bool other = watch->right.versions != right->versions;
    watch->right = *right;
    watch->credentials_generation = generation;
    watch->asked_s = now_s;
    if (other) let_go(*watch);
  }
  answer(watch, /*just_asked=*/true);
}

}  // namespace verbena::native
