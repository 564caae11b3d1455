// Digest: CRCs, OpenSSL's hashes and xxHash behind one interface; HMAC and SipHash.
//
// SHA-256 of a signature is a handful of blocks, for which EVP's contexts cost more than the hashing: the one-shot
// forms use the hash's own interface, which OpenSSL 3 calls deprecated and keeps. It has the same SHA-NI and AVX code.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "base/checksum.h"
#include "base/hmac.h"
#include "base/sha256_blocks.h"
#include "base/siphash.h"
#include "base/xxh.h"

namespace verbena {
namespace {

// Fetched once: EVP_sha256() and friends look their implementation up at every init (OpenSSL 3, crypto(7)).
const EVP_MD* fetched(Algorithm algorithm) {
  static const EVP_MD* const sha1 = EVP_MD_fetch(nullptr, "SHA1", nullptr);
  static const EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  static const EVP_MD* const md5 = EVP_MD_fetch(nullptr, "MD5", nullptr);
  static const EVP_MD* const sha512 = EVP_MD_fetch(nullptr, "SHA512", nullptr);
  switch (algorithm) {
    case Algorithm::sha1:
      return sha1;
    case Algorithm::sha256:
      return sha256;
    case Algorithm::md5:
      return md5;
    case Algorithm::sha512:
      return sha512;
    default:
      return nullptr;
  }
}

void check_digest(bool ok) {
  if (!ok) std::abort();  // OpenSSL fails here only when memory is gone or the digest is forbidden by policy
}

template <class U>
std::string big_endian(U value) {
  std::string raw(sizeof(U), '\0');
  for (size_t i = 0; i < sizeof(U); ++i) raw[i] = static_cast<char>(value >> (8 * (sizeof(U) - 1 - i)));
  return raw;
}

}  // namespace

struct Digest::Evp {
  EVP_MD_CTX* context = nullptr;
  Evp() : context(EVP_MD_CTX_new()) { check_digest(context != nullptr); }
  ~Evp() { EVP_MD_CTX_free(context); }
  Evp(const Evp&) = delete;
  Evp& operator=(const Evp&) = delete;
};

std::string_view to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::crc32:
      return "CRC32";
    case Algorithm::crc32c:
      return "CRC32C";
    case Algorithm::crc64nvme:
      return "CRC64NVME";
    case Algorithm::sha1:
      return "SHA1";
    case Algorithm::sha256:
      return "SHA256";
    case Algorithm::md5:
      return "MD5";
    case Algorithm::sha512:
      return "SHA512";
    case Algorithm::xxhash64:
      return "XXHASH64";
    case Algorithm::xxhash3:
      return "XXHASH3";
    case Algorithm::xxhash128:
      return "XXHASH128";
  }
  return "";
}

std::optional<Algorithm> parse_algorithm(std::string_view name) {
  for (const Algorithm algorithm : all_algorithms) {
    const auto known = to_string(algorithm);
    if (known.size() == name.size() && std::equal(known.begin(), known.end(), name.begin(), [](char a, char b) {
          return a == (b >= 'a' && b <= 'z' ? b - 'a' + 'A' : b);
        })) {
      return algorithm;
    }
  }
  return std::nullopt;
}

size_t digest_size(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::crc32:
    case Algorithm::crc32c:
      return 4;
    case Algorithm::crc64nvme:
    case Algorithm::xxhash64:
    case Algorithm::xxhash3:
      return 8;
    case Algorithm::sha1:
      return 20;
    case Algorithm::sha256:
      return 32;
    case Algorithm::md5:
    case Algorithm::xxhash128:
      return 16;
    case Algorithm::sha512:
      return 64;
  }
  return 0;
}

Digest::Digest(Algorithm algorithm) : algorithm_(algorithm) {
  if (const EVP_MD* md = fetched(algorithm); md != nullptr) {
    evp_ = std::make_unique<Evp>();
    check_digest(EVP_DigestInit_ex2(evp_->context, md, nullptr) == 1);
  } else if (XxHash::makes(algorithm)) {
    xxhash_ = std::make_unique<XxHash>(algorithm);
  }
}
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

void Digest::update(Bytes data) {
  switch (algorithm_) {
    case Algorithm::crc32:
      crc_ = crc32(data, static_cast<uint32_t>(crc_));
      break;
    case Algorithm::crc32c:
      crc_ = crc32c(data, static_cast<uint32_t>(crc_));
      break;
    case Algorithm::crc64nvme:
      crc_ = crc64_nvme(data, crc_);
      break;
    case Algorithm::xxhash64:
    case Algorithm::xxhash3:
    case Algorithm::xxhash128:
      xxhash_->update(data);
      break;
    default:
      check_digest(EVP_DigestUpdate(evp_->context, data.data(), data.size()) == 1);
  }
}

