#include "store/local/keys.h"

namespace verbena::store::local::keys {
namespace {

void append_be(std::string& out, uint64_t v, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(v >> (8 * i)));
}

uint64_t read_be(std::string_view in) {
  uint64_t v = 0;
  for (char c : in) v = v << 8 | static_cast<uint8_t>(c);
  return v;
}

std::string tagged(char tag, uint64_t v) {
  std::string key(1, tag);
  append_be(key, v, 8);
  return key;
}

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

std::string number(uint64_t v) {
  std::string key;
  append_be(key, v, 8);
  return key;
}

std::optional<uint64_t> parse_number(std::string_view bytes) {
  if (bytes.size() != 8) return std::nullopt;
  return read_be(bytes);
}

std::string epoch() { return "m:epoch"; }
std::string scrub() { return "m:scrub"; }
std::string bucket_prefix() { return "b"; }
std::string bucket(std::string_view name) { return "b" + std::string(name); }
std::string document_prefix() { return "c"; }
std::string document_prefix(uint64_t bucket) { return tagged('c', bucket); }
std::string document(uint64_t bucket, std::string_view name) { return tagged('c', bucket).append(name); }
std::optional<std::pair<uint64_t, std::string>> parse_document(std::string_view key) {
  if (key.size() < 10 || key[0] != 'c') return std::nullopt;
  return std::pair(read_be(key.substr(1, 8)), std::string(key.substr(9)));
}
std::string volume_clean(uint64_t volume) { return tagged('v', volume); }
std::string dead_prefix() { return "d"; }
std::string dead(uint64_t blob) { return tagged('d', blob); }
std::optional<uint64_t> parse_dead(std::string_view key) {
  if (key.size() != 9 || key[0] != 'd') return std::nullopt;
  return read_be(key.substr(1));
}

std::string removed_bucket_prefix() { return "r"; }
std::string removed_bucket(uint64_t bucket) { return tagged('r', bucket); }
std::optional<uint64_t> parse_removed_bucket(std::string_view key) {
  if (key.size() != 9 || key[0] != 'r') return std::nullopt;
  return read_be(key.substr(1));
}

std::string object_prefix(uint64_t bucket) { return number(bucket); }
std::string object(uint64_t bucket, std::string_view key) { return number(bucket).append(key); }

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
  append_be(key, static_cast<uint64_t>(number), 4);
  return key;
}
std::string object_parts(uint64_t object) { return tagged('o', object); }

std::string null_version(uint64_t bucket, std::string_view key) {
  std::string out = tagged('n', bucket);
  append_escaped(out, key);
  return out.append(2, '\0');
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
  append_be(out, ~id, 8);
  return out;
}
std::optional<std::pair<std::string, uint64_t>> parse_version(std::string_view index_key) {
  if (index_key.size() < 8) return std::nullopt;
  std::string_view rest;
  auto key = unescape(index_key.substr(8), rest);
  if (!key || rest.size() != 8) return std::nullopt;
  return std::pair(std::move(*key), ~read_be(rest));
}

std::string segment_prefix(uint64_t blob) { return number(blob); }
std::string segment(uint64_t blob, uint32_t n) {
  std::string key = number(blob);
  append_be(key, n, 4);
  return key;
}
std::optional<std::pair<uint64_t, uint32_t>> parse_segment(std::string_view key) {
  if (key.size() != 12) return std::nullopt;
  return std::pair(read_be(key.substr(0, 8)), static_cast<uint32_t>(read_be(key.substr(8))));
}
std::string extent_prefix(uint64_t volume) { return number(volume); }
std::string extent(uint64_t volume, uint64_t offset) {
  std::string key = number(volume);
  append_be(key, offset, 8);
  return key;
}
std::optional<std::pair<uint64_t, uint64_t>> parse_extent(std::string_view key) {
  if (key.size() != 16) return std::nullopt;
  return std::pair(read_be(key.substr(0, 8)), read_be(key.substr(8)));
}
std::string in_index(uint64_t blob) { return number(blob); }

std::optional<std::string> after_prefix(std::string_view prefix) {
  std::string out(prefix);
  while (!out.empty() && out.back() == '\xff') out.pop_back();
  if (out.empty()) return std::nullopt;
  out.back() = static_cast<char>(static_cast<uint8_t>(out.back()) + 1);
  return out;
}

}  // namespace verbena::store::local::keys
