#include "observe/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "s3/names.h"

namespace verbena::observe {
namespace {

constexpr size_t text_max = 1200;  // of one field: a bucket's name, a key of 1024 bytes and a version's id

constexpr std::string_view Line::* texts[] = {&Line::peer,   &Line::principal,  &Line::access_key, &Line::action,
                                              &Line::bucket, &Line::path,       &Line::key,        &Line::version,
                                              &Line::door,   &Line::error_code, &Line::request_id, &Line::source};
constexpr size_t text_count = std::size(texts);

// A line as a core queues it for the writer: this record, then its texts one after the other.
struct Record {
  int64_t time_us, duration_us, wait_us, disk_us, wire_us;
  uint64_t bytes_in, bytes_out, rdma_bytes;
  int32_t status;
  uint16_t sizes[text_count];
};

}  // namespace

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
  for (size_t i = 0; i < text_count; ++i) {
    record.sizes[i] = static_cast<uint16_t>(std::min((line.*texts[i]).size(), text_max));
  }
  out.append(reinterpret_cast<const char*>(&record), sizeof record);
  for (size_t i = 0; i < text_count; ++i) out.append((line.*texts[i]).substr(0, record.sizes[i]));
}

void append_json_text(std::string& out, std::string_view text) {
  const bool sound = s3::valid_utf8(text);
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
  for (size_t i = 0; i < text_count; ++i) {
    line.*texts[i] = in.substr(0, record.sizes[i]);
    in.remove_prefix(record.sizes[i]);
  }
  return line;
}

}  // namespace verbena::observe
