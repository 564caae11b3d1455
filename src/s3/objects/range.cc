#include "s3/objects/range.h"

#include <algorithm>
#include <limits>

#include "base/text.h"

namespace verbena::s3 {
namespace {

constexpr uint64_t saturated = std::numeric_limits<uint64_t>::max();

// A position beyond 64 bits is beyond every object: it saturates instead of failing.
std::optional<uint64_t> position(std::string_view digits) {
  if (digits.empty()) return std::nullopt;
  uint64_t value = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<uint64_t>(c - '0');
    value = value > (saturated - digit) / 10 ? saturated : value * 10 + digit;
  }
  return value;
}

}  // namespace

std::optional<ByteRange> parse_range(std::string_view header) {
  constexpr std::string_view unit = "bytes=";
  const auto same = [](char a, char b) { return lower(a) == b; };
  if (header.size() < unit.size() || !std::ranges::equal(header.substr(0, unit.size()), unit, same)) {
    return std::nullopt;
  }
  const std::string_view spec = trim(header.substr(unit.size()));
  const size_t dash = spec.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view before = spec.substr(0, dash), after = spec.substr(dash + 1);
  ByteRange range;
  if (before.empty()) {
    range.suffix = position(after);
    if (!range.suffix) return std::nullopt;
    return range;
  }
  range.first = position(before);
  if (!range.first) return std::nullopt;
  if (!after.empty()) {
    range.last = position(after);
    if (!range.last || *range.last < *range.first) return std::nullopt;
  }
  return range;
}

Result<ByteRange> parse_copy_range(std::string_view header) {
  const auto range = parse_range(header);
  if (!range || !range->first || !range->last) {
    return fail(Errc::invalid_argument,
                "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the "
                "zero-based offsets of the first and last bytes to copy.");
  }
  return *range;
}

Result<Extent> resolve_range(const ByteRange& range, uint64_t size) {
  if (range.suffix) {
    if (*range.suffix == 0 || size == 0) return fail(Errc::invalid_range, "range: suffix");
    const uint64_t length = std::min(*range.suffix, size);
    return Extent{size - length, length, true};
  }
  if (!range.first || *range.first >= size) return fail(Errc::invalid_range, "range: first byte");
  const uint64_t last = std::min(range.last.value_or(saturated), size - 1);
  if (last < *range.first) return fail(Errc::invalid_range, "range: order");
  return Extent{*range.first, last - *range.first + 1, true};
}

}  // namespace verbena::s3
