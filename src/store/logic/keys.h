// The layout of the rows' keys. Fixed-width numbers are big-endian, so byte order is numeric order; a bucket's id comes
// first and has eight bytes, so the keys of one bucket are adjacent and sort by their own bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace verbena::store {

namespace keys {

// meta: one letter says which; an engine may have others of its own
std::string bucket_prefix();
std::string bucket(std::string_view name);
std::string document_prefix();
std::string document_prefix(uint64_t bucket);
std::string document(uint64_t bucket, std::string_view name);
std::optional<std::pair<uint64_t, std::string>> parse_document(std::string_view key);  // bucket, name

// objects: bucket id, key
std::string object_prefix(uint64_t bucket);
std::string object(uint64_t bucket, std::string_view key);
inline constexpr size_t object_prefix_size = 8;

// uploads
std::string upload_prefix(uint64_t bucket);
// The key's zero bytes are escaped (00 -> 00 ff) and its end is 00 00, which keeps byte order.
std::string upload_key_prefix(uint64_t bucket, std::string_view key);  // up to where keys differ: no end mark
std::string upload(uint64_t bucket, std::string_view key, std::string_view upload_id);
std::optional<std::pair<std::string, std::string>> parse_upload(std::string_view index_key);  // key, upload id
std::string part_prefix(uint64_t upload);
std::string part(uint64_t upload, int number);
std::string object_parts(uint64_t object);
bool is_part(std::string_view key);  // of the table of uploads, these two
bool is_object_parts(std::string_view key);
std::string null_version_prefix(uint64_t bucket);
std::string null_version(uint64_t bucket, std::string_view key);  // -> the id of the key's null version in `versions`

// Rename tokens of clients: a token's time and request; and the tokens by age: bucket id, time, token.
std::string rename_token_prefix(uint64_t bucket);
std::string rename_token(uint64_t bucket, std::string_view token);
// How many tokens there are: the row of an empty token, which no request has.
std::string rename_token_count(uint64_t bucket);
std::string rename_age_prefix(uint64_t bucket);
std::string rename_age(uint64_t bucket, int64_t came_us, std::string_view token);
std::optional<std::pair<int64_t, std::string>> parse_rename_age(std::string_view index_key);

// Events that wait: queue, end mark, bucket id, event id.
std::string event_prefix();
std::string event_prefix(std::string_view queue);
std::string event_prefix(std::string_view queue, uint64_t bucket);
std::string event(std::string_view queue, uint64_t bucket, uint64_t id);
std::optional<std::pair<uint64_t, uint64_t>> parse_event(std::string_view index_key);  // bucket, event
std::optional<std::string> event_queue(std::string_view index_key);                    // of an event's

// Ends of objects: time, bucket id, key.
struct End {
  int64_t end_us = 0;
  uint64_t bucket = 0;
  std::string key;
};
std::string end_prefix();
std::string end(int64_t end_us, uint64_t bucket, std::string_view key);
std::optional<End> parse_end(std::string_view index_key);

// versions: bucket id, key (as in an upload's), the id's complement: the newest of a key comes first
std::string version_bucket(uint64_t bucket);
std::string version_key_prefix(uint64_t bucket, std::string_view key);  // up to where keys differ: no end mark
std::string version_prefix(uint64_t bucket, std::string_view key);      // all of this key
std::string version(uint64_t bucket, std::string_view key, uint64_t id);
std::optional<std::pair<std::string, uint64_t>> parse_version(std::string_view index_key);  // key, id

// Numbers in keys and records: big-endian, eight bytes; or a letter before them.
std::string number(uint64_t v);
void append_number(std::string& out, uint64_t v, int bytes);
uint64_t read_number(std::string_view bytes);
std::string tagged(char tag, uint64_t v);
std::optional<uint64_t> parse_number(std::string_view bytes);

// The smallest string above every string that starts with `prefix`; nullopt when there is none (only 0xff bytes).
std::optional<std::string> after_prefix(std::string_view prefix);

}  // namespace keys
}  // namespace verbena::store
