#include "s3/query.h"

#include <algorithm>
#include <charconv>

#include "auth/auth.h"

namespace verbena::s3 {
namespace {

std::optional<std::string> decode(std::string_view text) {
  std::string spaced(text);
  std::ranges::replace(spaced, '+', ' ');
  return auth::uri_decode(spaced);
}

}  // namespace

std::optional<uint64_t> parse_decimal(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

Result<Query> Query::parse(std::string_view raw) {
  Query query;
  while (!raw.empty()) {
    const size_t cut = std::min(raw.find('&'), raw.size());
    const std::string_view piece = raw.substr(0, cut);
    raw.remove_prefix(std::min(cut + 1, raw.size()));
    if (piece.empty()) continue;
    if (query.items_.size() == parameters_max) return fail(Errc::invalid_request, "Too many query parameters.");
    const size_t equals = std::min(piece.find('='), piece.size());
    auto name = decode(piece.substr(0, equals));
    auto value = decode(piece.substr(std::min(equals + 1, piece.size())));
    if (!name || !value) return fail(Errc::invalid_uri, "query: percent escape");
    query.items_.emplace_back(std::move(*name), std::move(*value));
  }
  return query;
}

std::optional<std::string_view> Query::get(std::string_view name) const {
  for (const auto& [key, value] : items_) {
    if (key == name) return value;
  }
  return std::nullopt;
}

Result<int64_t> Query::number(std::string_view name, int64_t min, int64_t max, int64_t fallback,
                              const char* context) const {
  const auto text = get(name);
  if (!text || text->empty()) return fallback;
  const auto value = parse_decimal(*text);
  if (!value || *value > static_cast<uint64_t>(max) || static_cast<int64_t>(*value) < min) {
    return fail(Errc::invalid_argument, context);
  }
  return static_cast<int64_t>(*value);
}

}  // namespace verbena::s3
