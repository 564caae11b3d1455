#include "s3/names.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "store/store.h"

namespace verbena::s3 {
namespace {

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// Four decimal groups: such a name would look like an IP address.
bool looks_like_ipv4(std::string_view name) {
  int groups = 0;
  size_t digits = 0;
  for (char c : name) {
    if (c == '.') {
      if (digits == 0) return false;
      ++groups;
      digits = 0;
    } else if (c >= '0' && c <= '9') {
      if (++digits > 3) return false;
    } else {
      return false;
    }
  }
  return groups == 3 && digits > 0;
}

constexpr std::array<std::string_view, 3> reserved_prefixes = {"xn--", "sthree-", "amzn-s3-demo-"};
constexpr std::array<std::string_view, 4> reserved_suffixes = {"-s3alias", "--ol-s3", ".mrap", "--table-s3"};

// Source: AWS, "Directory bucket naming rules".
Result<void> check_directory_name(std::string_view name) {
  constexpr size_t marks = std::string_view("--").size() + std::string_view("--x-s3").size();
  const std::string_view zone = zone_of(name);
  const std::string_view base = zone.empty() ? zone : name.substr(0, name.size() - zone.size() - marks);
  const auto plain = [](char c) { return is_lower_or_digit(c) || c == '-'; };
  if (base.empty() || !is_lower_or_digit(base.back()) || !std::ranges::all_of(name, plain)) {
    return fail(Errc::invalid_bucket_name, "directory bucket name");
  }
  return {};
}

}  // namespace

std::string_view zone_of(std::string_view name) {
  constexpr std::string_view ending = "--x-s3";
  if (!name.ends_with(ending)) return {};
  name.remove_suffix(ending.size());
  const size_t dashes = name.rfind("--");
  if (dashes == std::string_view::npos || dashes == 0) return {};
  return name.substr(dashes + 2);
}

Result<void> check_bucket_name(std::string_view name) {
  constexpr const char* context = "bucket name";
  if (name.size() < 3 || name.size() > 63) return fail(Errc::invalid_bucket_name, context);
  if (!is_lower_or_digit(name.front()) || !is_lower_or_digit(name.back())) {
    return fail(Errc::invalid_bucket_name, context);
  }
  for (char c : name) {
    if (!is_lower_or_digit(c) && c != '-' && c != '.') return fail(Errc::invalid_bucket_name, context);
  }
  // Each label between periods begins and ends with a letter or digit, so that the name can be part of a host name.
  for (std::string_view bad : {"..", ".-", "-."}) {
    if (name.find(bad) != std::string_view::npos) return fail(Errc::invalid_bucket_name, context);
  }
  if (looks_like_ipv4(name)) return fail(Errc::invalid_bucket_name, context);
  auto starts = [&](std::string_view prefix) { return name.starts_with(prefix); };
  auto ends = [&](std::string_view suffix) { return name.ends_with(suffix); };
  if (is_directory_bucket(name)) return check_directory_name(name);
  if (std::ranges::any_of(reserved_prefixes, starts) || std::ranges::any_of(reserved_suffixes, ends)) {
    return fail(Errc::invalid_bucket_name, context);
  }
  return {};
}

Result<void> check_key(std::string_view key) {
  if (key.empty()) return fail(Errc::invalid_argument, "The object key must not be empty.");
  if (key.size() > store::key_size_max) return fail(Errc::key_too_long, "object key");
  if (!valid_utf8(key)) return fail(Errc::invalid_uri, "The object key is not valid UTF-8.");
  return {};
}

Result<void> check_new_key(std::string_view key) {
  VB_TRY(check_key(key));
  if (key.find('\0') != std::string_view::npos) {
    return fail(Errc::invalid_argument, "The object key must not hold a NUL character.");
  }
  return {};
}

}  // namespace verbena::s3
