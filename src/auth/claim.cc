#include "auth/claim.h"

#include <algorithm>
#include <charconv>

#include "base/date.h"
#include "base/hex.h"
#include "base/text.h"

namespace verbena::auth {
namespace {

constexpr size_t signed_headers_max = 256;  // bounds the work of building the canonical headers

bool is_signature(std::string_view text) { return text.size() == 64 && is_lower_hex(text); }

bool parse_signed_headers(std::string_view text, Claim& claim) {
  if (text.ends_with(';')) text.remove_suffix(1);
  if (text.empty() || text.ends_with(';')) return false;
  std::string_view before;
  size_t count = 0;
  bool host = false;
  const bool sound = for_each_name(text, [&](std::string_view name) {
    const bool upper = std::any_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
    if (name.empty() || upper || count++ == signed_headers_max || before >= name) return false;
    host |= name == "host";
    before = name;
    return true;
  });
  claim.signed_headers = text;
  return sound && host;
}

// `amz_date` has sixteen characters, as parse_amz_date() has checked.
void set_date(Claim& claim, std::string_view amz_date) {
  std::copy_n(amz_date.begin(), claim.amz_date.size(), claim.amz_date.begin());
}

Result<void> find_date(const RequestView& request, Claim& claim) {
  VB_ASSIGN(const HeaderView* amz, single_header(request, "x-amz-date"));
  if (amz != nullptr) {
    const auto time = parse_amz_date(trim(amz->value));
    if (!time) return fail(Errc::access_denied, "x-amz-date is not of the form 20260102T030405Z.");
    claim.time_s = *time;
    set_date(claim, trim(amz->value));
    return {};
  }
  VB_ASSIGN(const HeaderView* date, single_header(request, "date"));
  const auto time = date != nullptr ? parse_signed_date(date->value) : std::nullopt;
  if (!time) return fail(Errc::access_denied, "A signed request needs a valid Date or x-amz-date header.");
  claim.time_s = *time;
  set_date(claim, format_amz_date(*time));
  return {};
}

constexpr std::string_view session_header = "x-amz-s3session-token";

// Takes the token of an S3 Express session. Such a request must have no other token.
Result<void> take_session(bool has_other, std::optional<std::string_view> token, Claim& claim) {
  if (!token) return {};
  if (has_other) return fail(Errc::invalid_token, "A request has one session token.");
  claim.session_token = *token;
  claim.bucket_session = true;
  return {};
}

// "AWS4-HMAC-SHA256 Credential=..., SignedHeaders=..., Signature=..."
Result<void> parse_fields(std::string_view text, Claim& claim) {
  constexpr auto code = Errc::authorization_header_malformed;
  bool credential = false, names = false, signature = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view field = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos) return fail(code, "The Authorization header has a field without a value.");
    const std::string_view name = field.substr(0, equals);
    const std::string_view value = field.substr(equals + 1);
    if (name == "Credential" && !credential) {
      credential = true;
      if (!parse_credential(value, claim))
        return fail(code, "The credential in the Authorization header is malformed.");
    } else if (name == "SignedHeaders" && !names) {
      names = true;
      if (!parse_signed_headers(value, claim)) {
        return fail(code, "SignedHeaders must be lower case, sorted, and include host.");
      }
    } else if (name == "Signature" && !signature) {
      signature = true;
      if (!is_signature(value)) return fail(code, "The signature is not 64 hexadecimal digits.");
      claim.signature = value;
    } else {
      return fail(code, "The Authorization header has an unknown or repeated field.");
    }
  }
  if (!credential || !names || !signature) {
    return fail(code, "The Authorization header lacks Credential, SignedHeaders or Signature.");
  }
  return {};
}

Result<Claim> parse_header_claim(const RequestView& request, std::string_view authorization,
                                 std::string_view body_sha256) {
  Claim claim;
  const size_t space = std::min(authorization.find(' '), authorization.size());
  const std::string_view mechanism = authorization.substr(0, space);
  if (mechanism != algorithm_name) return fail(Errc::invalid_argument, "The authorization mechanism is not supported.");
  VB_TRY(parse_fields(trim(authorization.substr(space)), claim));
  VB_TRY(find_date(request, claim));
  if (claim.date_text().substr(0, 8) != claim.date) {
    return fail(Errc::authorization_header_malformed, "The date in the credential scope is not the request's date.");
  }
  VB_ASSIGN(const HeaderView* hash, single_header(request, "x-amz-content-sha256"));
  if (hash == nullptr && body_sha256.empty()) {
    return fail(Errc::missing_security_header, "x-amz-content-sha256 is missing.");
  }
  claim.payload_hash = hash != nullptr ? trim(hash->value) : body_sha256;
  VB_ASSIGN(const HeaderView* token, single_header(request, "x-amz-security-token"));
  if (token != nullptr) claim.session_token = trim(token->value);
  VB_ASSIGN(const HeaderView* session, single_header(request, session_header));
  VB_TRY(
      take_session(token != nullptr, session != nullptr ? std::optional(trim(session->value)) : std::nullopt, claim));
  return claim;
}

// The only argument of that name; nullptr when absent, an error when it is repeated.
Result<const std::string*> single_argument(std::span<const QueryArgument> arguments, std::string_view name) {
  const std::string* found = nullptr;
  for (const auto& argument : arguments) {
    if (argument.name != name) continue;
    if (found != nullptr) return fail(Errc::authorization_query_error, "A query authorization argument is repeated.");
    found = &argument.value;
  }
  return found;
}

