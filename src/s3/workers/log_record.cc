#include "s3/workers/log_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "auth/auth.h"
#include "base/date.h"
#include "base/hex.h"
#include "base/text.h"

namespace verbena::s3 {
namespace {

// The maximal length of one field, so that clients cannot fill the log.
constexpr size_t line_bytes_max = 4096, name_bytes_max = 1024, origin_bytes_max = 512;

// Text without characters that would end the field.
void append_bare(std::string& out, std::string_view text) {
  if (text.empty()) {
    out += "- ";
    return;
  }
  for (const char c : text.substr(0, name_bytes_max)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte <= 0x20 || byte == 0x7f ? '_' : c;
  }
  out += ' ';
}

// In quotation marks, without characters that would end them or the line.
void append_quoted(std::string& out, std::string_view text, size_t bytes_max) {
  out += '"';
  if (text.empty()) out += '-';
  const size_t end = out.size() + bytes_max;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x20 && byte != 0x7f && c != '"' && c != '\\';
    if (out.size() + (plain ? 1 : 3) > end) break;
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += upper_hex_digits[byte >> 4];
      out += upper_hex_digits[byte & 15];
    }
  }
  out += "\" ";
}

template <class T>
void append_number(std::string& out, const std::optional<T>& value) {
  out += value ? std::to_string(*value) : "-";
  out += ' ';
}

template <class T>
std::optional<T> unless_zero(T value) {
  return value == 0 ? std::nullopt : std::optional<T>(value);
}

// 06/Feb/2019:00:00:38 +0000, from "Wed, 06 Feb 2019 00:00:38 GMT".
std::string log_time(int64_t time_s) {
  const std::string date = format_http_date(time_s);
  const auto part = [&](size_t from, size_t count) { return std::string_view(date).substr(from, count); };
  return fmt::format("{}/{}/{}:{} +0000", part(5, 2), part(8, 3), part(12, 4), part(17, 8));
}

// Names of sub-resources that differ from their query parameter.
struct Resource {
  std::string_view selector;
  std::string_view of_bucket, of_object;
};
constexpr std::array resources = {
    Resource{"tagging", "TAGGING", "OBJECT_TAGGING"},
    Resource{"list-type", "BUCKET", ""},
    Resource{"versions", "BUCKETVERSIONS", ""},
    Resource{"policy", "BUCKETPOLICY", ""},
    Resource{"policyStatus", "BUCKET_POLICY_STATUS", ""},
    Resource{"logging", "LOGGING_STATUS", ""},
    Resource{"requestPayment", "REQUEST_PAYMENT", ""},
    Resource{"publicAccessBlock", "BUCKET_PUBLIC_ACCESS_BLOCK", ""},
    Resource{"ownershipControls", "OWNERSHIP_CONTROLS", ""},
    Resource{"object-lock", "OBJECT_LOCK_CONFIGURATION", ""},
    Resource{"delete", "MULTI_OBJECT_DELETE", ""},
    Resource{"attributes", "", "OBJECT_ATTRIBUTES"},
    Resource{"retention", "", "OBJECT_LOCK_RETENTION"},
    Resource{"legal-hold", "", "OBJECT_LOCK_LEGALHOLD"},
};

std::string resource_of(std::string_view method, bool object, std::string_view selector) {
  if (selector.empty()) return object ? "OBJECT" : "BUCKET";
  if (selector == "uploadId") return method == "PUT" ? "PART" : "UPLOAD";
  const auto found = std::ranges::find(resources, selector, &Resource::selector);
  if (found != resources.end()) return std::string(object ? found->of_object : found->of_bucket);
  std::string upper(selector);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (c == '-') c = '_';
  }
  return upper;
}

bool is_proof(std::string_view name) {
  const auto decoded = auth::uri_decode(name);
  if (!decoded) return true;
  const std::string bare_name = lower(*decoded);
  return bare_name == "x-amz-signature" || bare_name == "signature" || bare_name == "x-amz-security-token" ||
         bare_name == "x-amz-s3session-token" || bare_name == "x-amz-server-side-encryption-customer-key" ||
         bare_name == "x-amz-copy-source-server-side-encryption-customer-key";
}

// The query without the values of credentials.
std::string without_proofs(std::string_view query) {
  std::string out;
  char separator = '?';
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view argument = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const std::string_view name = argument.substr(0, argument.find('='));
    out += std::exchange(separator, '&');
    out += is_proof(name) ? std::string(name) + "=-" : std::string(argument);
  }
  return out;
}

}  // namespace

void append_log_record(std::string& out, const LogRecord& r) {
  append_bare(out, r.bucket_owner);
  append_bare(out, r.bucket);
  out.append("[").append(log_time(r.time_s)).append("] ");
  for (const std::string* name : {&r.peer, &r.requester, &r.request_id, &r.operation}) append_bare(out, *name);
  out += r.key.empty() ? "-" : auth::uri_encode(r.key, true);
  out += ' ';
  append_quoted(out, r.request, line_bytes_max);
  append_number(out, unless_zero(r.status));
  append_bare(out, r.error_code);
  append_number(out, unless_zero(r.bytes_sent));
  append_number(out, r.object_size);
  append_number(out, r.total_ms);
  out += "- ";  // the turn-around time is not measured
  append_quoted(out, r.referer, origin_bytes_max);
  append_quoted(out, r.user_agent, origin_bytes_max);
  append_bare(out, r.version_id);
  append_bare(out, r.host_id);
  append_bare(out, r.signature);
  out += "- ";
  append_bare(out, r.auth_type);
  append_bare(out, r.host);
  out += "- - ";  // TLS version, access point
  out += r.acl_required ? "Yes\n" : "-\n";
}

std::string format_log_record(const LogRecord& record) {
  std::string line;
  append_log_record(line, record);
  return line;
}

std::string log_operation(std::string_view method, bool object, std::string_view selector) {
  return fmt::format("REST.{}.{}", method, resource_of(method, object, selector));
}

std::string log_request_line(std::string_view method, std::string_view path, std::string_view query) {
  return fmt::format("{} {}{} HTTP/1.1", method, path, without_proofs(query));
}

std::string log_referer(std::string_view referer) {
  const size_t mark = std::min(referer.find('?'), referer.size());
  return std::string(referer.substr(0, mark)) + without_proofs(referer.substr(std::min(mark + 1, referer.size())));
}

}  // namespace verbena::s3
