#include "base/aead.h"

#include <gtest/gtest.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/aead_cipher.h"
#include "base/aead_library.h"
#include "base/aes_instructions.h"

namespace verbena {
namespace {

using Buffer = std::vector<std::byte>;

// Every library's AES-256-GCM that this process has.
struct Library {
  std::string name;
  std::unique_ptr<AeadCipher> (*make)(Bytes key);
};
std::unique_ptr<AeadCipher> make_openssl_gcm(Bytes key) { return make_openssl_aead(key, AeadKind::aes_256_gcm); }
std::vector<Library> libraries() {
  std::vector<Library> out{{"OpenSSL", make_openssl_gcm}};
  if (has_vaes_gcm()) out.push_back({vaes_gcm_library(), make_vaes_gcm});
  return out;
}

struct Sealed {
  Buffer bytes;
  AeadTag tag{};
  bool operator==(const Sealed&) const = default;
};

Sealed seal(AeadCipher& cipher, const AeadNonce& nonce, Bytes context, Bytes plain) {
  Sealed out{Buffer(plain.size()), {}};
  cipher.seal(nonce, context, plain, out.bytes.data(), out.tag);
  return out;
}

// In place, in pieces that end after the bytes that `ends` names.
Sealed seal_in_pieces(AeadCipher& cipher, const AeadNonce& nonce, Bytes context, Bytes plain,
                      const std::vector<size_t>& ends) {
  Sealed out{Buffer(plain.begin(), plain.end()), {}};
  cipher.begin(nonce, context);
  size_t at = 0;
  for (const size_t end : ends) {
    cipher.update(Bytes(out.bytes).subspan(at, end - at), out.bytes.data() + at);
    at = end;
  }
  cipher.update(Bytes(out.bytes).subspan(at), out.bytes.data() + at);
  cipher.end(out.tag);
  return out;
}

// Bytes and lengths, the same ones at each run.
class Any {
 public:
  Buffer bytes(size_t size) {
    Buffer out(size);
    for (std::byte& one : out) one = static_cast<std::byte>(words_());
    return out;
  }
  AeadNonce nonce() {
    AeadNonce out;
    std::ranges::copy(bytes(out.size()), out.begin());
    return out;
  }
  size_t below(size_t end) { return words_() % end; }

