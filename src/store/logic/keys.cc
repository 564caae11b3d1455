#include "store/logic/keys.h"

namespace verbena::store::keys {
namespace {

// Zero bytes are escaped, so that an end mark of two zeros keeps byte order.
void append_escaped(std::string& out, std::string_view key) {
  for (char c : key) {
    out.push_back(c);
    if (c == '\0') out.push_back('\xff');
  }
}

// What append_escaped() and an end mark made; `rest` is what follows the mark.
std::optional<std::string> unescape(std::string_view in, std::string_view& rest) {
  std::string key;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] != '\0') {
      key.push_back(in[i]);
      continue;
    }
    if (i + 1 >= in.size()) return std::nullopt;
    char next = in[++i];
    if (next == '\0') {
      rest = in.substr(i + 1);
      return key;
    }
    if (next != '\xff') return std::nullopt;
    key.push_back('\0');
  }
  return std::nullopt;
}

}  // namespace

void append_number(std::string& out, uint64_t v, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(v >> (8 * i)));
}

uint64_t read_number(std::string_view in) {
  uint64_t v = 0;
  for (char c : in) v = v << 8 | static_cast<uint8_t>(c);
  return v;
}

std::string tagged(char tag, uint64_t v) {
  std::string key(1, tag);
  append_number(key, v, 8);
  return key;
}

std::string number(uint64_t v) {
  std::string key;
  append_number(key, v, 8);
  return key;
}

std::optional<uint64_t> parse_number(std::string_view bytes) {
  if (bytes.size() != 8) return std::nullopt;
  return read_number(bytes);
}

std::string bucket_prefix() { return "b"; }
std::string bucket(std::string_view name) { return "b" + std::string(name); }
std::string document_prefix() { return "c"; }
std::string document_prefix(uint64_t bucket) { return tagged('c', bucket); }
std::string document(uint64_t bucket, std::string_view name) { return tagged('c', bucket).append(name); }
std::optional<std::pair<uint64_t, std::string>> parse_document(std::string_view key) {
  if (key.size() < 10 || key[0] != 'c') return std::nullopt;
  return std::pair(read_number(key.substr(1, 8)), std::string(key.substr(9)));
}
std::string object_prefix(uint64_t bucket) { return number(bucket); }
std::string object(uint64_t bucket, std::string_view key) {
  std::string out;
  out.reserve(8 + key.size());
  append_number(out, bucket, 8);
  return out.append(key);
}

std::string upload_prefix(uint64_t bucket) { return tagged('u', bucket); }

std::string upload_key_prefix(uint64_t bucket, std::string_view key) {
  std::string out = upload_prefix(bucket);
  append_escaped(out, key);
  return out;
}

std::string upload(uint64_t bucket, std::string_view key, std::string_view upload_id) {
  return upload_key_prefix(bucket, key).append(2, '\0').append(upload_id);
}

std::optional<std::pair<std::string, std::string>> parse_upload(std::string_view index_key) {
  if (index_key.size() < 9 || index_key[0] != 'u') return std::nullopt;
  std::string_view upload_id;
  auto key = unescape(index_key.substr(9), upload_id);
  if (!key) return std::nullopt;
  return std::pair(std::move(*key), std::string(upload_id));
}

std::string part_prefix(uint64_t upload) { return tagged('p', upload); }
std::string part(uint64_t upload, int number) {
  std::string key = part_prefix(upload);
  append_number(key, static_cast<uint64_t>(number), 4);
  return key;
}
std::string object_parts(uint64_t object) { return tagged('o', object); }
bool is_part(std::string_view key) { return key.starts_with('p'); }
bool is_object_parts(std::string_view key) { return key.starts_with('o'); }

std::string null_version_prefix(uint64_t bucket) { return tagged('n', bucket); }
std::string null_version(uint64_t bucket, std::string_view key) {
  std::string out = null_version_prefix(bucket);
  append_escaped(out, key);
  return out.append(2, '\0');
}

