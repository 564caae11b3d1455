#include "admin/operator.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "admin/examination.h"
#include "admin/operator_call.h"
#include "admin/server_numbers.h"
#include "base/date.h"
#include "base/hex.h"
#include "base/log_ring.h"

namespace verbena::admin {
namespace {

using Json = nlohmann::json;
using observe::RequestWatch;

// The interval of checks for waiting callers; answers may be this old.
constexpr std::chrono::milliseconds look_every{50};
constexpr unsigned waiting_max = 64;  // waiting calls; further ones get the current state at once
constexpr size_t sessions_told_max = 1000;
constexpr size_t names_told_max = 50;  // accounts and buckets per answer: those with the most traffic
constexpr size_t log_lines_max = 500;  // per answer

struct Served {
  std::string_view name, right;
};
constexpr Served served[] = {
    {"info", "admin:ServerInfo"},
    {"top", "admin:Top"},
    {"top-end", "admin:Top"},
    {"trace", "admin:Trace"},
    {"trace-end", "admin:Trace"},
    {"sessions", "admin:ListSessions"},
    {"session-end", "admin:EndSession"},
    {"events", "admin:ListEvents"},
    {"events-skip", "admin:SkipEvent"},
    {"events-drop", "admin:DropEvents"},
    {"config", "admin:GetConfig"},
    {"logs", "admin:GetLogs"},
    {"audit", "admin:SearchAudit"},
    {"doctor", "admin:Doctor"},
};

}  // namespace

Operator::Operator(Parts parts, ServerFacts facts)
    : parts_(parts),
      facts_(std::move(facts)),
      started_us_(parts.clock.now_us()),
      examination_(examination_of(parts, facts_)) {}

std::vector<std::string_view> Operator::calls() const {
  std::vector<std::string_view> out;
  for (const Served& one : served) out.push_back(one.name);
  return out;
}

std::string_view Operator::right_of(std::string_view call) const {
  const auto found = std::ranges::find(served, call, &Served::name);
  return found == std::end(served) ? std::string_view() : found->right;
}

Task<Result<Json>> Operator::serve(std::string_view name, std::string_view who, const Json& in, std::string& message) {
  Call call{name, who, in, message};
  if (name == "info") co_return co_await info(call);
  if (name == "top") co_return co_await top(call);
  if (name == "trace") co_return co_await trace(call);
  if (name == "top-end" || name == "trace-end") co_return co_await end_watch(call);
  if (name == "sessions") co_return co_await sessions(call);
  if (name == "session-end") co_return co_await end_session(call);
  if (name == "events") co_return co_await events(call);
  if (name == "events-skip") co_return co_await skip_event(call);
  if (name == "events-drop") co_return co_await drop_events(call);
  if (name == "config") co_return co_await config(call);
  if (name == "logs") co_return co_await logs(call);
  if (name == "audit") co_return co_await audit(call);
  if (name == "doctor") co_return co_await doctor(call);
  co_return fail(Errc::invalid_action, "There is no such admin call.");
}

// False: the caller has waited long enough, or must not wait now.
Task<bool> Operator::wait_a_moment(Deadline until) {
  if (parts_.stopping || SteadyClock::now() >= until) co_return false;
  const Counted counted(waiting_);
  if (counted.before >= waiting_max) co_return false;
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, look_every);
  co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  co_return true;
}

std::string Operator::account_name(std::string_view id) const {
  const auto account = parts_.identities.account(id);
  return account == nullptr ? std::string() : account->name;
}

Task<Result<Json>> Operator::info(Call&) {
  Json doors = Json::array();
  for (const auto& door : facts_.doors) {
    doors.push_back({{"door", door.name}, {"address", door.address}, {"providers", door.providers}});
  }
  Json out = {{"version", facts_.version},
              {"pid", ::getpid()},
              {"started", format_iso8601(started_us_)},
              {"uptime_s", (parts_.clock.now_us() - started_us_) / 1'000'000},
              {"engine", facts_.engine},
              {"cores", facts_.cores},
              {"disk_io", facts_.disk_io},
              {"doors", std::move(doors)},
              {"arena", memory_json(parts_.arena)},
              {"hot_tier", hot_tier_json(facts_.hot_capacity)},
              {"disk", disk_json(facts_.data)},
              {"fallbacks", facts_.fallbacks},
              {"refusals", refusals_json()}};
  out["sessions"] = parts_.door == nullptr ? 0 : parts_.door->sessions();
  out["connections"] = static_cast<uint64_t>(sum_of("verbena_http_connections"));
  VB_CO_ASSIGN(const auto buckets, co_await parts_.store.buckets());
  const auto memory = std::ranges::count(buckets, store::Durability::memory, &store::BucketInfo::durability);
  out["buckets"] = buckets.size();
  out["durability"] = {{"sync", buckets.size() - static_cast<size_t>(memory)}, {"memory", memory}};
  if (!parts_.store.keeps_usage()) co_return out;
  store::Usage usage;
  bool counted = true;
  for (const auto& one : parts_.store.usages_now()) {
    usage += one.usage;
    counted = counted && one.counted;
  }
  out["objects"] = usage.all_objects();
  out["bytes"] = usage.all_bytes();
  out["counted"] = counted;
  co_return out;
}

