// A query string or a form, decoded. Its values are wiped when it is destroyed, because it may contain a password or a
// token.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace verbena::s3 {

class Query {
 public:
  Query() = default;
  ~Query() { wipe_values(); }
  // A move keeps the strings in place, so no copy is left behind.
  Query(Query&& other) noexcept : items_(std::exchange(other.items_, {})) {}
  Query& operator=(Query&& other) noexcept {
    std::swap(items_, other.items_);
    return *this;
  }

  // Percent-decodes names and values; '+' is a space, as in HTML forms and at AWS. Empty pieces ("a&&b") are dropped.
  // invalid_uri for a broken escape, invalid_request for more than auth::query_arguments_max.
  static Result<Query> parse(std::string_view raw);

  bool has(std::string_view name) const { return get(name).has_value(); }
  std::optional<std::string_view> get(std::string_view name) const;  // the first of that name
  std::string_view get_or_empty(std::string_view name) const { return get(name).value_or(std::string_view()); }
  // A decimal number in [min, max]. invalid_argument with `context` for anything else; `fallback` when absent or empty.
  Result<int64_t> number(std::string_view name, int64_t min, int64_t max, int64_t fallback, const char* context) const;

  const std::vector<std::pair<std::string, std::string>>& items() const { return items_; }
  void wipe_values();

 private:
  std::vector<std::pair<std::string, std::string>> items_;
};

}  // namespace verbena::s3
