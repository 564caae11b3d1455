#include "base/checksum.h"
#include "base/crc_tables.h"
#include "base/hmac.h"
#include "base/siphash_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace verbena {
namespace {

// Check values of the CRC catalogue for "123456789"; digests from FIPS 180 and RFC 1321.
TEST(Checksum, KnownValues) {
  const auto digits = as_bytes("123456789");
  EXPECT_EQ(crc32(digits), 0xcbf43926u);
  EXPECT_EQ(crc32c(digits), 0xe3069283u);
  EXPECT_EQ(crc64_nvme(digits), 0xae8b14860a799888u);
  Digest md5(Algorithm::md5);
  md5.update(as_bytes("abc"));
  EXPECT_EQ(md5.finish_hex(), "900150983cd24fb0d6963f7d28e17f72");
  Digest sha1(Algorithm::sha1);
  sha1.update(as_bytes("abc"));
  EXPECT_EQ(sha1.finish_hex(), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(to_hex(as_bytes(sha256(as_bytes("abc")))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Digest crc(Algorithm::crc32);
  crc.update(digits);
  EXPECT_EQ(crc.finish_base64(), "y/Q5Jg==");
}

// FIPS 180-4, and the values of xxhsum (xxHash 0.8): big-endian, as in S3, at once and in pieces.
TEST(Checksum, KnownValuesOfTheNewerAlgorithms) {
  struct Known {
    Algorithm algorithm;
    const char* of_nothing;
    const char* of_abc;
  };
  const Known all[] = {
      {Algorithm::sha512,
       "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
       "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e",
       "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
       "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"},
      {Algorithm::xxhash64, "ef46db3751d8e999", "44bc2cf5ad770999"},
      {Algorithm::xxhash3, "2d06800538d394c2", "78af5f94892f3950"},
      {Algorithm::xxhash128, "99aa06d3014798d86001c324468d497f", "06b05ab6733a618578af5f94892f3950"},
  };
  for (const Known& known : all) {
    Digest nothing(known.algorithm);
    nothing.update({});
    EXPECT_EQ(nothing.finish_hex(), known.of_nothing) << to_string(known.algorithm);
    Digest abc(known.algorithm);
    abc.update(as_bytes("a"));
    abc.update(as_bytes("bc"));
    EXPECT_EQ(abc.finish_hex(), known.of_abc) << to_string(known.algorithm);
  }
}

TEST(Checksum, AlgorithmsHaveTheirNumbersNamesAndSizes) {
  uint8_t number = 0;
  for (const Algorithm algorithm : all_algorithms) {
    EXPECT_EQ(static_cast<uint8_t>(algorithm), ++number) << "of records on disk";
    EXPECT_TRUE(is_algorithm(number));
    EXPECT_EQ(parse_algorithm(to_string(algorithm)), algorithm);
    // A large text in one piece and in many: they have inner buffers.
    std::string text(100'003, 'x');
    Digest whole(algorithm), pieces(algorithm);
    whole.update(as_bytes(text));
    for (size_t at = 0; at < text.size(); at += 997) pieces.update(as_bytes(std::string_view(text).substr(at, 997)));
    const std::string made = whole.finish();
    EXPECT_EQ(made.size(), digest_size(algorithm));
    EXPECT_EQ(made, pieces.finish()) << to_string(algorithm);
  }
  EXPECT_FALSE(is_algorithm(0));
  EXPECT_FALSE(is_algorithm(11));
  EXPECT_FALSE(parse_algorithm("XXHASH32"));
}

// RFC 4231, test case 2.
TEST(Checksum, HmacMatchesItsRfc) {
  // RFC 2202, test case 2.
  EXPECT_EQ(to_hex(as_bytes(hmac_sha1(as_bytes("Jefe"), as_bytes("what do ya want for nothing?")))),
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
  EXPECT_EQ(to_hex(as_bytes(hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want for nothing?")))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Checksum, OneHmacKeySignsManyTexts) {
  // RFC 4231, test cases 2, 6 and 7: a short key, and one that is longer than a block.
  const HmacSha256 jefe(as_bytes("Jefe"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(to_hex(jefe.sign(as_bytes("what do ya want for nothing?"))),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  }
  const HmacSha256 longer(as_bytes(std::string(131, '\xaa')));
  EXPECT_EQ(to_hex(longer.sign(as_bytes("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(to_hex(longer.sign(as_bytes("This is a test using a larger than block-size key and a larger than "
                                        "block-size data. The key needs to be hashed before being used by the HMAC "
                                        "algorithm."))),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
  EXPECT_EQ(to_hex(sha256_of({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

// Its authors' table, key 00..0f and data 00, 01, ...: lengths around words of eight bytes. 15 is the vector of the
// paper's appendix.
TEST(Checksum, SipHashMatchesItsPaper) {
  std::byte key[16];
  for (int i = 0; i < 16; ++i) key[i] = static_cast<std::byte>(i);
  const std::pair<size_t, uint64_t> known[] = {
      {0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd}, {2, 0x0d6c8009d9a94f5a},  {7, 0xab0200f58b01d137},
      {8, 0x93f5f5799a932462}, {9, 0x9e0082df0ba9e4b0}, {15, 0xa129ca6149be45e5}, {16, 0x3f2acc7f57c29bdb}};
  for (const auto& [size, sum] : known) EXPECT_EQ(siphash24(key, Bytes(key).first(size)), sum) << size;
}

// For tables; the first value is known from Rust's and Python's tables.
TEST(Checksum, SipHash13OfTheSameKeyAndData) {
  std::byte key[16];
  for (int i = 0; i < 16; ++i) key[i] = static_cast<std::byte>(i);
  const std::pair<size_t, uint64_t> known[] = {
      {0, 0xabac0158050fc4dc}, {1, 0xc9f49bf37d57ca93},  {7, 0xd3927d989bb11140}, {8, 0x369095118d299a8e},
      {9, 0x25a48eb36c063de4}, {15, 0xd320d86d2a519956}, {16, 0xcc4fdd1a7d908b66}};
  for (const auto& [size, sum] : known) EXPECT_EQ(siphash13(key, Bytes(key).first(size)), sum) << size;
}

TEST(Checksum, SipHash13OfARunIsThatOfEachText) {
  std::byte key[16];
  for (int i = 0; i < 16; ++i) key[i] = static_cast<std::byte>(17 * i);
  std::mt19937 random(5);
  for (const size_t shared : {0, 1, 7, 8, 9, 64, 65}) {
    for (size_t size = shared; size < shared + 42; ++size) {
      std::vector<std::byte> texts(size * 9), prefix(shared);
      for (auto& b : texts) b = static_cast<std::byte>(random());
      for (auto& b : prefix) b = static_cast<std::byte>(random());
      for (size_t at = 0; at < texts.size(); at += size)
        std::ranges::copy(prefix, texts.begin() + static_cast<long>(at));
      for (size_t count = 0; count <= 9; ++count) {
        std::vector<uint64_t> hashes(count);
        siphash13_run(key, texts, size, shared, hashes);
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(hashes[i], siphash13(key, Bytes(texts).subspan(i * size, size)))
              << shared << " " << size << " " << i;
        }
      }
    }
  }
}

TEST(Checksum, PiecesAndCombinationsGiveTheWhole) {
  std::mt19937 random(3);
  std::vector<std::byte> data(100'003);
  for (auto& b : data) b = static_cast<std::byte>(random());
  const Bytes whole(data);
  for (size_t cut : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{4097}, size_t{99'999}, data.size()}) {
    const auto a = whole.first(cut);
    const auto b = whole.subspan(cut);
    EXPECT_EQ(crc32(b, crc32(a)), crc32(whole));
    EXPECT_EQ(crc32c(b, crc32c(a)), crc32c(whole));
    EXPECT_EQ(crc64_nvme(b, crc64_nvme(a)), crc64_nvme(whole));
    EXPECT_EQ(crc32_combine(crc32(a), crc32(b), b.size()), crc32(whole));
    EXPECT_EQ(crc32c_combine(crc32c(a), crc32c(b), b.size()), crc32c(whole));
    EXPECT_EQ(crc64_nvme_combine(crc64_nvme(a), crc64_nvme(b), b.size()), crc64_nvme(whole));
  }
}

// Bit by bit, as the NVMe specification defines it.
uint64_t crc64_reference(Bytes data) {
  uint64_t crc = ~uint64_t{0};
  for (const std::byte b : data) {
    crc ^= static_cast<uint64_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x9a6c9329ac4bc9b5 : 0);
  }
  return ~crc;
}

TEST(Checksum, Crc64OfEveryLengthAndAlignmentIsTheDefinitions) {
  std::mt19937 random(5);
  std::vector<std::byte> data(5'000);
  for (auto& b : data) b = static_cast<std::byte>(random());
  for (size_t size = 0; size < 1'100; ++size) {
    const auto piece = Bytes(data).subspan(size % 17, size);
    ASSERT_EQ(crc64_nvme(piece), crc64_reference(piece)) << size;
  }
  EXPECT_EQ(crc64_nvme(data), crc64_reference(data));
  EXPECT_EQ(crc64_nvme(Bytes(data).subspan(777), crc64_nvme(Bytes(data).first(777))), crc64_reference(data));
}

// Bit by bit, with the reversed polynomials of the CRC catalogue.
uint32_t crc_reference(uint32_t polynomial, Bytes data, uint32_t crc) {
  crc = ~crc;
  for (const std::byte b : data) {
    crc ^= static_cast<uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
  }
  return ~crc;
}

// Whichever of the two this processor uses.
TEST(Checksum, TablesAndInstructionsGiveWhatTheDefinitionsGive) {
  std::mt19937 random(7);
  std::vector<std::byte> data(1'200);
  for (auto& b : data) b = static_cast<std::byte>(random());
  for (size_t size = 0; size < 1'100; ++size) {
    const auto piece = Bytes(data).subspan(size % 17, size);
    const auto seed = static_cast<uint32_t>(random());
    const uint32_t castagnoli = crc_reference(0x82f63b78, piece, seed), ieee = crc_reference(0xedb88320, piece, seed);
    ASSERT_EQ(crc32c(piece, seed), castagnoli) << size;
    ASSERT_EQ(crc32(piece, seed), ieee) << size;
    ASSERT_EQ((~crc_by_table<uint32_t, crc32c_polynomial>(~seed, piece)), castagnoli) << size;
    ASSERT_EQ((~crc_by_table<uint32_t, crc32_polynomial>(~seed, piece)), ieee) << size;
  }
}

TEST(Checksum, NamesAreThoseOfS3) {
  EXPECT_EQ(parse_algorithm("crc64nvme"), Algorithm::crc64nvme);
  EXPECT_EQ(parse_algorithm("SHA256"), Algorithm::sha256);
  EXPECT_FALSE(parse_algorithm("CRC33"));
  EXPECT_FALSE(parse_algorithm(""));
  EXPECT_EQ(digest_size(Algorithm::crc64nvme), 8u);
}

}  // namespace
}  // namespace verbena
