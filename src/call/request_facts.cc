#include "call/request_facts.h"

#include <algorithm>
#include <iterator>

#include "base/date.h"

namespace verbena::call {
namespace {

using Value = std::optional<std::string>;

Value header(const Call& call, std::string_view name) {
  const auto value = sent(call).header(name);
  return value ? Value(*value) : std::nullopt;
}

// For a native session the user agent that its client gave when it opened the session.
Value user_agent(const Call& call) {
  if (call.facts.http) return header(call, "user-agent");
  return call.user_agent == nullptr ? std::nullopt : value_of(*call.user_agent);
}

struct Key {
  std::string_view name;
  Value (*find)(const Call&, const AskedOf&);
};

constexpr Key keys[] = {
    {"aws:currenttime",
     [](const Call& call, const AskedOf& of) -> Value { return format_iso8601(arrived_us(call, of.clock)); }},
    {"aws:epochtime",
     [](const Call& call, const AskedOf& of) -> Value {
       return std::to_string(arrived_us(call, of.clock) / 1'000'000);
     }},
    {"aws:referer", [](const Call& call, const AskedOf&) { return header(call, "referer"); }},
    {"aws:requestedregion", [](const Call&, const AskedOf& of) { return value_of(of.region); }},
    {"aws:resourceaccount", [](const Call&, const AskedOf& of) { return value_of(of.resource_account); }},
    {"aws:securetransport", [](const Call& call, const AskedOf&) -> Value { return call.secure ? "true" : "false"; }},
    {"aws:sourceip", [](const Call& call, const AskedOf&) { return value_of(call.peer_address); }},
    {"aws:useragent", [](const Call& call, const AskedOf&) { return user_agent(call); }}};

}  // namespace

std::optional<std::string> value_of(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

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
