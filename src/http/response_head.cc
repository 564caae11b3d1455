#include "http/response_head.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>

#include "base/date.h"

namespace verbena::http {
namespace {

// "Date: Fri, 02 Jan 2026 03:04:05 GMT\r\n", formatted once a second per thread.
std::string_view date_line() {
  thread_local time_t cached = -1;
  thread_local std::string line;
  const time_t now = std::time(nullptr);
  if (now != cached) {
    line = "Date: " + format_http_date(now) + "\r\n";
    cached = now;
  }
  return line;
}

bool safe(char c) { return (static_cast<unsigned char>(c) >= ' ' && c != 0x7f) || c == '\t'; }

// True if one of eight bytes is a control character (below 0x20, or 0x7f), by the usual method: a borrow reaches the
// top bit of smaller bytes. May be wrong about bytes beside a true hit, never when there is none.
bool any_control(uint64_t bytes) {
  constexpr uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
  const uint64_t deletes = bytes ^ (ones * 0x7f);
  return (((bytes - ones * 0x20) & ~bytes) | ((deletes - ones) & ~deletes)) & tops;
}

char* write_text(char* to, std::string_view text) {
  std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

char* write_number(char* to, uint64_t value) { return std::to_chars(to, to + 20, value).ptr; }

char* write_value(char* to, std::string_view value) {
  bool plain = true;
  size_t i = 0;
  for (; i + 8 <= value.size(); i += 8) {
    uint64_t bytes;
    std::memcpy(&bytes, value.data() + i, 8);
    plain = plain && !any_control(bytes);
  }
  if (i != value.size() && i != 0) {  // the last eight, which may overlap
    uint64_t bytes;
    std::memcpy(&bytes, value.data() + value.size() - 8, 8);
    plain = plain && !any_control(bytes);
    i = value.size();
  }
  for (; i < value.size(); ++i) plain = plain && safe(value[i]);
  char* const end = write_text(to, value);
  if (!plain) std::replace_if(to, end, [](char c) { return !safe(c); }, ' ');
  return end;
}

}  // namespace

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Status";
  }
}

void append_response_head(std::string& out, const ResponseHead& head) {
  const std::string_view date = date_line(), reason = reason_phrase(head.status);
  constexpr size_t fixed_max = 160;  // everything except the views below
  size_t size_max = fixed_max + date.size() + reason.size();
  if (head.headers != nullptr) {
    for (const auto& [name, value] : *head.headers) size_max += name.size() + value.size() + 4;
  }
  const size_t before = out.size();
  const auto write = [&](char* const start, size_t) {
    char* to = write_text(start + before, "HTTP/1.1 ");
    to = write_number(to, static_cast<uint64_t>(head.status));
    *to++ = ' ';
    to = write_text(to, reason);
    to = write_text(to, "\r\nServer: Verbena\r\n");
    to = write_text(to, date);
    if (head.content_length) {
      to = write_text(to, "Content-Length: ");
      to = write_number(to, *head.content_length);
      to = write_text(to, "\r\n");
    }
    if (head.close) {
      to = write_text(to, "Connection: close\r\n");
    } else if (head.keep_alive_1_0) {
      to = write_text(to, "Connection: keep-alive\r\n");
    }
    if (head.headers != nullptr) {
      for (const auto& [name, value] : *head.headers) {
        to = write_text(to, name);
        to = write_text(to, ": ");
        to = write_value(to, value);
        to = write_text(to, "\r\n");
      }
    }
    to = write_text(to, "\r\n");
    return static_cast<size_t>(to - start);
  };
  out.resize_and_overwrite(before + size_max, write);
}

}  // namespace verbena::http
