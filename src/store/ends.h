// The end of an object's life: seconds that a client gave it (TTL), and the moment that the engine made of them at the
// commit. Both are among the object's headers, so every door that carries headers carries them.
//
// From its end on no reader sees the object: Bucket::is_gone() decides, for looks and judges alike. Its row and bytes
// remain until they are swept (EndIndex).
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace verbena::store {

inline constexpr std::string_view ttl_header = "x-verbena-ttl";          // seconds; by the client
inline constexpr std::string_view expires_header = "x-verbena-expires";  // seconds since the epoch; by the engine
inline constexpr int64_t ttl_max_s = 315'360'000;                        // ten years of 365 days

// Among ObjectChange::attributes: renews the end of a version instead of being stored. The value is the new TTL, or one
// of the following.
inline constexpr std::string_view touch_attribute = "touch";
inline constexpr std::string_view touch_again = "again";      // the TTL that it has
inline constexpr std::string_view touch_by_read = "by-read";  // likewise, but only when a tenth of it has passed

inline std::optional<int64_t> parse_seconds(std::string_view text, int64_t max) {
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 1 || seconds > max) return std::nullopt;
  return seconds;
}
inline std::optional<int64_t> parse_ttl(std::string_view text) { return parse_seconds(text, ttl_max_s); }

inline const std::string* find_header(const ObjectInfo& info, std::string_view name) {
  for (const auto& header : info.headers) {
    if (header.first == name) return &header.second;
  }
  return nullptr;
}

// 0: none.
inline int64_t ttl_s_of(const ObjectInfo& info) {
  const std::string* ttl = find_header(info, ttl_header);
  return ttl == nullptr ? 0 : parse_ttl(*ttl).value_or(0);
}
// In microseconds; 0: none.
inline int64_t end_us_of(const ObjectInfo& info) {
  const std::string* expires = find_header(info, expires_header);
  if (expires == nullptr) return 0;
  return parse_seconds(*expires, INT64_MAX / 1'000'000).value_or(0) * 1'000'000;
}

inline void drop_end(ObjectInfo& info) {
  std::erase_if(info.headers, [](const auto& h) { return h.first == ttl_header || h.first == expires_header; });
}
// Sets the end to the TTL after `from_us`, at a whole second: the object lives at least as long as its TTL.
inline void set_end(ObjectInfo& info, int64_t from_us) {
  if (info.headers.empty()) return;
  std::erase_if(info.headers, [](const auto& header) { return header.first == expires_header; });
  const int64_t ttl_s = ttl_s_of(info);
  if (ttl_s == 0) return;
  info.headers.emplace_back(expires_header, std::to_string((from_us + 999'999) / 1'000'000 + ttl_s));
}

// An object whose end has come.
struct EndedKey {
  std::string bucket, key;  // an empty bucket: it was removed
  uint64_t bucket_id = 0;
  int64_t bucket_created_us = 0;
  int64_t end_us = 0;
};

// Objects by the time of their end. An engine that keeps none refuses objects with a TTL.
class EndIndex {
 public:
  virtual ~EndIndex() = default;
  virtual bool keeps_ends() const = 0;
  // At most `max` keys whose end has come, after `after` (null: from the first), in the engine's order: by time, or by
  // time in each of the parts that its rows are spread over. Fewer: there are no more.
  virtual Task<Result<std::vector<EndedKey>>> ended(size_t max, const EndedKey* after) = 0;
  // Removes an entry that no current object has.
  virtual Task<Result<void>> forget_end(EndedKey ended) = 0;
  // The latest end in that bucket of which a reader was told that it has come, in microseconds: no later one is said
  // not to have come, whatever the clock does. 0: none.
  virtual int64_t ended_us(std::string_view bucket) const = 0;
};

}  // namespace verbena::store