Result<Claim> parse_query_claim(const RequestView& request, std::span<const QueryArgument> arguments) {
  constexpr auto code = Errc::authorization_query_error;
  Claim claim;
  claim.presigned = true;
  VB_ASSIGN(const std::string* algorithm, single_argument(arguments, "X-Amz-Algorithm"));
  VB_ASSIGN(const std::string* credential, single_argument(arguments, "X-Amz-Credential"));
  VB_ASSIGN(const std::string* date, single_argument(arguments, "X-Amz-Date"));
  VB_ASSIGN(const std::string* expires, single_argument(arguments, "X-Amz-Expires"));
  VB_ASSIGN(const std::string* names, single_argument(arguments, "X-Amz-SignedHeaders"));
  VB_ASSIGN(const std::string* signature, single_argument(arguments, "X-Amz-Signature"));
  if (!algorithm || !credential || !date || !expires || !names || !signature) {
    return fail(code,
                "Query authorization needs X-Amz-Algorithm, Credential, Date, Expires, SignedHeaders, Signature.");
  }
  if (*algorithm != algorithm_name) return fail(code, "X-Amz-Algorithm must be AWS4-HMAC-SHA256.");
  if (!parse_credential(*credential, claim)) return fail(code, "X-Amz-Credential is malformed.");
  if (!parse_signed_headers(*names, claim)) {
    return fail(code, "X-Amz-SignedHeaders must be lower case, sorted, and include host.");
  }
  if (!is_signature(*signature)) return fail(code, "X-Amz-Signature is not 64 hexadecimal digits.");
  claim.signature = *signature;
  const auto time = parse_amz_date(*date);
  if (!time) return fail(code, "X-Amz-Date is not of the form 20260102T030405Z.");
  claim.time_s = *time;
  set_date(claim, *date);
  if (claim.date_text().substr(0, 8) != claim.date) {
    return fail(code, "The date in X-Amz-Credential is not that of X-Amz-Date.");
  }
  const char* end = expires->data() + expires->size();
  const auto [stop, error] = std::from_chars(expires->data(), end, claim.expires_s);
  if (error != std::errc() || stop != end || expires->empty()) return fail(code, "X-Amz-Expires must be a number.");
  // The query's hash, else the header's: clients that sign a hash into a URL send it either way.
  VB_ASSIGN(const std::string* hash, single_argument(arguments, "X-Amz-Content-Sha256"));
  VB_ASSIGN(const HeaderView* hash_header, single_header(request, "x-amz-content-sha256"));
  claim.payload_hash = hash != nullptr          ? std::string_view(*hash)
                       : hash_header != nullptr ? trim(hash_header->value)
                                                : unsigned_payload_name;
  VB_ASSIGN(const std::string* token, single_argument(arguments, "X-Amz-Security-Token"));
  if (token != nullptr) claim.session_token = *token;
  VB_ASSIGN(const std::string* session, single_argument(arguments, "X-Amz-S3session-Token"));
  VB_TRY(take_session(token != nullptr, session != nullptr ? std::optional<std::string_view>(*session) : std::nullopt,
                      claim));
  return claim;
}

bool has_argument(std::span<const QueryArgument> arguments, std::string_view name) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const auto& a) { return a.name == name; });
}

}  // namespace

bool parse_credential(std::string_view text, Claim& claim) {
  std::string_view parts[4];
  for (int i = 3; i >= 0; --i) {
    const size_t slash = text.rfind('/');
    if (slash == std::string_view::npos) return false;
    parts[i] = text.substr(slash + 1);
    text = text.substr(0, slash);
  }
  if (text.empty() || text.size() > 256 || parts[0].size() != 8 || parts[1].size() > 64 || parts[2].empty() ||
      parts[2].size() > 64 || parts[3] != "aws4_request") {
    return false;
  }
  if (!std::all_of(parts[0].begin(), parts[0].end(), [](char c) { return c >= '0' && c <= '9'; })) return false;
  claim.access_key = text;
  claim.date = parts[0];
  claim.region = parts[1];
  claim.service = parts[2];
  return true;
}

std::optional<int64_t> parse_signed_date(std::string_view value) {
  value = trim(value);
  const auto compact = parse_amz_date(value);
  return compact ? compact : parse_http_date(value);
}

Result<const HeaderView*> single_header(const RequestView& request, std::string_view name) {
  const HeaderView* found = nullptr;
  for (const auto& header : request.headers) {
    if (!equal_ignoring_case(header.name, name)) continue;
    if (found != nullptr) return fail(Errc::invalid_request, "A header that authorization depends on is repeated.");
    found = &header;
  }
  return found;
}

Result<std::optional<Claim>> parse_claim(const RequestView& request, std::span<const QueryArgument> arguments,
                                         std::string_view body_sha256) {
  VB_ASSIGN(const HeaderView* authorization, single_header(request, "authorization"));
  const bool query = has_argument(arguments, "X-Amz-Algorithm") || has_argument(arguments, "X-Amz-Signature") ||
                     has_argument(arguments, "X-Amz-Credential");
  if (authorization == nullptr && !query) return std::nullopt;
  if (authorization != nullptr && query)
    return fail(Errc::invalid_argument, "Only one authorization mechanism is allowed.");
  if (query) {
    VB_ASSIGN(Claim claim, parse_query_claim(request, arguments));
    return claim;
  }
  VB_ASSIGN(Claim claim, parse_header_claim(request, trim(authorization->value), body_sha256));
  return claim;
}

}  // namespace verbena::auth
