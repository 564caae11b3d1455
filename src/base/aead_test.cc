#include "base/aead.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace verbena {
namespace {

// McGrew and Viega, "The Galois/Counter Mode of Operation", test case 16.
TEST(AeadTest, MatchesThePublishedVectorOfAes256Gcm) {
  const auto key = *from_hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
  const auto iv = *from_hex("cafebabefacedbaddecaf888");
  const auto context = *from_hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  const auto plain = *from_hex(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5"
      "aa0de657ba637b39");
  AeadNonce nonce;
  std::ranges::copy(iv, nonce.begin());
  Aead aead(key);
  std::vector<std::byte> sealed(plain.size());
  AeadTag tag;
  aead.seal(nonce, context, plain, sealed.data(), tag);
  EXPECT_EQ(to_hex(sealed),
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f6"
            "1e6393ba7a0abcc9f662");
  EXPECT_EQ(to_hex(tag), "76fc6ece0f4e1768cddf8853bb2d551b");
  ASSERT_TRUE(aead.open(nonce, context, sealed, tag, sealed.data()));  // in place
  EXPECT_EQ(sealed, plain);
}

TEST(AeadTest, WhatDoesNotOpenLeavesNothing) {
  Aead aead(Bytes(std::vector<std::byte>(32, std::byte{7})));
  const AeadNonce nonce{};
  std::vector<std::byte> bytes(100, std::byte{42});
  AeadTag tag;
  aead.seal(nonce, {}, bytes, bytes.data(), tag);
  bytes[50] ^= std::byte{1};
  EXPECT_FALSE(aead.open(nonce, {}, bytes, tag, bytes.data()));
  EXPECT_EQ(bytes, std::vector<std::byte>(100));
}

TEST(AeadTest, OneContextServesManyCallsInEachDirection) {
  Aead aead(Bytes(std::vector<std::byte>(32, std::byte{1})));
  for (int i = 0; i < 100; ++i) {
    AeadNonce nonce{};
    nonce[0] = static_cast<std::byte>(i);
    std::vector<std::byte> bytes(static_cast<size_t>(i) * 7, static_cast<std::byte>(i));
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
