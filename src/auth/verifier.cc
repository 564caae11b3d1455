#include <algorithm>

#include "auth/auth.h"
#include "auth/canonical_request.h"
#include "auth/claim.h"
#include "auth/signing_key.h"
#include "auth/version2.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/date.h"
#include "base/hex.h"
#include "base/text.h"

namespace verbena::auth {

namespace {

// Cached keys depend on secret and scope alone: the verifiers of a process share the cache.
// On the heap: a library with that much thread-local storage cannot be loaded into a running process.
SigningKeyCache& keys_of_this_thread() {
  thread_local const std::unique_ptr<SigningKeyCache> cache = std::make_unique<SigningKeyCache>();
  return *cache;
}

const SigningKey* kept_signing_key(const AccessKey& key, std::string_view scope) {
  if (key.last_signing_key == nullptr) return keys_of_this_thread().find(key.credentials, scope);
  return key.last_signing_key->scope == scope ? &key.last_signing_key->key : nullptr;
}

void keep_signing_key(const AccessKey& key, std::string_view scope, const SigningKey& made) {
  if (key.last_signing_key == nullptr) return keys_of_this_thread().put(key.credentials, scope, made);
  *key.last_signing_key = {std::string(scope), made};
}

Result<Payload> payload_kind(std::string_view text, std::array<std::byte, 32>& sha256_out) {
  if (text == unsigned_payload_name) return Payload::unsigned_payload;
  if (text == "STREAMING-AWS4-HMAC-SHA256-PAYLOAD") return Payload::chunked_signed;
  if (text == "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER") return Payload::chunked_signed_trailer;
  if (text == "STREAMING-UNSIGNED-PAYLOAD-TRAILER") return Payload::chunked_unsigned_trailer;
  if (!read_lower_hex(text, sha256_out)) {
    return fail(Errc::invalid_request, "x-amz-content-sha256 is neither a SHA-256 nor a known payload kind.");
  }
  return Payload::sha256;
}

bool contains_name(std::string_view names, std::string_view wanted) {
  return !for_each_name(names, [&](std::string_view name) { return !equal_ignoring_case(name, wanted); });
}

bool is_amz(std::string_view name) { return name.size() > 6 && equal_ignoring_case(name.substr(0, 6), "x-amz-"); }

bool is_verbena(std::string_view name) {
  return name.size() > 10 && equal_ignoring_case(name.substr(0, 10), "x-verbena-");
}

// Headers that change the meaning of a request: a request with one that is not signed is refused, otherwise anyone who
// intercepts a request, or has a presigned URL, could add one. The other headers either shape the answer (range,
// conditions of reads) or are sent unsigned by common clients (content-type, content-md5), as AWS allows. The payload
// hash and the date are always part of the signed text.
bool must_be_signed(std::string_view name) {
  if (name.size() < 3 || lower(name[0]) != 'x' || name[1] != '-') return false;
  if (is_verbena(name)) return true;
  return is_amz(name) && !equal_ignoring_case(name, "x-amz-content-sha256") && !equal_ignoring_case(name, "x-amz-date");
}

Result<void> check_all_signed(const RequestView& request, const Claim& claim) {
  for (const auto& header : request.headers) {
    if (must_be_signed(header.name) && !contains_name(claim.signed_headers, header.name)) {
      return fail(Errc::missing_signed_header, "auth: a header is not signed");
    }
  }
  return {};
}

// Likewise for version 2, whose signature covers all x-amz- headers and no other ones that change the meaning.
Result<void> check_all_signed(const RequestView& request) {
  const auto unsigned_name = [](const HeaderView& header) { return is_verbena(header.name); };
  if (std::ranges::none_of(request.headers, unsigned_name)) return {};
  return fail(Errc::missing_signed_header, "auth: version 2 covers no x-verbena- header");
}

Result<void> check_time(const Claim& claim, int64_t now_s, const Verifier::Options& options) {
  if (!claim.presigned) {
    const int64_t skew = now_s > claim.time_s ? now_s - claim.time_s : claim.time_s - now_s;
    if (skew > options.skew_max_s) return fail(Errc::request_time_too_skewed, "auth: clock skew");
    return {};
  }
  if (claim.expires_s < 0 || claim.expires_s > options.presign_max_s) {
    return fail(Errc::authorization_query_error, "X-Amz-Expires must be between 0 and 604800 seconds.");
  }
  if (claim.time_s > now_s + options.skew_max_s) return fail(Errc::access_denied, "The request is not valid yet.");
  if (now_s > claim.time_s + claim.expires_s || claim.expires_s == 0) {
    return fail(Errc::access_denied, "Request has expired.");
  }
  return {};
}

constexpr std::string_view express_service = "s3express";

Result<void> check_scope(const Claim& claim, const Verifier::Options& options) {
  if (claim.service == options.service || (options.express && claim.service == express_service)) return {};
  const auto code = claim.presigned ? Errc::authorization_query_error : Errc::authorization_header_malformed;
  return fail(code, "The credential scope names another service.");
}

// A session of S3 Express sends its token in a header of its own, and signs for that service; other credentials do
// neither. A token accepted for other credentials would be without the session's limits.
Result<AccessKeyPtr> find_key(const CredentialStore& credentials, std::string_view access_key, std::string_view token,
                              bool bucket_session, int64_t now_s) {
  VB_ASSIGN(AccessKeyPtr key, credentials.find(access_key, token, now_s));
  if (key->limits.has_value() != bucket_session) {
    return fail(Errc::invalid_token, "The session token is not one for this kind of request.");
  }
  return key;
}

bool signature_matches(const RequestView& request, const Claim& claim, std::span<const QueryArgument> arguments,
                       std::string_view scope, const HmacSha256& key) {
  thread_local std::string lines;  // bounded by the doors' limit of request heads
  lines.clear();
  const bool complete = for_each_name(claim.signed_headers, [&](std::string_view name) {
    return append_canonical_header(lines, name, request.headers);
  });
  if (!complete) return false;
  const std::string query = canonical_query(arguments, claim.presigned ? "X-Amz-Signature" : "");
  const auto matches = [&](std::string_view path) {
    const CanonicalRequest canonical{request.method, path, query, lines, claim.signed_headers, claim.payload_hash};
    const Signature expected = signature_of(key, canonical, claim.date_text(), scope);
    return equal_constant_time(as_bytes(text_of(expected)), as_bytes(claim.signature));
  };
  // S3 signs the path encoded once from the key's bytes. Clients that encode fewer or other characters sign the path as
  // sent. Both name the same key, so either may be signed.
  if (is_canonical_path(request.path)) return matches(request.path);
  const auto path = canonical_path(request.path);
  if (path && matches(*path)) return true;
  return path != request.path && matches(request.path);
}

// The expected signature of a version 4 form.
Result<std::string> expected_form_signature(const FormClaim& form, const Claim& scope, const Credentials& credentials) {
  if (form.algorithm != algorithm_name) {
    return fail(Errc::invalid_argument, "X-Amz-Algorithm only supports AWS4-HMAC-SHA256.");
  }
  if (!parse_amz_date(form.date) || form.date.substr(0, 8) != scope.date) {
    return fail(Errc::invalid_argument, "X-Amz-Date must be of the form 20260102T030405Z and of the credential's day.");
  }
  const HmacSha256 key(signing_key(credentials.secret_key, scope.date, scope.region, scope.service));
  return std::string(text_of(signature_of(key, form.policy)));
}

void name_signer(Identity& identity, const AccessKeyPtr& key, uint64_t generation) {
  identity.anonymous = false;
  identity.access_key = key->credentials.access_key;
  identity.principal = key->principal;
  identity.key = key;
  identity.generation = generation;
}

Result<Verified> anonymous(const RequestView& request) {
  Verified out;
  VB_ASSIGN(const HeaderView* hash, single_header(request, "x-amz-content-sha256"));
  if (hash == nullptr) return out;
  VB_ASSIGN(out.payload, payload_kind(hash->value, out.payload_sha256));
  if (out.payload == Payload::chunked_signed || out.payload == Payload::chunked_signed_trailer) {
    return fail(Errc::invalid_request, "A payload with chunk signatures needs a signed request.");
  }
  return out;
}

Result<void> check_version2_time(const Version2Claim& claim, int64_t now_s, int64_t skew_max_s) {
  if (claim.presigned) {
    if (now_s > claim.time_s) return fail(Errc::access_denied, "Request has expired.");
    return {};
  }
  const int64_t skew = now_s > claim.time_s ? now_s - claim.time_s : claim.time_s - now_s;
  if (skew > skew_max_s) return fail(Errc::request_time_too_skewed, "auth: clock skew");
  return {};
}

// Directory buckets have hosts of their zone: "base--zone--x-s3.s3express-zone". The host "s3express-control" of calls
// about them is no bucket.
std::string_view without_zone(std::string_view name) {
  constexpr std::string_view ending = "--x-s3", label = ".s3express-";
  if (name == "s3express-control") return {};
  const size_t dot = name.find('.');
  const std::string_view bucket = name.substr(0, dot);
  if (dot == std::string_view::npos || !bucket.ends_with(ending) || !name.substr(dot).starts_with(label)) return name;
  const std::string_view base_and_zone = bucket.substr(0, bucket.size() - ending.size());
  const std::string_view zone = name.substr(dot + label.size());
  return base_and_zone.ends_with(zone) ? bucket : name;
}

}  // namespace

std::string_view virtual_bucket(std::string_view host, std::string_view domain) {
  for (std::string_view under : {domain, std::string_view("localhost")}) {
    // Bucket names may hold periods.
    if (under.empty() || host.size() < under.size() + 2) continue;
    const size_t dot = host.size() - under.size() - 1;
    if (host.ends_with(under) && host[dot] == '.') return without_zone(host.substr(0, dot));
  }
  return {};
}

std::string Verifier::headers_not_signed(const RequestView& request) {
  std::string names;
  const auto arguments = parse_query(request.query);
  if (!arguments) return names;
  const auto version2 = parse_version2(request, *arguments);
  const bool is_version2 = version2 && version2->has_value();
  const auto claim = is_version2 ? Result<std::optional<Claim>>() : parse_claim(request, *arguments, empty_sha256);
  if (!is_version2 && (!claim || !*claim)) return names;
  for (const auto& header : request.headers) {
    const bool lacks = is_version2
                           ? is_verbena(header.name)
                           : must_be_signed(header.name) && !contains_name((*claim)->signed_headers, header.name);
    if (!lacks) continue;
    if (!names.empty()) names += ", ";
    names += lower(header.name);
  }
  return names;
}

bool Identity::signs(std::string_view header) const { return contains_name(signed_headers, header); }

Verifier::Verifier(const CredentialStore& credentials, const WallClock& clock, Options options)
    : credentials_(credentials), clock_(clock), options_(std::move(options)) {}

Result<Verified> Verifier::verify_version2(const RequestView& request, const Version2Claim& claim,
                                           std::span<const QueryArgument> arguments) const {
  VB_TRY(check_version2_time(claim, clock_.now_s(), options_.skew_max_s));
  VB_TRY(check_all_signed(request));
  // Version 2 does not sign the payload, so it is handled like that of an anonymous request.
  VB_ASSIGN(Verified out, anonymous(request));
  const uint64_t generation = credentials_.generation();
  VB_ASSIGN(out.key, find_key(credentials_, claim.access_key, claim.session_token, false, clock_.now_s()));
  const Credentials& credentials = out.key->credentials;
  const auto matches = [&](std::string_view path) {
    const RequestView signed_as{request.method, path, request.query, request.headers};
    const std::string text = version2_string_to_sign(signed_as, arguments, claim, options_.domain);
    const auto expected = to_base64(as_bytes(hmac_sha1(as_bytes(credentials.secret_key), as_bytes(text))));
    return equal_constant_time(as_bytes(expected), as_bytes(claim.signature));
  };
  const bool either = names_bucket_alone(request, options_.domain);
  if (!matches(request.path) && !(either && matches(std::string(request.path) + "/"))) {
    return fail(Errc::signature_does_not_match, "auth: version 2 signature");
  }
  VB_TRY(check_one_reading(request, arguments, claim));
  name_signer(out.identity, out.key, generation);
  for (const auto& header : request.headers) {
    if (!is_amz(header.name)) continue;
    if (!out.identity.signed_headers.empty()) out.identity.signed_headers += ';';
    out.identity.signed_headers += lower(header.name);
  }
  return out;
}

Result<Identity> Verifier::verify_form(const FormClaim& form) const {
  Claim scope;
  const bool version4 = !form.credential.empty();
  if (version4 && (!parse_credential(form.credential, scope) || scope.service != options_.service)) {
    return fail(Errc::invalid_argument, "X-Amz-Credential is malformed.");
  }
  const std::string_view access_key = version4 ? scope.access_key : form.access_key;
  const uint64_t generation = credentials_.generation();
  VB_ASSIGN(const AccessKeyPtr key, find_key(credentials_, access_key, form.session_token, false, clock_.now_s()));
  const Credentials& credentials = key->credentials;
  std::string expected;
  if (version4) {
    VB_ASSIGN(expected, expected_form_signature(form, scope, credentials));
  } else {
    expected = to_base64(as_bytes(hmac_sha1(as_bytes(credentials.secret_key), as_bytes(form.policy))));
  }
  if (!equal_constant_time(as_bytes(expected), as_bytes(form.signature))) {
    return fail(Errc::signature_does_not_match, "auth: form signature");
  }
  Identity identity;
  name_signer(identity, key, generation);
  return identity;
}

Result<Verified> Verifier::verify(const RequestView& request) const {
  // A signature is either in the query or in that header.
  const auto is_authorization = [](const HeaderView& header) {
    return equal_ignoring_case(header.name, "authorization");
  };
  if (request.query.empty() && std::ranges::none_of(request.headers, is_authorization)) return anonymous(request);
  VB_ASSIGN(const auto arguments, parse_query(request.query));
  VB_ASSIGN(const std::optional<Version2Claim> version2, parse_version2(request, arguments));
  if (version2) return verify_version2(request, *version2, arguments);
  VB_ASSIGN(std::optional<Claim> claim, parse_claim(request, arguments));
  if (!claim) return anonymous(request);
  VB_TRY(check_scope(*claim, options_));
  return verify_version4(request, *claim, arguments);
}

Result<Verified> Verifier::verify_call(const RequestView& request, std::string_view body_sha256) const {
  VB_ASSIGN(const auto arguments, parse_query(request.query));
  VB_ASSIGN(std::optional<Claim> claim, parse_claim(request, arguments, body_sha256));
  if (!claim) return fail(Errc::missing_authentication, "auth: a call without a signature");
  if (claim->service != "iam" && claim->service != "sts") VB_TRY(check_scope(*claim, options_));
  if (claim->bucket_session) return fail(Errc::invalid_token, "A session of S3 Express makes no such call.");
  // A presigned URL of a call signs no body.
  if (claim->presigned) return fail(Errc::authorization_query_error, "A call must be signed in its headers.");
  if (claim->payload_hash != body_sha256) {
    return fail(Errc::content_sha256_mismatch, "auth: the body of a call");
  }
  return verify_version4(request, *claim, arguments);
}

Result<void> Verifier::check_caller(const RequestView& request) const {
  VB_ASSIGN(const auto arguments, parse_query(request.query));
  // The body has not been read, so the signature is not checked here and any hash will do.
  VB_ASSIGN(const std::optional<Claim> claim, parse_claim(request, arguments, empty_sha256));
  if (!claim) return fail(Errc::missing_authentication, "auth: a call without a signature");
  VB_TRY(check_time(*claim, clock_.now_s(), options_));
  VB_TRY(find_key(credentials_, claim->access_key, claim->session_token, false, clock_.now_s()));
  return {};
}

Result<Verified> Verifier::verify_version4(const RequestView& request, const Claim& claim,
                                           std::span<const QueryArgument> arguments) const {
  VB_TRY(check_time(claim, clock_.now_s(), options_));
  VB_TRY(check_all_signed(request, claim));
  Verified out;
  VB_ASSIGN(out.payload, payload_kind(claim.payload_hash, out.payload_sha256));

  const uint64_t generation = credentials_.generation();
  const bool express = claim.service == express_service;
  if (claim.bucket_session && !express) {
    return fail(Errc::invalid_token, "A session token of S3 Express needs a signature for s3express.");
  }
  VB_ASSIGN(out.key,
            find_key(credentials_, claim.access_key, claim.session_token, claim.bucket_session, clock_.now_s()));
  const Credentials& credentials = out.key->credentials;
  thread_local std::string scope;
  scope.clear();
  append_scope(scope, claim.date, claim.region, claim.service);
  SigningKey made;
  const SigningKey* key = kept_signing_key(*out.key, scope);
  if (key == nullptr) {
    made = make_signing_key(credentials.secret_key, claim.date, claim.region, claim.service);
    key = &made;
  }
  if (!signature_matches(request, claim, arguments, scope, key->hmac)) {
    return fail(Errc::signature_does_not_match, "auth: signature");
  }
  VB_TRY(check_one_reading(arguments));
  if (key == &made) keep_signing_key(*out.key, scope, made);

  name_signer(out.identity, out.key, generation);
  out.identity.express = express;
  out.identity.signed_headers = claim.signed_headers;
  if (out.payload == Payload::chunked_signed || out.payload == Payload::chunked_signed_trailer) {
    out.seed_signature = claim.signature;
    out.amz_date = claim.date_text();
    out.scope = scope;
    out.signing_key = key->bytes;
  }
  return out;
}

}  // namespace verbena::auth
