// The condition keys of policies that every request has, whichever API it calls: S3, IAM, STS, or the admin API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "call/call.h"

namespace verbena::call {

// What a request is for, besides its own data.
struct AskedOf {
  std::string_view region;            // of the server
  std::string_view resource_account;  // that owns the resource, 12 digits; empty: there is none
  const WallClock& clock;
};

// The time for conditions: the request's arrival, however long its body takes.
inline int64_t arrived_us(const Call& call, const WallClock& clock) {
  return call.facts.arrived_us != 0 ? call.facts.arrived_us : clock.now_us();
}

// The value of a key from a text that is empty where the request has no such value.
std::optional<std::string> value_of(std::string_view text);

// All of these keys, in lower case.
std::vector<std::string_view> request_keys();

// The value of such a key (in lower case). nullopt: another key, or the request has no such value.
std::optional<std::string> find_request_fact(const Call& call, const AskedOf& of, std::string_view key);

// The request as it was sent; for a browser's form the POST.
inline const Facts& sent(const Call& call) {
  return call.facts.posted_by != nullptr ? *call.facts.posted_by : call.facts;
}

}  // namespace verbena::call
