#include "auth/bucket_token.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/hmac.h"

namespace verbena::auth {
namespace {

constexpr std::byte token_format{2};  // tokens encrypted by the key ring begin with 1
constexpr size_t key_id_size = 4, nonce_size = 6, expires_size = 5, code_size = 16;
constexpr size_t fixed_size = 1 + key_id_size + nonce_size + expires_size + 1 + KeyTag().size();
constexpr std::string_view purpose = "sessions of buckets";
constexpr uint8_t read_only_flag = 1, aes_flag = 2, kms_flag = 4;

void append_text(std::string& out, std::string_view text) {
  out += static_cast<char>(text.size());
  out += text;
}

bool read_text(std::string_view& in, std::string& out) {
  if (in.empty()) return false;
  const size_t size = static_cast<uint8_t>(in[0]);
  if (in.size() - 1 < size) return false;
  out = in.substr(1, size);
  in.remove_prefix(1 + size);
  return true;
}

uint8_t flags_of(const BucketSession& limits) {
  uint8_t flags = limits.read_only ? read_only_flag : 0;
  if (limits.encryption == "AES256") flags |= aes_flag;
  if (limits.encryption == "aws:kms") flags |= kms_flag;
  return flags;
}

bool read_flags(uint8_t flags, BucketSession& limits) {
  if ((flags & ~(read_only_flag | aes_flag | kms_flag)) != 0 || (flags & aes_flag && flags & kms_flag)) return false;
  limits.read_only = (flags & read_only_flag) != 0;
  if (flags & aes_flag) limits.encryption = "AES256";
  if (flags & kms_flag) limits.encryption = "aws:kms";
  return true;
}

// One key makes both kinds of signature, so the signed text begins with its purpose.
Sha256 sign(const HmacSha256& key, std::string_view what, std::string_view text) {
  std::string signed_text(what);
  signed_text += text;
  return key.sign(as_bytes(signed_text));
}

// The code goes into the token; the rest of the digest becomes the session's access key, which is not secret.
Credentials keys_of(const HmacSha256& key, const Sha256& digest, std::string_view body, std::string_view token) {
  constexpr std::string_view base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  Credentials out;
  out.access_key = "ASIA";
  for (const std::byte b : Bytes(digest).subspan(code_size)) out.access_key += base32[static_cast<size_t>(b) % 32];
  out.secret_key = to_base64(sign(key, "secret", body)).substr(0, 40);
  out.session_token = token;
  return out;
}

// Reads the body: the token without its code.
std::optional<BucketToken> read_body(std::string_view body) {
  if (body.size() < fixed_size) return std::nullopt;
  BucketToken out;
  const std::string_view expires = body.substr(1 + key_id_size + nonce_size, expires_size);
  for (const char c : expires) out.expires_s = out.expires_s << 8 | static_cast<uint8_t>(c);
  if (!read_flags(static_cast<uint8_t>(body[fixed_size - 1 - out.parent_tag.size()]), out.limits)) return std::nullopt;
  std::memcpy(out.parent_tag.data(), body.data() + fixed_size - out.parent_tag.size(), out.parent_tag.size());
  std::string_view rest = body.substr(fixed_size);
  bool whole = read_text(rest, out.parent_key) && read_text(rest, out.limits.bucket);
  if (whole && out.limits.encryption == "aws:kms") whole = read_text(rest, out.limits.kms_key_id);
  if (!whole || !rest.empty() || out.expires_s == 0 || out.limits.bucket.empty()) return std::nullopt;
  return out;
}

}  // namespace

std::optional<Credentials> make_bucket_token(const KeyRing& keys, const BucketToken& contents) {
  const BucketSession& limits = contents.limits;
  for (const std::string* text : {&contents.parent_key, &limits.bucket, &limits.kms_key_id}) {
    if (text->size() > 0xff) return std::nullopt;
  }
  const KeyRing::Derived derived = keys.derive(purpose);
  std::string body(1, static_cast<char>(token_format));
  body += as_text(Bytes(derived.id).first(key_id_size));
  std::array<std::byte, nonce_size> nonce;
  fill_random(nonce);
  body += as_text(nonce);
  for (size_t i = 0; i < expires_size; ++i) {
    body += static_cast<char>(contents.expires_s >> (8 * (expires_size - 1 - i)) & 0xff);
  }
  body += static_cast<char>(flags_of(limits));
  body += as_text(contents.parent_tag);
  append_text(body, contents.parent_key);
  append_text(body, limits.bucket);
  if (limits.encryption == "aws:kms") append_text(body, limits.kms_key_id);
  // Encoding must be reversible: contents that do not fit the format are rejected.
  if (read_body(body) != contents) return std::nullopt;
  const HmacSha256 key(derived.key.bytes());
  const Sha256 digest = sign(key, "code", body);
  const std::string token = to_base64(as_bytes(body + std::string(as_text(Bytes(digest).first(code_size)))));
  return keys_of(key, digest, body, token);
}

bool is_bucket_token(std::string_view token) {
  // The first two digits of base64 are the first byte and a half.
  return token.size() <= bucket_token_bytes_max && token.starts_with('A') && token.size() > 1 && token[1] >= 'g' &&
         token[1] <= 'v';
}

Result<MadeBucketToken> open_bucket_token(const KeyRing& keys, std::string_view token) {
  const auto wrong = fail(Errc::invalid_token, "auth: session token");
  if (token.size() > bucket_token_bytes_max) return wrong;
  const auto raw = from_base64(token);
  if (!raw || raw->size() < fixed_size + code_size || (*raw)[0] != token_format) return wrong;
  const auto secret = keys.derive_again(Bytes(*raw).subspan(1, key_id_size), purpose);
  if (!secret) return wrong;
  const HmacSha256 key(secret->bytes());
  const std::string_view body = as_text(Bytes(*raw).first(raw->size() - code_size));
  const Sha256 digest = sign(key, "code", body);
  if (!equal_constant_time(Bytes(digest).first(code_size), Bytes(*raw).last(code_size))) return wrong;
  auto contents = read_body(body);
  if (!contents) return wrong;
  return MadeBucketToken{std::move(*contents), keys_of(key, digest, body, token)};
}

}  // namespace verbena::auth