std::string Digest::finish() {
  if (xxhash_ != nullptr) return xxhash_->finish();
  if (evp_ == nullptr) {
    return algorithm_ == Algorithm::crc64nvme ? big_endian(crc_) : big_endian(static_cast<uint32_t>(crc_));
  }
  std::string raw(digest_size(algorithm_), '\0');
  check_digest(EVP_DigestFinal_ex(evp_->context, reinterpret_cast<unsigned char*>(raw.data()), nullptr) == 1);
  return raw;
}

std::string Digest::finish_base64() { return to_base64(as_bytes(finish())); }
std::string Digest::finish_hex() { return to_hex(as_bytes(finish())); }

namespace {

// A context for digests that begin and end in one call: making one costs more than a small digest.
EVP_MD_CTX* context_of_thread() {
  struct Owner {
    EVP_MD_CTX* const context = EVP_MD_CTX_new();
    ~Owner() { EVP_MD_CTX_free(context); }
  };
  thread_local const Owner owner;
  check_digest(owner.context != nullptr);
  return owner.context;
}

void digest_of(const EVP_MD* md, Bytes first, Bytes second, std::byte* out) {
  EVP_MD_CTX* context = context_of_thread();
  check_digest(EVP_DigestInit_ex2(context, md, nullptr) == 1);
  for (Bytes part : {first, second}) {
    if (!part.empty()) check_digest(EVP_DigestUpdate(context, part.data(), part.size()) == 1);
  }
  check_digest(EVP_DigestFinal_ex(context, reinterpret_cast<unsigned char*>(out), nullptr) == 1);
}

// RFC 2104. OpenSSL's HMAC() looks its implementation up at every call, which costs several times the hashing.
std::string hmac(Algorithm algorithm, Bytes key, Bytes data) {
  constexpr size_t block = 64;  // of SHA-1
  const EVP_MD* md = fetched(algorithm);
  const size_t size = digest_size(algorithm);
  std::array<std::byte, block> pad{};
  if (key.size() > block) {
    digest_of(md, key, {}, pad.data());
  } else {
    std::ranges::copy(key, pad.begin());
  }
  for (std::byte& b : pad) b ^= std::byte{0x36};
  std::array<std::byte, 32> inner;
  digest_of(md, pad, data, inner.data());
  for (std::byte& b : pad) b ^= std::byte{0x36 ^ 0x5c};
  std::string raw(size, '\0');
  digest_of(md, pad, Bytes(inner).first(size), reinterpret_cast<std::byte*>(raw.data()));
  return raw;
}

Sha256 finish_sha256(SHA256_CTX& context, Bytes data) {
  SHA256_Update(&context, data.data(), data.size());
  Sha256 out;
  SHA256_Final(reinterpret_cast<unsigned char*>(out.data()), &context);
  return out;
}

}  // namespace

void add_sha256_blocks(std::array<uint32_t, 8>& state, const std::byte* from, size_t blocks) {
  SHA256_CTX context;
  SHA256_Init(&context);
  std::ranges::copy(state, context.h);
  SHA256_Update(&context, from, blocks * SHA256_CBLOCK);
  std::ranges::copy(context.h, state.begin());
}

Sha256 sha256_of(Bytes data) {
  SHA256_CTX context;  // not SHA256(), which asks EVP for an implementation each time
  SHA256_Init(&context);
  return finish_sha256(context, data);
}

std::string sha256(Bytes data) { return std::string(as_text(sha256_of(data))); }

HmacSha256::HmacSha256(Bytes key) {
  std::array<std::byte, SHA256_CBLOCK> pad{};
  if (key.size() > pad.size()) {
    std::ranges::copy(sha256_of(key), pad.begin());
  } else {
    std::ranges::copy(key, pad.begin());
  }
  const auto chain_after = [&pad](Chain& chain) {
    SHA256_CTX context;
    SHA256_Init(&context);
    SHA256_Transform(&context, reinterpret_cast<const unsigned char*>(pad.data()));
    std::ranges::copy(context.h, chain.begin());
  };
  for (std::byte& b : pad) b ^= std::byte{0x36};
  chain_after(inner_);
  for (std::byte& b : pad) b ^= std::byte{0x36 ^ 0x5c};
  chain_after(outer_);
  OPENSSL_cleanse(pad.data(), pad.size());
}

Sha256 HmacSha256::sign(Bytes data) const {
  const auto after = [](const Chain& chain, Bytes text) {
    SHA256_CTX context;
    SHA256_Init(&context);
    std::ranges::copy(chain, context.h);
    context.Nl = SHA256_CBLOCK * 8;  // bits so far: the pad
    return finish_sha256(context, text);
  };
  return after(outer_, after(inner_, data));
}

std::string hmac_sha256(Bytes key, Bytes data) { return std::string(as_text(HmacSha256(key).sign(data))); }

std::string hmac_sha1(Bytes key, Bytes data) { return hmac(Algorithm::sha1, key, data); }

uint64_t siphash24(const std::byte (&key)[16], Bytes data) { return siphash<2, 4>(key, data); }

}  // namespace verbena
