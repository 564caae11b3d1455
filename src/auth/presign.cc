#include "auth/auth.h"
#include "auth/canonical_request.h"
#include "base/date.h"

namespace verbena::auth {

Result<std::string> presign(const Credentials& credentials, std::string_view region, const WallClock& clock,
                            std::string_view method, std::string_view host, std::string_view path,
                            std::string_view query, int64_t expires_s) {
  VB_ASSIGN(auto arguments, parse_query(query));
  const std::string amz_date = format_amz_date(clock.now_s());
  const std::string_view date = std::string_view(amz_date).substr(0, 8);
  const std::string scope = scope_of(date, region, "s3");

  arguments.push_back({"X-Amz-Algorithm", std::string(algorithm_name)});
  arguments.push_back({"X-Amz-Credential", credentials.access_key + "/" + scope});
  arguments.push_back({"X-Amz-Date", amz_date});
  arguments.push_back({"X-Amz-Expires", std::to_string(expires_s)});
  arguments.push_back({"X-Amz-SignedHeaders", "host"});
  if (!credentials.session_token.empty()) arguments.push_back({"X-Amz-Security-Token", credentials.session_token});

  const std::string all = canonical_query(arguments);
  const HeaderView host_header{"host", host};
  std::string lines;
  append_canonical_header(lines, "host", {&host_header, 1});
  const auto encoded_path = canonical_path(path);
  const CanonicalRequest request{
      method, encoded_path ? std::string_view(*encoded_path) : path, all, lines, "host", unsigned_payload_name};
  const HmacSha256 key(signing_key(credentials.secret_key, date, region, "s3"));
  return all + "&X-Amz-Signature=" + std::string(text_of(signature_of(key, request, amz_date, scope)));
}

}  // namespace verbena::auth
