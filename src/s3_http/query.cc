#include "s3_http/query.h"

#include <algorithm>

#include "auth/query_limit.h"
#include "base/decimal.h"
#include "base/hex.h"
#include "base/secret.h"

namespace verbena::s3 {
namespace {

// Into an empty string of sufficient capacity: one that grows would leave a copy of its contents behind.
bool decode(std::string_view text, std::string& into) {
  into.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      into += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (text.size() - i < 3) return false;
    const int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return false;
    into += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return true;
}

}  // namespace

Result<Query> Query::parse(std::string_view raw) {
  Query query;
  if (raw.empty()) return query;
  query.items_.reserve(
      std::min<size_t>(static_cast<size_t>(std::ranges::count(raw, '&')) + 1, auth::query_arguments_max));
  while (!raw.empty()) {
    const size_t cut = std::min(raw.find('&'), raw.size());
    const std::string_view piece = raw.substr(0, cut);
    raw.remove_prefix(std::min(cut + 1, raw.size()));
    if (piece.empty()) continue;
    if (query.items_.size() == auth::query_arguments_max)
      return fail(Errc::invalid_request, "Too many query parameters.");
    const size_t equals = std::min(piece.find('='), piece.size());
    auto& [name, value] = query.items_.emplace_back();
    if (!decode(piece.substr(0, equals), name) || !decode(piece.substr(std::min(equals + 1, piece.size())), value)) {
      return fail(Errc::invalid_uri, "query: percent escape");
    }
  }
  return query;
}

void Query::wipe_values() {
  for (auto& [name, value] : items_) wipe(value);
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