namespace {

Json sums_json(const std::map<std::string, RequestWatch::Sum, std::less<>>& sums) {
  std::vector<std::pair<std::string_view, RequestWatch::Sum>> all(sums.begin(), sums.end());
  const size_t most = std::min(all.size(), names_told_max);
  // As for the buckets of the metrics, a request weighs as much as 64 KiB.
  const auto weight = [](const auto& one) {
    return one.second.requests * (64 * KiB) + one.second.bytes_in + one.second.bytes_out;
  };
  std::ranges::partial_sort(all, all.begin() + static_cast<ptrdiff_t>(most), std::greater(), weight);
  all.resize(most);
  Json list = Json::array();
  for (const auto& [name, sum] : all) {
    list.push_back({{"name", json_text(name)},
                    {"requests", sum.requests},
                    {"errors", sum.errors},
                    {"bytes_in", sum.bytes_in},
                    {"bytes_out", sum.bytes_out}});
  }
  return list;
}

}  // namespace

Task<Result<Json>> Operator::top(Call& call) {
  VB_CO_ASSIGN(std::string watcher, call.text("watcher"));
  VB_CO_ASSIGN(const bool sums, call.flag("sums", true));
  Json out = {{"time_us", parts_.clock.now_us()},
              {"uptime_s", (parts_.clock.now_us() - started_us_) / 1'000'000},
              {"cores", facts_.cores},
              {"doors", doors_json(facts_, parts_.door)},
              {"latencies", latencies_json()},
              {"connections", static_cast<uint64_t>(sum_of("verbena_http_connections"))},
              {"arena", memory_json(parts_.arena)},
              {"hot_tier", hot_tier_json(facts_.hot_capacity)}};
  out["sessions"] = parts_.door == nullptr ? 0 : parts_.door->sessions();
  // Counters only: each door keeps them anyway, and requests are not traced for this.
  if (watcher.empty() && !sums) co_return out;
  if (watcher.empty()) {
    VB_CO_ASSIGN(watcher, parts_.watch.begin({}, RequestWatch::Wanted::sums));
    out["watcher"] = watcher;
    co_return out;
  }
  VB_CO_ASSIGN(const RequestWatch::Sums seen, parts_.watch.take_sums(watcher));
  out["watcher"] = watcher;
  out["accounts"] = sums_json(seen.accounts);
  for (Json& account : out["accounts"]) account["account"] = account_name(account["name"].get<std::string>());
  out["buckets"] = sums_json(seen.buckets);
  out["lost"] = seen.lost;
  co_return out;
}

