#include "auth/version2.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "auth/claim.h"
#include "auth/host.h"
#include "base/date.h"
#include "base/text.h"

namespace verbena::auth {
namespace {

constexpr const char* only_one = "Only one authorization mechanism is allowed.";

// The query arguments that a signature covers: those that change the meaning. Clients do not sign arguments that only
// shape a listing; ignored arguments may be added by anyone who passes a URL on. (tests/s3/table_test.py checks that
// none that S3 uses is missing here.)
constexpr std::string_view covered_arguments =
    " accelerate acl analytics append attributes cors defaultObjectAcl delete encryption intelligent-tiering inventory "
    "legal-hold lifecycle location logging metrics notification object-lock ownershipControls partNumber policy "
    "policyStatus position publicAccessBlock renameObject replication requestPayment response-cache-control "
    "response-content-disposition response-content-encoding response-content-language response-content-type "
    "response-expires restore retention select session tagKeys tagging torrent uploadId uploads versionId versioning "
    "verbena-bound verbena-touch versions website ";

bool is_covered(const std::string& name) {
  return name.find(' ') == std::string::npos && covered_arguments.find(" " + name + " ") != std::string_view::npos;
}

const std::string* argument(std::span<const QueryArgument> arguments, std::string_view name) {
  const auto found = std::ranges::find(arguments, name, &QueryArgument::name);
  return found == arguments.end() ? nullptr : &found->value;
}

// A presigned request may carry the value of this header in its query.
std::string header_or_argument(const RequestView& request, std::span<const QueryArgument> arguments, bool presigned,
                               std::string_view name) {
  for (const auto& header : request.headers) {
    if (equal_ignoring_case(header.name, name)) return std::string(trim(header.value));
  }
  if (!presigned) return {};
  for (const auto& one : arguments) {
    if (equal_ignoring_case(one.name, name)) return one.value;
  }
  return {};
}

Result<Version2Claim> parse_header(const RequestView& request, std::string_view authorization) {
  Version2Claim claim;
  const std::string_view text = trim(authorization.substr(4));
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size()) {
    return fail(Errc::invalid_argument, "AWS authorization header is invalid. Expected AwsAccessKeyId:signature.");
  }
  claim.access_key = text.substr(0, colon);
  claim.signature = text.substr(colon + 1);
  VB_ASSIGN(const HeaderView* amz_date, single_header(request, "x-amz-date"));
  VB_ASSIGN(const HeaderView* date, single_header(request, "date"));
  // With x-amz-date, the date's line stays empty: that header is signed among the others.
  if (amz_date == nullptr && date != nullptr) claim.date = trim(date->value);
  const HeaderView* from = amz_date != nullptr ? amz_date : date;
  const auto time = from != nullptr ? parse_signed_date(from->value) : std::nullopt;
  if (!time || *time < 0) {
    return fail(Errc::access_denied, "AWS authentication requires a valid Date or x-amz-date header.");
  }
  claim.time_s = *time;
  VB_ASSIGN(const HeaderView* token, single_header(request, "x-amz-security-token"));
  if (token != nullptr) claim.session_token = trim(token->value);
  return claim;
}

Result<Version2Claim> parse_query(const RequestView& request, std::span<const QueryArgument> arguments) {
  Version2Claim claim;
  claim.presigned = true;
  const std::string* key = argument(arguments, "AWSAccessKeyId");
  const std::string* signature = argument(arguments, "Signature");
  const std::string* expires = argument(arguments, "Expires");
  if (key == nullptr || signature == nullptr || expires == nullptr) {
    return fail(Errc::access_denied,
                "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters.");
  }
  const char* end = expires->data() + expires->size();
  const auto [stop, error] = std::from_chars(expires->data(), end, claim.time_s);
  if (error != std::errc() || stop != end || expires->empty()) {
    return fail(Errc::access_denied, "Invalid date (should be seconds since epoch).");
  }
  claim.access_key = *key;
  claim.signature = *signature;
  claim.date = *expires;
  claim.session_token = header_or_argument(request, arguments, true, "x-amz-security-token");
  return claim;
}

std::string amz_lines(const RequestView& request, std::span<const QueryArgument> arguments, bool presigned) {
  std::map<std::string, std::string> lines;
  const auto add = [&](std::string_view name, std::string_view value, bool once) {
    std::string key = lower(name);
    if (!key.starts_with("x-amz-")) return;
    const auto [at, fresh] = lines.try_emplace(std::move(key), trim(value));
    if (fresh || (once && at->second == trim(value))) return;
    at->second.append(",").append(trim(value));
  };
  for (const auto& header : request.headers) add(header.name, header.value, false);
  if (presigned) {
    // A client with a presigned URL also sends signed values as headers: the same value counts once, another one is not
    // signed.
    for (const auto& one : arguments) add(one.name, one.value, true);
  }
  std::string out;
  for (const auto& [name, value] : lines) out += name + ":" + value + "\n";
  return out;
}

std::string bucket_of_host(const RequestView& request, std::string_view domain) {
  const std::string host = host_name(header_or_argument(request, {}, false, "host"));
  return std::string(virtual_bucket(host, domain));
}

std::string resource(const RequestView& request, std::span<const QueryArgument> arguments, bool presigned,
                     std::string_view domain) {
  std::string out;
  if (const auto bucket = bucket_of_host(request, domain); !bucket.empty()) out.append("/").append(bucket);
  out += request.path;
  std::vector<const QueryArgument*> covered;
  for (const auto& one : arguments) {
    // S3 treats these like headers; in a presigned query they are signed as such.
    const bool header = lower(one.name).starts_with("x-amz-");
    if (header ? !presigned : is_covered(one.name)) covered.push_back(&one);
  }
  // Equal names keep their order (their addresses are in that order).
  std::ranges::sort(covered, [](const QueryArgument* a, const QueryArgument* b) {
    return a->name != b->name ? a->name < b->name : std::less<>()(a, b);
  });
  char separator = '?';
  for (const QueryArgument* one : covered) {
    out += separator;
    out += one->name;
    if (!one->value.empty()) out.append("=").append(one->value);
    separator = '&';
  }
  return out;
}

constexpr const char* two_readings =
    "The signature of this request is also that of another one. Sign it with version 4.";

bool is_override(std::string_view name) { return name.starts_with("response-"); }

bool is_amz_argument(const std::string& name) { return lower(name).starts_with("x-amz-"); }

// Whether the text after an '&' of the value is the name of a signed argument.
bool holds_argument(std::string_view value) {
  for (size_t at = value.find('&'); at != std::string_view::npos; at = value.find('&', at + 1)) {
    const std::string_view behind = value.substr(at + 1);
    const std::string name(behind.substr(0, behind.find_first_of("=&")));
    if (is_covered(name) || is_amz_argument(name)) return true;
  }
  return false;
}

// The value of an override is free text that ends where the next argument begins: only overrides may follow. All other
// values are names and numbers of S3's own, which have no '&'.
Result<void> check_resource(std::span<const QueryArgument> arguments, bool presigned) {
  bool overrides = false, behind_overrides = false;
  size_t covered = 0, headers = 0;
  for (const auto& one : arguments) {
    const bool header = is_amz_argument(one.name);
    if (header ? presigned : !is_covered(one.name)) continue;
    ++(header ? headers : covered);
    if (holds_argument(one.value)) return fail(Errc::access_denied, two_readings);
    overrides |= is_override(one.name);
    behind_overrides |= !is_override(one.name) && std::string_view(one.name) > "response-";
  }
  // Header-like arguments are free text, too; outside of presigned URLs no client sends any.
  const bool open = (overrides && behind_overrides) || (headers != 0 && headers + covered > 1);
  if (open) return fail(Errc::access_denied, two_readings);
  return {};
}

// Whether name and value make one line of the signed text: neither may contain a terminator.
bool is_one_line(std::string_view name, std::string_view value) {
  const auto ends_name = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == ':' || c == 0x7f; };
  return std::ranges::none_of(name, ends_name) && value.find_first_of("\r\n") == std::string_view::npos &&
         trim(value) == value;
}

}  // namespace

