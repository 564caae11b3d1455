// Authentication of requests. SigV4 in all its forms (AWS Signature Version 4: header, presigned query, streaming
// payloads), Signature Version 2 in headers and URLs, and the credentials behind them. Sources: AWS "Signature Version
// 4 signing process", "Signature calculations: transferring payload in multiple chunks", "... with trailing headers".
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "auth/principal.h"
#include "base/clock.h"
#include "base/result.h"

namespace verbena::auth {

struct Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  // of temporary credentials; empty for none
};

// The limits of credentials from CreateSession: one directory bucket, and reading only if so requested.
struct BucketSession {
  std::string bucket;
  bool read_only = false;
  // The default encryption of objects written by a request that names none: "AES256", "aws:kms"; empty: the bucket's.
  std::string encryption{}, kms_key_id{};
  bool operator==(const BucketSession&) const = default;
};

struct LastSigningKey;  // signing_key.h

// A key that may sign, and its principal. Immutable and shared.
struct AccessKey {
  Credentials credentials;
  PrincipalPtr principal;
  int64_t expires_s = 0;  // since the epoch; 0: never
  // For a session: its long-term key, and a tag that differs for a later key of the same name.
  std::string parent_key{}, parent_tag{};
  std::optional<BucketSession> limits{};  // of a session of a directory bucket, which is valid for nothing else
  // Of a session: a cache for the verifier on the thread whose look-up returned this key. Not used elsewhere.
  std::shared_ptr<LastSigningKey> last_signing_key{};
  bool expired(int64_t now_s) const { return expires_s != 0 && now_s >= expires_s; }
};
using AccessKeyPtr = std::shared_ptr<const AccessKey>;

// Thread-safe.
class CredentialStore {
 public:
  virtual ~CredentialStore() = default;
  // The current state of the key. invalid_access_key_id: unknown, or inactive; invalid_token: the session token is not
  // this key's; expired_token.
  virtual Result<AccessKeyPtr> find(std::string_view access_key, std::string_view session_token,
                                    int64_t now_s) const = 0;
  struct BucketCredentials {
    Credentials credentials;
    int64_t expires_s = 0;  // since the epoch
  };
  // Temporary credentials within these limits, which end with the requesting key. not_implemented: this store makes
  // none.
  virtual Result<BucketCredentials> open_bucket_session(const AccessKey& /*by*/, const BucketSession& /*limits*/,
                                                        int64_t /*now_s*/) const {
    return fail(Errc::not_implemented, "auth: sessions");
  }
  // A number that differs after every change of keys or of principals' permissions: a caller that caches an AccessKey
  // compares it, and looks the key up again when it differs.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 protected:
  // Called after a change, before it is acknowledged.
  void changed() { generation_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<uint64_t> generation_{1};
};

// The account that owns everything without another owner, and whose root user may do everything.
inline constexpr std::string_view root_account_id = "000000000000";
inline constexpr std::string_view root_canonical_id = "root";
const AccountPtr& root_account();
const PrincipalPtr& superuser();
// Whether the principal is the server's root without limits: no session of a directory bucket (`key`) and no session
// policy. Every permission that only the root has is checked by this.
bool is_unlimited_root(const Principal* principal, const AccessKey* key);

// A store of one key, the superuser's.
class RootCredentials : public CredentialStore {
 public:
  explicit RootCredentials(Credentials root);
  Result<AccessKeyPtr> find(std::string_view access_key, std::string_view session_token, int64_t now_s) const override;

