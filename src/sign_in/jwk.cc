#include "sign_in/jwk.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "sign_in/strict_json.h"

namespace verbena::sign_in {
namespace {

using Json = nlohmann::json;
using KeyKind = VerificationKey::Kind;

constexpr int set_depth_max = 8;
constexpr size_t modulus_bytes_min = 2048 / 8, modulus_bytes_max = 8192 / 8, exponent_bytes_max = 4;
// Tokens without a key id are tried with each suitable key, up to this many.
constexpr size_t tries_max = 8;

template <class T, void (*free)(T*)>
struct FreeBy {
  void operator()(T* value) const { free(value); }
};
using Number = std::unique_ptr<BIGNUM, FreeBy<BIGNUM, BN_free>>;
using Builder = std::unique_ptr<OSSL_PARAM_BLD, FreeBy<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free>>;
using Parameters = std::unique_ptr<OSSL_PARAM, FreeBy<OSSL_PARAM, OSSL_PARAM_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, FreeBy<EVP_PKEY_CTX, EVP_PKEY_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, FreeBy<EVP_MD_CTX, EVP_MD_CTX_free>>;
using EcSignature = std::unique_ptr<ECDSA_SIG, FreeBy<ECDSA_SIG, ECDSA_SIG_free>>;

const unsigned char* data_of(Bytes bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

// Without leading zeros.
std::vector<std::byte> number_of(const Json& key, const char* name) {
  auto bytes = from_base64url(text_of(key, name)).value_or(std::vector<std::byte>());
  const auto first = std::ranges::find_if(bytes, [](std::byte b) { return b != std::byte(0); });
  bytes.erase(bytes.begin(), first);
  return bytes;
}

EVP_PKEY* build(const char* type, Parameters parameters) {
  const KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  const bool made = context && parameters && EVP_PKEY_fromdata_init(context.get()) == 1 &&
                    EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) == 1;
  return made ? key : nullptr;
}

EVP_PKEY* rsa_key(const Json& json) {
  const auto modulus = number_of(json, "n"), exponent = number_of(json, "e");
  // With an exponent of 1 any text is its own signature.
  const bool sound = modulus.size() >= modulus_bytes_min && modulus.size() <= modulus_bytes_max && !exponent.empty() &&
                     exponent.size() <= exponent_bytes_max && (exponent.back() & std::byte(1)) == std::byte(1) &&
                     (exponent.size() > 1 || exponent.back() > std::byte(1));
  if (!sound) return nullptr;
  const Number n(BN_bin2bn(data_of(modulus), static_cast<int>(modulus.size()), nullptr));
  const Number e(BN_bin2bn(data_of(exponent), static_cast<int>(exponent.size()), nullptr));
  const Builder builder(OSSL_PARAM_BLD_new());
  if (!n || !e || !builder || OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1) {
    return nullptr;
  }
  return build("RSA", Parameters(OSSL_PARAM_BLD_to_param(builder.get())));
}

struct Curve {
  std::string_view name;  // in key sets
  KeyKind kind;
  const char* group;  // to OpenSSL
  size_t bytes;       // of a coordinate
};
constexpr std::array curves = {Curve{"P-256", KeyKind::p256, "P-256", 32}, Curve{"P-384", KeyKind::p384, "P-384", 48},
                               Curve{"P-521", KeyKind::p521, "P-521", 66}};

size_t coordinate_bytes(KeyKind kind) {
  const auto found = std::ranges::find(curves, kind, &Curve::kind);
  return found == curves.end() ? 0 : found->bytes;
}

EVP_PKEY* curve_key(const Json& json, const Curve& curve) {
  const auto x = from_base64url(text_of(json, "x")), y = from_base64url(text_of(json, "y"));
  if (!x || !y || x->size() != curve.bytes || y->size() != curve.bytes) return nullptr;
  constexpr std::byte uncompressed{4};
  std::vector<std::byte> point = {uncompressed};
  point.insert(point.end(), x->begin(), x->end());
  point.insert(point.end(), y->begin(), y->end());
  const Builder builder(OSSL_PARAM_BLD_new());
  if (!builder || OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, curve.group, 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()) != 1) {
    return nullptr;
  }
  std::unique_ptr<EVP_PKEY, FreeKey> key(build("EC", Parameters(OSSL_PARAM_BLD_to_param(builder.get()))));
  if (!key) return nullptr;
  const KeyContext check(EVP_PKEY_CTX_new_from_pkey(nullptr, key.get(), nullptr));
  return check && EVP_PKEY_public_check_quick(check.get()) == 1 ? key.release() : nullptr;
}

EVP_PKEY* edwards_key(const Json& json) {
  constexpr size_t ed25519_bytes = 32;
  const auto x = from_base64url(text_of(json, "x"));
  if (!x || x->size() != ed25519_bytes) return nullptr;
  return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, data_of(*x), x->size());
}

bool is_for_signatures(const Json& json) {
  if (json.contains("use") && json["use"] != "sig") return false;
  const auto operations = json.find("key_ops");
  if (operations == json.end()) return true;
  return operations->is_array() && std::ranges::find(*operations, Json("verify")) != operations->end();
}

