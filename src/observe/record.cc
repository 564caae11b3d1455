#include "observe/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/utf8.h"

namespace verbena::observe {
namespace {

constexpr size_t text_max = 1200;         // of one field: a bucket's name, a key of 1024 bytes and a version's id
constexpr size_t refused_text_max = 160;  // for refused requests: enough to recognize the name

constexpr std::string_view Line::* texts[] = {
    &Line::peer,    &Line::principal, &Line::access_key, &Line::action,     &Line::bucket,     &Line::path,  &Line::key,
    &Line::version, &Line::door,      &Line::transport,  &Line::error_code, &Line::request_id, &Line::source};
constexpr size_t text_count = std::size(texts);

// A line as a core queues it for the writer: this record, then its texts one after the other.
struct Record {
  int64_t time_us, duration_us, wait_us, disk_us, wire_us;
  uint64_t bytes_in, bytes_out, rdma_bytes;
  int32_t status;
  uint32_t items, of_items;
  uint16_t sizes[text_count];
  bool cut;
};

// Shortens text to at most this many bytes, without splitting a character.
size_t cut_at(std::string_view text, size_t most) {
  if (text.size() <= most) return text.size();
  size_t end = most;
  while (end > most - 4 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80 ? most : end;
}

size_t kept_of(const Line& line, std::string_view Line::* text) {
  const bool wanted = text == &Line::path || text == &Line::key;
  return cut_at(line.*text, wanted && is_refused(line) ? refused_text_max : text_max);
}

}  // namespace

size_t record_size(const Line& line) {
  size_t size = sizeof(Record);
  for (const auto text : texts) size += kept_of(line, text);
  return size;
}

void append_record(std::string& out, const Line& line) {
  Record record{};
  record.time_us = line.time_us;
  record.duration_us = line.duration_us;
  record.bytes_in = line.bytes_in;
  record.bytes_out = line.bytes_out;
  record.rdma_bytes = line.rdma_bytes;
  record.wait_us = line.wait_us;
  record.disk_us = line.disk_us;
  record.wire_us = line.wire_us;
  record.status = line.status;
  record.items = line.items;
  record.of_items = line.of_items;
  for (size_t i = 0; i < text_count; ++i) record.sizes[i] = static_cast<uint16_t>(kept_of(line, texts[i]));
  for (size_t i = 0; i < text_count; ++i) record.cut = record.cut || record.sizes[i] != (line.*texts[i]).size();
  out.append(reinterpret_cast<const char*>(&record), sizeof record);
  for (size_t i = 0; i < text_count; ++i) out.append((line.*texts[i]).substr(0, record.sizes[i]));
}

void append_json_text(std::string& out, std::string_view text) {
  const bool sound = valid_utf8(text);
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !sound)) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

Line take_record(std::string_view& in) {
  Record record;
  std::memcpy(&record, in.data(), sizeof record);
  in.remove_prefix(sizeof record);
  Line line;
  line.time_us = record.time_us;
  line.duration_us = record.duration_us;
  line.bytes_in = record.bytes_in;
  line.bytes_out = record.bytes_out;
  line.rdma_bytes = record.rdma_bytes;
  line.wait_us = record.wait_us;
  line.disk_us = record.disk_us;
  line.wire_us = record.wire_us;
  line.status = record.status;
  line.items = record.items;
  line.of_items = record.of_items;
  line.cut = record.cut;
  for (size_t i = 0; i < text_count; ++i) {
    line.*texts[i] = in.substr(0, record.sizes[i]);
    in.remove_prefix(record.sizes[i]);
  }
  return line;
}

}  // namespace verbena::observe
