// The admin API's calls about events: the backlog of each target, and dropping events.
#include <nlohmann/json.hpp>

#include "admin/operator_call.h"
#include "admin/server_numbers.h"
#include "base/date.h"
#include "base/log.h"

namespace verbena::admin {
namespace {

using Json = nlohmann::json;
using events::Delivery;

constexpr std::chrono::seconds skipped_within{5};  // plus a target's timeout for a batch, which may be in progress
constexpr std::chrono::seconds dropped_within{2};  // per call

Json stuck_json(const std::vector<events::StuckEvent>& stuck) {
  Json list = Json::array();
  for (const auto& one : stuck) {
    list.push_back({{"event", events::name_of_stuck(one)},
                    {"bucket", json_text(one.bucket_name)},
                    {"key", json_text(one.key)},
                    {"happened", json_text(one.happened)},
                    {"refused", one.refused},
                    {"why", json_text(one.why)},
                    {"tries", one.tries},
                    {"since", format_iso8601(one.since_us)}});
  }
  return list;
}

}  // namespace

Task<Result<Json>> Operator::events(Call&) {
  Json targets = Json::array();
  for (const auto& state : parts_.events == nullptr ? std::vector<s3::EventQueues::State>() : parts_.events->states()) {
    const Delivery* delivery = parts_.deliveries == nullptr ? nullptr : parts_.deliveries->find(state.target.name);
    targets.push_back({{"name", state.target.name},
                       {"type", state.target.type},
                       {"configured", !state.target.type.empty()},
                       {"up", state.up},
                       {"queued", state.events},
                       {"queued_bytes", state.bytes},
                       {"queued_buckets", state.buckets},
                       {"delivered", state.delivered},
                       {"let_go", state.let_go},
                       {"stuck", delivery == nullptr ? Json::array() : stuck_json(delivery->stuck())}});
  }
  co_return Json{{"targets", std::move(targets)}};
}

Task<Result<Json>> Operator::skip_event(Call& call) {
  VB_CO_ASSIGN(const std::string target, call.text("target"));
  VB_CO_ASSIGN(const std::string event, call.text("event"));
  const auto name = events::parse_stuck_name(event);
  if (!name) co_return call.refuse(Errc::validation_error, "An event is named as the list of stuck ones has it.");
  Delivery* delivery = parts_.deliveries == nullptr ? nullptr : parts_.deliveries->find(target);
  if (delivery == nullptr) co_return call.refuse(Errc::no_such_entity, "There is no such target in the configuration.");
  const auto skip = std::make_shared<Delivery::Skip>();
  skip->bucket = name->first;
  skip->event = name->second;
  skip->who = call.who;
  const Deadline until = deadline_in(parts_.config.events.timeout + skipped_within);
  for (bool asked = false;;) {
    if (!asked) asked = delivery->ask(skip);
    if (skip->state == Delivery::Skip::State::done) break;
    const bool again = co_await wait_a_moment(until);
    if (again) continue;
    if (!asked || delivery->take_back(skip)) {
      co_return call.refuse(Errc::slow_down, "The target is being tried right now: try again.");
    }
    if (skip->state == Delivery::Skip::State::done) break;
    co_return call.refuse(Errc::slow_down,
                          "The store does not answer in time: check whether the event is still listed.");
  }
  if (skip->record) co_return Json{{"record", json_text(*skip->record)}};
  if (skip->record.error() == Errc::unsupported) {
    co_return call.refuse(Errc::validation_error, "Another server of the cluster delivers events: ask that one.");
  }
  if (!(skip->record.error() == Errc::not_found)) co_return std::unexpected(skip->record.error());
  co_return call.refuse(Errc::no_such_entity, "No such event is stuck at this target (any more).");
}

Task<Result<Json>> Operator::drop_events(Call& call) {
  VB_CO_ASSIGN(const std::string target, call.text("target"));
  if (parts_.deliveries == nullptr) co_return call.refuse(Errc::no_such_entity, "This engine keeps no events.");
  if (parts_.deliveries->find(target) != nullptr) {
    co_return call.refuse(Errc::validation_error,
                          "This target is in the configuration: what waits for it is delivered. Take it out first.");
  }
  const auto dropped =
      co_await parts_.deliveries->gone().drop(target, std::string(call.who), deadline_in(dropped_within));
  if (dropped && dropped->events == 0 && dropped->left != 0) {
    co_return call.refuse(Errc::slow_down, "No event could be dropped in time: try again.");
  }
  if (dropped) {
    co_return Json{{"events", dropped->events}, {"bytes", dropped->bytes}, {"left", dropped->left}};
  }
  if (dropped.error() == Errc::would_block) {
    co_return call.refuse(Errc::slow_down, "Another call drops them already: try again.");
  }
  if (dropped.error() == Errc::unsupported) {
    co_return call.refuse(Errc::validation_error, "Another server of the cluster delivers events: ask that one.");
  }
  if (!(dropped.error() == Errc::not_found)) co_return std::unexpected(dropped.error());
  co_return call.refuse(Errc::no_such_entity, "Nothing waits for a target of this name.");
}

}  // namespace verbena::admin