Result<void> check_one_reading(const RequestView& request, std::span<const QueryArgument> arguments,
                               const Version2Claim& claim) {
  VB_TRY(check_resource(arguments, claim.presigned));
  if (!claim.presigned) return {};
  // Arguments that replace headers: each once, or repeated with the same value.
  std::map<std::string, std::string_view> seen;
  for (const auto& header : request.headers) seen.emplace(lower(header.name), trim(header.value));
  for (const auto& one : arguments) {
    std::string name = lower(one.name);
    if (!is_amz_argument(name) && name != "content-md5" && name != "content-type") continue;
    const auto [at, fresh] = seen.emplace(std::move(name), one.value);
    if ((!fresh && at->second != one.value) || !is_one_line(one.name, one.value)) {
      return fail(Errc::access_denied, two_readings);
    }
  }
  return {};
}

Result<std::optional<Version2Claim>> parse_version2(const RequestView& request,
                                                    std::span<const QueryArgument> arguments) {
  VB_ASSIGN(const HeaderView* authorization, single_header(request, "authorization"));
  const bool in_header = authorization != nullptr && trim(authorization->value).starts_with("AWS ");
  const bool in_query = argument(arguments, "AWSAccessKeyId") != nullptr || argument(arguments, "Signature") != nullptr;
  if (!in_header && !in_query) return std::nullopt;
  const bool version4 = argument(arguments, "X-Amz-Signature") != nullptr;
  if (version4 || (in_query && authorization != nullptr)) return fail(Errc::invalid_argument, only_one);
  if (in_header) {
    VB_ASSIGN(Version2Claim claim, parse_header(request, trim(authorization->value)));
    return claim;
  }
  VB_ASSIGN(Version2Claim claim, parse_query(request, arguments));
  return claim;
}

bool names_bucket_alone(const RequestView& request, std::string_view domain) {
  return request.path.size() > 1 && request.path.find('/', 1) == std::string_view::npos &&
         bucket_of_host(request, domain).empty();
}

std::string version2_string_to_sign(const RequestView& request, std::span<const QueryArgument> arguments,
                                    const Version2Claim& claim, std::string_view domain) {
  std::string text(request.method);
  for (const std::string& line :
       {header_or_argument(request, arguments, claim.presigned, "content-md5"),
        header_or_argument(request, arguments, claim.presigned, "content-type"), claim.date}) {
    text += "\n" + line;
  }
  text += "\n";
  return text + amz_lines(request, arguments, claim.presigned) + resource(request, arguments, claim.presigned, domain);
}

}  // namespace verbena::auth