 private:
  std::mt19937_64 words_{41};
};

struct Vector {
  const char *key, *nonce, *context, *plain, *sealed, *tag;
};
constexpr const char* spec_key = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
constexpr const char* zero_key = "0000000000000000000000000000000000000000000000000000000000000000";
// McGrew and Viega, "The Galois/Counter Mode of Operation" (as submitted to NIST), test cases 13 to 16: those of a key
// of 256 bits and a nonce of 96.
const Vector vectors[] = {
    {zero_key, "000000000000000000000000", "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
    {zero_key, "000000000000000000000000", "", "00000000000000000000000000000000", "cea7403d4d606b6e074ec5d3baf39d18",
     "d0d1c8a799996bf0265b98b5d48ab919"},
    {spec_key, "cafebabefacedbaddecaf888", "",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5"
     "aa0de657ba637b391aafd255",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f6"
     "1e6393ba7a0abcc9f662898015ad",
     "b094dac5d93471bdec1a502270e3cc6c"},
    {spec_key, "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5"
     "aa0de657ba637b39",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f6"
     "1e6393ba7a0abcc9f662",
     "76fc6ece0f4e1768cddf8853bb2d551b"},
};

TEST(AeadTest, EveryLibraryMatchesThePublishedVectorsOfAes256Gcm) {
  for (const Library& library : libraries()) {
    for (const Vector& vector : vectors) {
      SCOPED_TRACE(library.name + " " + vector.tag);
      const Buffer plain = *from_hex(vector.plain), context = *from_hex(vector.context);
      AeadNonce nonce;
      std::ranges::copy(*from_hex(vector.nonce), nonce.begin());
      const auto cipher = library.make(*from_hex(vector.key));
      Sealed sealed = seal(*cipher, nonce, context, plain);
      EXPECT_EQ(to_hex(sealed.bytes), vector.sealed);
      EXPECT_EQ(to_hex(sealed.tag), vector.tag);
      EXPECT_EQ(seal_in_pieces(*cipher, nonce, context, plain, {plain.size() / 3}), sealed);
      ASSERT_TRUE(cipher->open(nonce, context, sealed.bytes, sealed.tag, sealed.bytes.data()));  // in place
      EXPECT_EQ(sealed.bytes, plain);
    }
  }
}

// What one library seals the other one opens, whole and in pieces, in place, and wherever memory begins.
void expect_the_same(Any& any, AeadCipher& openssl, AeadCipher& vaes, size_t size, size_t context_size) {
  SCOPED_TRACE(std::to_string(size) + " bytes, context of " + std::to_string(context_size));
  const AeadNonce nonce = any.nonce();
  const size_t shift = any.below(64);
  const Buffer memory = any.bytes(size + shift), context = any.bytes(context_size);
  const Bytes plain = Bytes(memory).subspan(shift);
  std::vector<size_t> ends;
  for (size_t i = any.below(4); i != 0; --i) ends.push_back(any.below(size + 1));
  std::ranges::sort(ends);

  const Sealed sealed = seal(openssl, nonce, context, plain);
  ASSERT_EQ(seal(vaes, nonce, context, plain), sealed);
  ASSERT_EQ(seal_in_pieces(vaes, nonce, context, plain, ends), sealed);
  ASSERT_EQ(seal_in_pieces(openssl, nonce, context, plain, ends), sealed);

  // Bytes beside `out` stay.
  constexpr size_t margin = 64;
  Buffer opened(size + 2 * margin, std::byte{0x5a});
  ASSERT_TRUE(vaes.open(nonce, context, sealed.bytes, sealed.tag, opened.data() + margin));
  ASSERT_TRUE(std::ranges::equal(Bytes(opened).subspan(margin, size), plain));
  ASSERT_EQ(std::ranges::count(Bytes(opened).first(margin), std::byte{0x5a}), margin);
  ASSERT_EQ(std::ranges::count(Bytes(opened).last(margin), std::byte{0x5a}), margin);

  AeadTag wrong = sealed.tag;
  wrong[any.below(wrong.size())] ^= static_cast<std::byte>(1 << any.below(8));
  ASSERT_FALSE(vaes.open(nonce, context, sealed.bytes, wrong, opened.data() + margin));
  ASSERT_TRUE(
      std::ranges::all_of(Bytes(opened).subspan(margin, size), [](std::byte one) { return one == std::byte(); }));
  ASSERT_EQ(std::ranges::count(Bytes(opened).last(margin), std::byte{0x5a}), margin);
  if (size != 0) {
    Buffer changed = sealed.bytes;
    changed[any.below(size)] ^= std::byte{0x80};
    ASSERT_FALSE(vaes.open(nonce, context, changed, sealed.tag, changed.data()));
    ASSERT_EQ(changed, Buffer(size));
  }
  if (context_size != 0) {
    Buffer other = context;
    other[any.below(context_size)] ^= std::byte{1};
    ASSERT_FALSE(vaes.open(nonce, other, sealed.bytes, sealed.tag, opened.data() + margin));
  }
}

TEST(AeadTest, TheLibrariesGiveTheSameBytes) {
  if (!has_vaes_gcm()) GTEST_SKIP() << "OpenSSL alone here: no VAES, or no ipsec-mb in this build";
  Any any;
  for (size_t size = 0; size <= 300; ++size) {
    const Buffer key = any.bytes(aead_key_size);
    const auto openssl = make_openssl_gcm(key), vaes = make_vaes_gcm(key);
    for (const size_t context : {size_t{0}, size_t{12}, size_t{40}, any.below(300)})
      ASSERT_NO_FATAL_FAILURE(expect_the_same(any, *openssl, *vaes, size, context));
  }
  const Buffer key = any.bytes(aead_key_size);
  const auto openssl = make_openssl_gcm(key), vaes = make_vaes_gcm(key);
  for (unsigned i = 0; i < 100; ++i)
    ASSERT_NO_FATAL_FAILURE(expect_the_same(any, *openssl, *vaes, any.below(20000), any.below(100)));
  for (const size_t size : {size_t{65536}, size_t{65537}, size_t{1} << 20, (size_t{1} << 20) + 65535})
    ASSERT_NO_FATAL_FAILURE(expect_the_same(any, *openssl, *vaes, size, 40));
}

// The counter of blocks is 32 bits, of which the libraries add 16 at a time to the lowest byte.
TEST(AeadTest, TheLibrariesGiveTheSameBytesInManyUnevenPieces) {
  if (!has_vaes_gcm()) GTEST_SKIP() << "OpenSSL alone here: no VAES, or no ipsec-mb in this build";
  Any any;
  const Buffer key = any.bytes(aead_key_size);
  const auto openssl = make_openssl_gcm(key), vaes = make_vaes_gcm(key);
  for (unsigned round = 0; round < 20; ++round) {
    const Buffer plain = any.bytes(5000);
    std::vector<size_t> ends;
    for (size_t at = any.below(100); at < plain.size(); at += any.below(100)) ends.push_back(at);
    const AeadNonce nonce = any.nonce();
    ASSERT_EQ(seal_in_pieces(*vaes, nonce, key, plain, ends), seal(*openssl, nonce, key, plain));
  }
}

TEST(AeadTest, PiecesAreNotDisturbedByWhatIsOpenedBetweenThem) {
  for (const Library& library : libraries()) {
    Any any;
    const auto cipher = library.make(any.bytes(aead_key_size));
    const AeadNonce nonce = any.nonce();
    const Buffer plain = any.bytes(1000), other = any.bytes(100);
    const Sealed sealed = seal(*cipher, nonce, {}, plain), before = seal(*cipher, any.nonce(), {}, other);
    Sealed pieces{Buffer(plain.size()), {}};
    Buffer opened(other.size());
    cipher->begin(nonce, {});
    cipher->update(Bytes(plain).first(333), pieces.bytes.data());
    EXPECT_FALSE(cipher->open(nonce, {}, before.bytes, before.tag, opened.data())) << library.name;
    cipher->update(Bytes(plain).subspan(333), pieces.bytes.data() + 333);
    cipher->end(pieces.tag);
    EXPECT_EQ(pieces, sealed) << library.name;
  }
}

TEST(AeadTest, UsesVaesExactlyWhereItIsAndOpensslDoesNot) {
  const bool has = aes_instructions().vector_aes;
  EXPECT_EQ(has_vaes_gcm(), has && !takes_vector_aes(OpenSSL_version_num()) && !vaes_gcm_library().empty());
  EXPECT_EQ(aes_gcm_library().name.starts_with("ipsec-mb"), has_vaes_gcm());
  EXPECT_EQ(aes_gcm_library().vector_aes, has_vaes_gcm() || (has && takes_vector_aes(OpenSSL_version_num())));
}

TEST(AeadTest, WhatDoesNotOpenLeavesNothing) {
  for (const AeadKind kind : {AeadKind::aes_256_gcm, AeadKind::chacha20_poly1305}) {
    Aead aead(Bytes(Buffer(32, std::byte{7})), kind);
    const AeadNonce nonce{};
    Buffer bytes(100, std::byte{42});
    AeadTag tag;
    aead.seal(nonce, {}, bytes, bytes.data(), tag);
    bytes[50] ^= std::byte{1};
    EXPECT_FALSE(aead.open(nonce, {}, bytes, tag, bytes.data()));
    EXPECT_EQ(bytes, Buffer(100));
    EXPECT_FALSE(aead.open(nonce, {}, bytes, Bytes(tag).first(15), bytes.data()));
  }
}

TEST(AeadTest, OneContextServesManyCallsInEachDirection) {
  Aead aead(Bytes(Buffer(32, std::byte{1})));
  for (int i = 0; i < 100; ++i) {
    AeadNonce nonce{};
    nonce[0] = static_cast<std::byte>(i);
    Buffer bytes(static_cast<size_t>(i) * 7, static_cast<std::byte>(i));
    const auto plain = bytes;
    AeadTag tag;
    aead.seal(nonce, as_bytes("c"), bytes, bytes.data(), tag);
    ASSERT_TRUE(aead.open(nonce, as_bytes("c"), bytes, tag, bytes.data()));
    EXPECT_EQ(bytes, plain);
    EXPECT_FALSE(aead.open(nonce, as_bytes("d"), bytes, tag, bytes.data()));
  }
}

}  // namespace
}  // namespace verbena