 private:
  AccessKeyPtr root_;
};

struct HeaderView {
  std::string_view name;  // any case
  std::string_view value;
};

// A request as received, before any decoding.
struct RequestView {
  std::string_view method;
  std::string_view path;   // still percent-encoded, without the query
  std::string_view query;  // still percent-encoded, without '?'
  std::span<const HeaderView> headers;
};

// The protection of the payload (x-amz-content-sha256).
enum class Payload : uint8_t {
  none,                      // anonymous request without the header: nothing to check
  unsigned_payload,          // UNSIGNED-PAYLOAD
  sha256,                    // a hex digest of the whole body
  chunked_signed,            // STREAMING-AWS4-HMAC-SHA256-PAYLOAD
  chunked_signed_trailer,    // STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER
  chunked_unsigned_trailer,  // STREAMING-UNSIGNED-PAYLOAD-TRAILER
};

struct Identity {
  bool anonymous = true;
  bool express = false;        // signed for S3 Express ("s3express" in the scope)
  std::string access_key;      // of the credentials that signed
  PrincipalPtr principal;      // the owner of the credentials; null for anonymous callers
  std::string signed_headers;  // "host;x-amz-date": lower case
  AccessKeyPtr key;            // the key that signed; null for anonymous callers
  uint64_t generation = 0;     // of the credentials (CredentialStore), read before the key was looked up
  bool signs(std::string_view header) const;
};

struct Verified {
  Identity identity;
  AccessKeyPtr key;  // null for anonymous callers
  Payload payload = Payload::none;
  std::array<std::byte, 32> payload_sha256{};  // with Payload::sha256
  // With the payloads that have chunk signatures:
  std::string seed_signature;  // hex
  std::string amz_date;        // "20260102T030405Z"
  std::string scope;           // "20260102/us-east-1/s3/aws4_request"
  std::array<std::byte, 32> signing_key{};
};

// The signature fields of a browser form (AWS, "Browser-based uploads using POST"): the signed text is the base64
// policy. Version 4 has a credential, version 2 a bare access key; the empty members are fields that the form lacks.
struct FormClaim {
  std::string_view policy;
  std::string_view signature;
  std::string_view algorithm, credential, date;  // version 4
  std::string_view access_key;                   // version 2
  std::string_view session_token;
};

struct Claim;
struct QueryArgument;
struct Version2Claim;

class Verifier {
 public:
  struct Options {
    std::string region = "us-east-1";  // the region in errors; other regions are accepted in the scope
    std::string service = "s3";
    bool express = false;  // also accept signatures for "s3express"
    std::string domain;    // of virtual hosts, as in virtual_bucket()
    int64_t skew_max_s = 15 * 60;
    int64_t presign_max_s = 7 * 24 * 3600;
  };
  Verifier(const CredentialStore& credentials, const WallClock& clock, Options options);

  // Anonymous requests (no signature anywhere) succeed with identity.anonymous. Signing keys are cached per
  // access key, date and region. Compares in constant time. Thread-safe.
  Result<Verified> verify(const RequestView& request) const;
  // Verifies a call of a query API (IAM, STS), signed for those services or for S3. Their clients sign the hash of a
  // body that the request's headers do not name: `body_sha256` (hex) is that of the received bytes.
  // missing_authentication when it is not signed at all, content_sha256_mismatch for a header that names another body.
  Result<Verified> verify_call(const RequestView& request, std::string_view body_sha256) const;
  // Checks such a call before its body is read: that it names an existing key and a valid time, so that the server does
  // not wait for bodies of unauthenticated callers. Errors as verify_call().
  Result<void> check_caller(const RequestView& request) const;
  // For the answer to missing_signed_header: the names of the headers that should have been signed, joined by ", ".
  static std::string headers_not_signed(const RequestView& request);
  // The signer of a form's policy; the caller must check the policy's own expiration. invalid_argument (fields that do
  // not make a signature), invalid_access_key_id, invalid_token, signature_does_not_match.
  Result<Identity> verify_form(const FormClaim& form) const;

 private:
  Result<Verified> verify_version4(const RequestView& request, const Claim& claim,
                                   std::span<const QueryArgument> arguments) const;
  Result<Verified> verify_version2(const RequestView& request, const Version2Claim& claim,
                                   std::span<const QueryArgument> arguments) const;
  const CredentialStore& credentials_;
  const WallClock& clock_;
  Options options_;
};

// The bucket that a host names under `domain` ("photos" for photos.s3.example.org under s3.example.org) or under
// localhost; empty for none. `host` is lower case without port; `domain` may be empty.
std::string_view virtual_bucket(std::string_view host, std::string_view domain);

// Client side. Adds the headers of a signature (x-amz-date, x-amz-content-sha256, authorization, x-amz-security-token;
// for the service s3express, x-amz-s3session-token) to `headers`, which must already contain host and all other headers
// (all are signed). invalid_request, invalid_uri: no server reads such a query (parse_query()); the headers are
// unchanged. Never for a query of constant text.
Result<void> sign(const Credentials& credentials, std::string_view region, std::string_view service,
                  const WallClock& clock, std::string_view method, std::string_view path, std::string_view query,
                  std::string_view payload_hash, std::vector<std::pair<std::string, std::string>>& headers);

// A presigned query string (without '?') valid for `expires_s` seconds; payload UNSIGNED-PAYLOAD, signed header host.
// Errors as sign(): it covers all of `query`, or nothing.
Result<std::string> presign(const Credentials& credentials, std::string_view region, const WallClock& clock,
                            std::string_view method, std::string_view host, std::string_view path,
                            std::string_view query, int64_t expires_s);

// The key derivation "AWS4" + secret -> date -> region -> service -> aws4_request.
std::array<std::byte, 32> signing_key(std::string_view secret, std::string_view date, std::string_view region,
                                      std::string_view service);

// AWS's UriEncode: everything but A-Za-z0-9-._~ becomes %XX (upper case); '/' is kept when `keep_slash`.
std::string uri_encode(std::string_view text, bool keep_slash);
// nullopt for a '%' without two hexadecimal digits. '+' stays '+'.
std::optional<std::string> uri_decode(std::string_view text);

}  // namespace verbena::auth