std::string rename_token_prefix(uint64_t bucket) { return tagged('r', bucket); }
std::string rename_token(uint64_t bucket, std::string_view token) { return rename_token_prefix(bucket).append(token); }
std::string rename_token_count(uint64_t bucket) { return rename_token(bucket, ""); }
std::string rename_age_prefix(uint64_t bucket) { return tagged('a', bucket); }
std::string rename_age(uint64_t bucket, int64_t came_us, std::string_view token) {
  std::string key = rename_age_prefix(bucket);
  append_number(key, static_cast<uint64_t>(came_us), 8);
  return key.append(token);
}
std::optional<std::pair<int64_t, std::string>> parse_rename_age(std::string_view index_key) {
  if (index_key.size() < 17 || index_key[0] != 'a') return std::nullopt;
  return std::pair(static_cast<int64_t>(read_number(index_key.substr(9, 8))), std::string(index_key.substr(17)));
}

std::string event_prefix() { return "e"; }
std::string event_prefix(std::string_view queue) { return std::string("e").append(queue).append(1, '\0'); }
std::string event_prefix(std::string_view queue, uint64_t bucket) {
  std::string key = event_prefix(queue);
  append_number(key, bucket, 8);
  return key;
}
std::string event(std::string_view queue, uint64_t bucket, uint64_t id) {
  std::string key = event_prefix(queue, bucket);
  append_number(key, id, 8);
  return key;
}
std::optional<std::pair<uint64_t, uint64_t>> parse_event(std::string_view index_key) {
  const size_t end = index_key.find('\0');  // no queue's name has one
  if (!index_key.starts_with('e') || end == std::string_view::npos) return std::nullopt;
  const std::string_view numbers = index_key.substr(end + 1);
  if (numbers.size() != 16) return std::nullopt;
  return std::pair(read_number(numbers.substr(0, 8)), read_number(numbers.substr(8)));
}

std::optional<std::string> event_queue(std::string_view index_key) {
  const size_t end = index_key.find('\0');
  if (!index_key.starts_with('e') || end == std::string_view::npos) return std::nullopt;
  return std::string(index_key.substr(1, end - 1));
}

std::string end_prefix() { return "x"; }
std::string end(int64_t end_us, uint64_t bucket, std::string_view key) {
  std::string row = tagged('x', static_cast<uint64_t>(end_us));
  append_number(row, bucket, 8);
  return row.append(key);
}
std::optional<End> parse_end(std::string_view index_key) {
  if (index_key.size() < 17 || index_key[0] != 'x') return std::nullopt;
  return End{.end_us = static_cast<int64_t>(read_number(index_key.substr(1, 8))),
             .bucket = read_number(index_key.substr(9, 8)),
             .key = std::string(index_key.substr(17))};
}

std::string version_bucket(uint64_t bucket) { return number(bucket); }
std::string version_key_prefix(uint64_t bucket, std::string_view key) {
  std::string out = number(bucket);
  append_escaped(out, key);
  return out;
}
std::string version_prefix(uint64_t bucket, std::string_view key) {
  return version_key_prefix(bucket, key).append(2, '\0');
}
std::string version(uint64_t bucket, std::string_view key, uint64_t id) {
  std::string out = version_prefix(bucket, key);
  append_number(out, ~id, 8);
  return out;
}
std::optional<std::pair<std::string, uint64_t>> parse_version(std::string_view index_key) {
  if (index_key.size() < 8) return std::nullopt;
  std::string_view rest;
  auto key = unescape(index_key.substr(8), rest);
  if (!key || rest.size() != 8) return std::nullopt;
  return std::pair(std::move(*key), ~read_number(rest));
}

std::optional<std::string> after_prefix(std::string_view prefix) {
  std::string out(prefix);
  while (!out.empty() && out.back() == '\xff') out.pop_back();
  if (out.empty()) return std::nullopt;
  out.back() = static_cast<char>(static_cast<uint8_t>(out.back()) + 1);
  return out;
}

}  // namespace verbena::store::keys