Result<RequestWatch::Filter> Operator::filter_of(Call& call) const {
  RequestWatch::Filter filter;
  VB_ASSIGN(filter.bucket, call.text("bucket"));
  VB_ASSIGN(filter.door, call.text("door"));
  VB_ASSIGN(filter.errors, call.flag("errors"));
  VB_ASSIGN(const uint64_t slower, call.number("slower_than_us", 3'600'000'000));
  filter.slower_than_us = static_cast<int64_t>(slower);
  if (!filter.door.empty() && filter.door != "http" && filter.door != "token" && filter.door != "native") {
    return call.refuse(Errc::validation_error, "A door is http, token or native.");
  }
  VB_ASSIGN(const std::string account, call.text("account"));
  if (account.empty()) return filter;
  // By its name, or its id.
  auto found = parts_.identities.account_named(account);
  if (found == nullptr) found = parts_.identities.account(account);
  if (found == nullptr) return call.refuse(Errc::no_such_entity, "There is no account of this name or id.");
  filter.account = found->account->id;
  return filter;
}

Task<Result<Json>> Operator::trace(Call& call) {
  VB_CO_ASSIGN(const std::string watcher, call.text("watcher"));
  if (watcher.empty()) {
    VB_CO_ASSIGN(auto filter, filter_of(call));
    VB_CO_ASSIGN(const std::string made, parts_.watch.begin(std::move(filter), RequestWatch::Wanted::lines));
    co_return Json{{"watcher", made}, {"lines", Json::array()}, {"lost", 0}};
  }
  VB_CO_ASSIGN(const Deadline until, call.wait());
  for (;;) {
    VB_CO_ASSIGN(const RequestWatch::Lines found, parts_.watch.take_lines(watcher));
    if (found.count == 0 && found.lost == 0) {
      const bool again = co_await wait_a_moment(until);
      if (again) continue;
    }
    Json lines = Json::array();
    RequestWatch::each_line(found, [&](const call::AccessLine& line) { lines.push_back(line_json(line)); });
    co_return Json{{"watcher", watcher}, {"lines", std::move(lines)}, {"lost", found.lost}};
  }
}

Task<Result<Json>> Operator::end_watch(Call& call) {
  VB_CO_ASSIGN(const std::string watcher, call.text("watcher"));
  parts_.watch.end(watcher);
  co_return Json::object();
}

Task<Result<Json>> Operator::sessions(Call& call) {
  VB_CO_ASSIGN(const std::string account, call.text("account"));
  std::vector<native::NativeDoor::SessionView> views;
  if (parts_.door != nullptr) views = parts_.door->list_sessions();
  std::erase_if(views, [&](const auto& view) {
    const auto& who = view.identity.principal;
    if (account.empty()) return false;
    return who == nullptr || (who->account->id != account && account_name(who->account->id) != account);
  });
  std::ranges::sort(views, {}, &native::NativeDoor::SessionView::idle);
  Json list = Json::array();
  for (const auto& view : views) {
    if (list.size() == sessions_told_max) break;
    const auto& who = view.identity.principal;
    list.push_back({{"id", fmt::format("{:016x}", view.id)},
                    {"account", who == nullptr ? "" : account_name(who->account->id)},
                    {"principal", who == nullptr ? "" : json_text(who->arn)},
                    {"access_key", json_text(view.identity.access_key)},
                    {"peer", view.peer_address},
                    {"providers", view.providers},
                    {"opened", format_iso8601(view.opened_us)},
                    {"idle_s", std::chrono::duration_cast<std::chrono::seconds>(view.idle).count()},
                    {"streams", view.streams},
                    {"lanes", view.streams},  // the old name, for one release
                    {"in_flight", view.in_flight},
                    {"requests", view.requests},
                    {"bytes_in", view.bytes_in},
                    {"bytes_out", view.bytes_out},
                    {"windows", view.windows},
                    {"forward_secrecy", view.has_forward_secrecy},
                    {"sealed", view.sealed}});
  }
  co_return Json{{"total", views.size()}, {"sessions", std::move(list)}};
}

Task<Result<Json>> Operator::end_session(Call& call) {
  VB_CO_ASSIGN(const std::string text, call.text("id"));
  const auto id = parse_hex(text);
  if (!id) co_return call.refuse(Errc::validation_error, "A session's id has up to 16 hexadecimal digits.");
  if (parts_.door == nullptr || !parts_.door->end_session(*id)) {
    co_return call.refuse(Errc::no_such_entity, "There is no such session.");
  }
  log::info("native: session {} ended by {}", text, call.who);
  co_return Json::object();
}

Task<Result<Json>> Operator::config(Call&) {
  Json list = Json::array();
  for (const ConfigKey& key : config_keys()) {
    const auto given = parts_.config.origins.find(key.name);
    const bool set = given != parts_.config.origins.end();
    Json one = {{"key", key.name},
                {"value", json_text(shown_value(key, set ? given->second.text : std::string(key.fallback)))},
                {"source", set ? json_text(given->second.source) : "default"},
                {"default", key.fallback}};
    const auto in_force = facts_.in_force.find(std::string(key.name));
    if (in_force != facts_.in_force.end()) one["in_force"] = in_force->second;
    list.push_back(std::move(one));
  }
  co_return Json{{"keys", std::move(list)}};
}

Task<Result<Json>> Operator::logs(Call& call) {
  VB_CO_ASSIGN(const uint64_t after, call.number("after", UINT64_MAX));
  VB_CO_ASSIGN(const uint64_t wanted, call.number("lines", log::Ring::lines_max));
  VB_CO_ASSIGN(const std::string level, call.text("level"));
  VB_CO_ASSIGN(const Deadline until, call.wait());
  log::Level least = log::Level::trace;
  bool known = level.empty();
  for (const auto each :
       {log::Level::trace, log::Level::debug, log::Level::info, log::Level::warn, log::Level::error}) {
    if (level != log::name_of(each)) continue;
    least = each;
    known = true;
  }
  if (!known) co_return call.refuse(Errc::validation_error, "A level is trace, debug, info, warn or error.");
  const size_t most = std::min<size_t>(wanted == 0 ? 100 : wanted, log_lines_max);
  for (;;) {
    const auto found = log::ring().read(after, least, most);
    if (found.lines.empty() && found.lost == 0) {
      const bool again = co_await wait_a_moment(until);
      if (again) continue;
    }
    Json lines = Json::array();
    for (const log::Line& line : found.lines) {
      lines.push_back({{"number", line.number},
                       {"time", format_iso8601(line.time_us)},
                       {"level", log::name_of(line.level)},
                       {"text", json_text(line.text)}});
    }
    co_return Json{{"lines", std::move(lines)}, {"last", found.last}, {"lost", found.lost}};
  }
}

}  // namespace verbena::admin
