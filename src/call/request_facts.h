// The condition keys of policies that every request has, whichever API it calls: S3, IAM, STS, or the admin API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "call/call.h"

namespace verbena::call {

// What a request is for, besides its own data.
struct AskedOf {
  std::string_view region;            // of the server
  std::string_view resource_account;  // that owns the resource, 12 digits; empty: there is none
  int64_t now_us;
};

// All of these keys, in lower case.
std::vector<std::string_view> request_keys();

// The value of such a key (in lower case). nullopt: another key, or the request has no such value.
std::optional<std::string> find_request_fact(const Call& call, const AskedOf& of, std::string_view key);

// The request as it was sent; for a browser's form the POST.
inline const Facts& sent(const Call& call) {
  return call.facts.posted_by != nullptr ? *call.facts.posted_by : call.facts;
}

}  // namespace verbena::call
