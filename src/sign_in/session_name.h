// Names of sessions of federated users: [A-Za-z0-9_+=,.@-], 64 characters at most, as in iam/parameters.h is_name().
#pragma once

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace verbena::sign_in {

inline bool can_name_a_session(std::string_view text) {
  constexpr size_t bytes_max = 64;
  const auto named = [](char c) {
    const char low = lower(c);
    return (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || std::string_view("_+=,.@-").contains(c);
  };
  return !text.empty() && text.size() <= bytes_max && std::ranges::all_of(text, named);
}

}  // namespace verbena::sign_in