void add_key(const Json& json, KeySet& out) {
  if (!json.is_object() || !is_for_signatures(json)) return;
  std::optional<Algorithm> only;
  if (json.contains("alg")) {
    only = parse_algorithm(text_of(json, "alg"));
    if (!only) return;
  }
  const std::string type = text_of(json, "kty"), curve_name = text_of(json, "crv");
  const auto curve = std::ranges::find(curves, curve_name, &Curve::name);
  KeyKind kind = KeyKind::rsa;
  EVP_PKEY* key = nullptr;
  if (type == "RSA") {
    key = rsa_key(json);
  } else if (type == "EC" && curve != curves.end()) {
    kind = curve->kind;
    key = curve_key(json, *curve);
  } else if (type == "OKP" && curve_name == "Ed25519") {
    kind = KeyKind::ed25519;
    key = edwards_key(json);
  }
  if (key != nullptr) out.keys.emplace_back(text_of(json, "kid"), kind, only, key);
}

const EVP_MD* digest_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::rs256:
    case Algorithm::ps256:
    case Algorithm::es256:
      return EVP_sha256();
    case Algorithm::rs384:
    case Algorithm::ps384:
    case Algorithm::es384:
      return EVP_sha384();
    case Algorithm::rs512:
    case Algorithm::ps512:
    case Algorithm::es512:
      return EVP_sha512();
    case Algorithm::eddsa:
      break;
  }
  return nullptr;
}

bool is_pss(Algorithm a) { return a == Algorithm::ps256 || a == Algorithm::ps384 || a == Algorithm::ps512; }

// An elliptic-curve signature's two concatenated numbers in OpenSSL's form. Empty: malformed.
std::vector<unsigned char> der_signature(Bytes raw, size_t coordinate) {
  if (raw.size() != 2 * coordinate) return {};
  Number r(BN_bin2bn(data_of(raw), static_cast<int>(coordinate), nullptr));
  Number s(BN_bin2bn(data_of(raw.subspan(coordinate)), static_cast<int>(coordinate), nullptr));
  const EcSignature signature(ECDSA_SIG_new());
  if (!r || !s || !signature || ECDSA_SIG_set0(signature.get(), r.get(), s.get()) != 1) return {};
  (void)r.release();
  (void)s.release();
  const int size = i2d_ECDSA_SIG(signature.get(), nullptr);
  if (size <= 0) return {};
  std::vector<unsigned char> der(static_cast<size_t>(size));
  unsigned char* to = der.data();
  i2d_ECDSA_SIG(signature.get(), &to);
  return der;
}

}  // namespace

void FreeKey::operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }

bool VerificationKey::fits(Algorithm algorithm) const {
  if (only_ && *only_ != algorithm) return false;
  switch (algorithm) {
    case Algorithm::es256:
      return kind_ == KeyKind::p256;
    case Algorithm::es384:
      return kind_ == KeyKind::p384;
    case Algorithm::es512:
      return kind_ == KeyKind::p521;
    case Algorithm::eddsa:
      return kind_ == KeyKind::ed25519;
    default:
      return kind_ == KeyKind::rsa;
  }
}

bool VerificationKey::verifies(Algorithm algorithm, std::string_view signed_part, Bytes signature) const {
  if (!fits(algorithm)) return false;
  std::vector<unsigned char> der;
  if (const size_t coordinate = coordinate_bytes(kind_); coordinate != 0) {
    der = der_signature(signature, coordinate);
    if (der.empty()) return false;
    signature = std::as_bytes(std::span(der));
  }
  const DigestContext context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* of_key = nullptr;
  if (!context || EVP_DigestVerifyInit(context.get(), &of_key, digest_of(algorithm), nullptr, key_.get()) != 1) {
    return false;
  }
  if (is_pss(algorithm) && (EVP_PKEY_CTX_set_rsa_padding(of_key, RSA_PKCS1_PSS_PADDING) != 1 ||
                            EVP_PKEY_CTX_set_rsa_pss_saltlen(of_key, RSA_PSS_SALTLEN_DIGEST) != 1)) {
    return false;
  }
  return EVP_DigestVerify(context.get(), data_of(signature), signature.size(), data_of(as_bytes(signed_part)),
                          signed_part.size()) == 1;
}

Result<KeySet> parse_key_set(std::string_view text) {
  if (text.size() > key_set_bytes_max) return fail(Errc::malformed, "key set: too large");
  const auto json = read_strict_object(text, set_depth_max);
  const auto keys = json ? json->find("keys") : Json::const_iterator();
  if (!json || keys == json->end() || !keys->is_array()) return fail(Errc::malformed, "key set: not one");
  if (keys->size() > keys_max) return fail(Errc::malformed, "key set: too many keys");
  KeySet out;
  for (const Json& key : *keys) add_key(key, out);
  return out;
}

Verdict verify(const KeySet& keys, const Jwt& token) {
  Verdict verdict = Verdict::unknown_key;
  size_t tries = 0;
  for (const VerificationKey& key : keys.keys) {
    if ((token.key_id && key.id() != *token.key_id) || !key.fits(token.algorithm)) continue;
    if (++tries > tries_max) break;
    if (key.verifies(token.algorithm, token.signed_part, token.signature)) return Verdict::good;
    verdict = Verdict::bad;
  }
  return verdict;
}

}  // namespace verbena::sign_in
