#include <algorithm>

#include "auth/auth.h"
#include "auth/canonical_request.h"
#include "base/date.h"
#include "base/text.h"

namespace verbena::auth {
namespace {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

void set_header(HeaderList& headers, std::string_view name, std::string_view value) {
  std::erase_if(headers, [&](const auto& header) { return equal_ignoring_case(header.first, name); });
  headers.emplace_back(name, value);
}

std::vector<std::string> sorted_names(const HeaderList& headers) {
  std::vector<std::string> names;
  names.reserve(headers.size());
  for (const auto& header : headers) names.push_back(lower(header.first));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

Result<void> sign(const Credentials& credentials, std::string_view region, std::string_view service,
                  const WallClock& clock, std::string_view method, std::string_view path, std::string_view query,
                  std::string_view payload_hash, HeaderList& headers) {
  VB_ASSIGN(const auto arguments, parse_query(query));
  const std::string amz_date = format_amz_date(clock.now_s());
  const std::string_view date = std::string_view(amz_date).substr(0, 8);
  set_header(headers, "x-amz-date", amz_date);
  set_header(headers, "x-amz-content-sha256", payload_hash);
  if (!credentials.session_token.empty()) {
    // A token with a signature for S3 Express belongs to a session of a bucket.
    const std::string_view name = service == "s3express" ? "x-amz-s3session-token" : "x-amz-security-token";
    set_header(headers, name, credentials.session_token);
  }
  std::erase_if(headers, [](const auto& header) { return equal_ignoring_case(header.first, "authorization"); });

  const auto names = sorted_names(headers);
  std::vector<HeaderView> views;
  views.reserve(headers.size());
  for (const auto& header : headers) views.push_back({header.first, header.second});
  std::string lines;
  for (const auto& name : names) append_canonical_header(lines, name, views);
  std::string joined_names;
  for (const auto& name : names) joined_names.append(joined_names.empty() ? "" : ";").append(name);

  const auto encoded_path = canonical_path(path);
  const std::string encoded_query = canonical_query(arguments);
  const CanonicalRequest request{
      method, encoded_path ? std::string_view(*encoded_path) : path, encoded_query, lines, joined_names, payload_hash};
  const std::string scope = scope_of(date, region, service);
  const HmacSha256 key(signing_key(credentials.secret_key, date, region, service));

  std::string value(algorithm_name);
  value += " Credential=" + credentials.access_key + "/" + scope;
  value += ", SignedHeaders=" + joined_names;
  value += ", Signature=";
  value += text_of(signature_of(key, request, amz_date, scope));
  headers.emplace_back("authorization", std::move(value));
  return {};
}

}  // namespace verbena::auth
