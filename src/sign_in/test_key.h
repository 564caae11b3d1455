// A provider's key pair, for tests: publishes the key and signs.
#pragma once

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "sign_in/jwk.h"

namespace verbena::sign_in {

inline std::string base64url(std::string_view bytes) {
  std::string text = to_base64(as_bytes(bytes));
  while (text.ends_with('=')) text.pop_back();
  for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return text;
}

class TestKey {
 public:
  explicit TestKey(std::string algorithm) : algorithm_(std::move(algorithm)) {
    if (algorithm_ == "EdDSA") {
      key_.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
    } else if (algorithm_.starts_with("ES")) {
      key_.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", curve()));
    } else {
      key_.reset(rsa_key());
    }
    if (!key_) std::abort();
  }

  std::string jwk(const std::string& id) const { return jwk(id, algorithm_); }
  std::string jwk(const std::string& id, const std::string& algorithm) const {
    std::string out = R"({"kid":")" + id + "\"";
    if (!algorithm.empty()) out += R"(,"alg":")" + algorithm + "\"";
    if (algorithm_ == "EdDSA") {
      std::string raw(32, '\0');
      size_t size = raw.size();
      EVP_PKEY_get_raw_public_key(key_.get(), reinterpret_cast<unsigned char*>(raw.data()), &size);
      return out + R"(,"kty":"OKP","crv":"Ed25519","x":")" + base64url(raw) + "\"}";
    }
    if (algorithm_.starts_with("ES")) {
      return out + R"(,"kty":"EC","crv":")" + curve() + R"(","x":")" + number(OSSL_PKEY_PARAM_EC_PUB_X, coordinate()) +
             R"(","y":")" + number(OSSL_PKEY_PARAM_EC_PUB_Y, coordinate()) + "\"}";
    }
    return out + R"(,"kty":"RSA","n":")" + number(OSSL_PKEY_PARAM_RSA_N, 256) + R"(","e":")" +
           number(OSSL_PKEY_PARAM_RSA_E, 3) + "\"}";
  }
  std::string set(const std::string& id) const { return R"({"keys":[)" + jwk(id) + "]}"; }
  std::string set(const std::string& id, const std::string& algorithm) const {
    return R"({"keys":[)" + jwk(id, algorithm) + "]}";
  }

  std::string sign(const std::string& header, const std::string& claims) const {
    return sign_as(algorithm_, header, claims);
  }
  // Signs with this algorithm, whatever the header names.
  std::string sign_as(const std::string& algorithm, const std::string& header, const std::string& claims) const {
    const std::string text = base64url(header) + "." + base64url(claims);
    EVP_MD_CTX* const context = EVP_MD_CTX_new();
    EVP_PKEY_CTX* of_key = nullptr;
    const EVP_MD* digest = algorithm == "EdDSA"         ? nullptr
                           : algorithm.ends_with("256") ? EVP_sha256()
                           : algorithm.ends_with("384") ? EVP_sha384()
                                                        : EVP_sha512();
    if (EVP_DigestSignInit(context, &of_key, digest, nullptr, key_.get()) != 1) std::abort();
    if (algorithm.starts_with("PS")) {
      EVP_PKEY_CTX_set_rsa_padding(of_key, RSA_PKCS1_PSS_PADDING);
      EVP_PKEY_CTX_set_rsa_pss_saltlen(of_key, RSA_PSS_SALTLEN_DIGEST);
    }
    std::string signature(1024, '\0');
    size_t size = signature.size();
    const auto* const data = reinterpret_cast<const unsigned char*>(text.data());
    if (EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &size, data, text.size()) != 1) {
      std::abort();
    }
    EVP_MD_CTX_free(context);
    signature.resize(size);
    return text + "." + base64url(algorithm.starts_with("ES") ? raw_signature(signature) : signature);
  }

 private:
  // One of two, alternating: making one takes long.
  static EVP_PKEY* rsa_key() {
    static EVP_PKEY* const keys[] = {EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", static_cast<size_t>(2048)),
                                     EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", static_cast<size_t>(2048))};
    static size_t made = 0;
    EVP_PKEY* const key = keys[made++ % 2];
    EVP_PKEY_up_ref(key);
    return key;
  }
  const char* curve() const { return algorithm_ == "ES256" ? "P-256" : algorithm_ == "ES384" ? "P-384" : "P-521"; }
  size_t coordinate() const { return algorithm_ == "ES256" ? 32 : algorithm_ == "ES384" ? 48 : 66; }
  std::string number(const char* name, size_t bytes) const {
    BIGNUM* value = nullptr;
    if (EVP_PKEY_get_bn_param(key_.get(), name, &value) != 1) std::abort();
    std::string out = padded(value, bytes);
    BN_free(value);
    return base64url(out);
  }
  static std::string padded(const BIGNUM* value, size_t bytes) {
    std::string out(bytes, '\0');
    BN_bn2binpad(value, reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(bytes));
    return out;
  }
  std::string raw_signature(const std::string& der) const {
    const auto* at = reinterpret_cast<const unsigned char*>(der.data());
    ECDSA_SIG* const signature = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size()));
    std::string out =
        padded(ECDSA_SIG_get0_r(signature), coordinate()) + padded(ECDSA_SIG_get0_s(signature), coordinate());
    ECDSA_SIG_free(signature);
    return out;
  }

  const std::string algorithm_;
  std::unique_ptr<EVP_PKEY, FreeKey> key_;
};

}  // namespace verbena::sign_in
