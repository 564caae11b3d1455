#include "call/request_facts.h"

#include <algorithm>
#include <iterator>

#include "base/date.h"

namespace verbena::call {
namespace {

using Value = std::optional<std::string>;

Value some(std::string_view text) { return text.empty() ? std::nullopt : Value(text); }

Value header(const Call& call, std::string_view name) {
  const auto value = sent(call).header(name);
  return value ? Value(*value) : std::nullopt;
}

// For a native session the user agent that its client gave when it opened the session.
Value user_agent(const Call& call) {
  if (call.facts.http) return header(call, "user-agent");
  return call.user_agent == nullptr ? std::nullopt : some(*call.user_agent);
}

struct Key {
  std::string_view name;
  Value (*find)(const Call&, const AskedOf&);
};

constexpr Key keys[] = {
    {"aws:currenttime", [](const Call&, const AskedOf& of) -> Value { return format_iso8601(of.now_us); }},
    {"aws:epochtime", [](const Call&, const AskedOf& of) -> Value { return std::to_string(of.now_us / 1'000'000); }},
    {"aws:referer", [](const Call& call, const AskedOf&) { return header(call, "referer"); }},
    {"aws:requestedregion", [](const Call&, const AskedOf& of) { return some(of.region); }},
    {"aws:resourceaccount", [](const Call&, const AskedOf& of) { return some(of.resource_account); }},
    {"aws:securetransport", [](const Call& call, const AskedOf&) -> Value { return call.secure ? "true" : "false"; }},
    {"aws:sourceip", [](const Call& call, const AskedOf&) { return some(call.peer_address); }},
    {"aws:useragent", [](const Call& call, const AskedOf&) { return user_agent(call); }}};

}  // namespace

std::vector<std::string_view> request_keys() {
  std::vector<std::string_view> names;
  for (const Key& key : keys) names.push_back(key.name);
  return names;
}

std::optional<std::string> find_request_fact(const Call& call, const AskedOf& of, std::string_view key) {
  const auto* const found = std::ranges::find(keys, key, &Key::name);
  return found == std::end(keys) ? std::nullopt : found->find(call, of);
}

}  // namespace verbena::call
