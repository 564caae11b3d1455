#include "http/response_head.h"

#include <charconv>
#include <ctime>

namespace verbena::http {
namespace {

void append_number(std::string& out, uint64_t value) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

// "Date: Fri, 02 Jan 2026 03:04:05 GMT\r\n", formatted once a second per thread.
std::string_view date_line() {
  thread_local time_t cached = -1;
  thread_local char text[64];
  thread_local size_t size = 0;
  const time_t now = std::time(nullptr);
  if (now != cached) {
    tm parts;
    gmtime_r(&now, &parts);
    size = std::strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
    cached = now;
  }
  return {text, size};
}

bool safe(char c) { return (static_cast<unsigned char>(c) >= ' ' && c != 0x7f) || c == '\t'; }

void append_value(std::string& out, std::string_view value) {
  const size_t start = out.size();
  out += value;
  for (size_t i = start; i < out.size(); ++i) {
    if (!safe(out[i])) out[i] = ' ';
  }
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
  out += "HTTP/1.1 ";
  append_number(out, static_cast<uint64_t>(head.status));
  out += ' ';
  out += reason_phrase(head.status);
  out += "\r\nServer: Verbena\r\n";
  out += date_line();
  if (head.content_length) {
    out += "Content-Length: ";
    append_number(out, *head.content_length);
    out += "\r\n";
  }
  if (head.close) {
    out += "Connection: close\r\n";
  } else if (head.keep_alive_1_0) {
    out += "Connection: keep-alive\r\n";
  }
  if (head.headers != nullptr) {
    for (const auto& [name, value] : *head.headers) {
      out += name;
      out += ": ";
      append_value(out, value);
      out += "\r\n";
    }
  }
  out += "\r\n";
}

}  // namespace verbena::http
