#include "s3/workers/log_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "auth/auth.h"
#include "base/date.h"
#include "base/text.h"

namespace verbena::s3 {
namespace {

constexpr size_t text_bytes_max = 4096;  // of one field: request lines can be longer than anyone reads

// Without what would end the field.
std::string bare(std::string_view text) {
  if (text.empty()) return "-";
  std::string out(text.substr(0, text_bytes_max));
  std::ranges::replace_if(out, [](unsigned char c) { return c <= 0x20 || c == 0x7f; }, '_');
  return out;
}

// In quotation marks, without what would end them or the line.
std::string in_quotes(std::string_view text) {
  if (text.empty()) return "\"-\"";
  std::string out = "\"";
  for (const char c : text.substr(0, text_bytes_max)) {
    const bool plain = c >= 0x20 && c != 0x7f && c != '"' && c != '\\';
    if (plain || (static_cast<unsigned char>(c) & 0x80) != 0) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out + "\"";
}

// 06/Feb/2019:00:00:38 +0000, from "Wed, 06 Feb 2019 00:00:38 GMT".
std::string log_time(int64_t time_s) {
  const std::string date = format_http_date(time_s);
  const auto part = [&](size_t from, size_t count) { return std::string_view(date).substr(from, count); };
  return fmt::format("{}/{}/{}:{} +0000", part(5, 2), part(8, 3), part(12, 4), part(17, 8));
}

// Resources of sub-resources that are not called what their query parameter is called.
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

// The query without the values of arguments that would let a reader of the log act as the caller.
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

std::string format_log_record(const LogRecord& r) {
  const auto number = [](const auto& value) { return value ? std::to_string(*value) : std::string("-"); };
  const std::string key = r.key.empty() ? "-" : auth::uri_encode(r.key, true);
  std::string line =
      fmt::format("{} {} [{}] {} {} {} {} {} {} {} {} ", bare(r.bucket_owner), bare(r.bucket), log_time(r.time_s),
                  bare(r.peer), bare(r.requester), bare(r.request_id), bare(r.operation), key, in_quotes(r.request),
                  r.status == 0 ? "-" : std::to_string(r.status), bare(r.error_code));
  // The turn-around time is not measured. Behind the host: TLS version, access point.
  line += fmt::format("{} {} {} - {} {} {} {} {} - {} {} - - {}\n",
                      r.bytes_sent == 0 ? "-" : std::to_string(r.bytes_sent), number(r.object_size), number(r.total_ms),
                      in_quotes(r.referer), in_quotes(r.user_agent), bare(r.version_id), bare(r.host_id),
                      bare(r.signature), bare(r.auth_type), bare(r.host), r.acl_required ? "Yes" : "-");
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
