#include "base/md5.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/checksum.h"
#include "base/hex.h"

namespace verbena {
namespace {

std::string hex_of(Md5& digest) { return to_hex(digest.finish()); }

std::string by_openssl(Bytes bytes) {
  Digest digest(Algorithm::md5);
  digest.update(bytes);
  return digest.finish_hex();
}

std::vector<std::byte> random_bytes(std::mt19937& random, size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  return bytes;
}

// All that this processor supports.
std::vector<Md5::Lanes> all_lanes() {
  std::vector<Md5::Lanes> lanes;
  for (auto one : {Md5::Lanes::one, Md5::Lanes::four, Md5::Lanes::eight, Md5::Lanes::eight_of_avx512}) {
    if (one <= Md5::lanes_here()) lanes.push_back(one);
  }
  return lanes;
}

// RFC 1321, appendix A.5.
TEST(Md5Test, KnownValues) {
  const std::pair<const char*, const char*> known[] = {
      {"", "d41d8cd98f00b204e9800998ecf8427e"},
      {"a", "0cc175b9c0f1b6a831c399e269772661"},
      {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
      {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
       "57edf4a22be3c955ac49da2e2107b67a"}};
  for (const auto& [text, digest] : known) {
    Md5 md5;
    md5.update(as_bytes(text));
    EXPECT_EQ(hex_of(md5), digest) << text;
  }
}

TEST(Md5Test, AnyLengthAsOpenSslHasIt) {
  std::mt19937 random(1);
  for (size_t size = 0; size < 200; ++size) {
    const auto bytes = random_bytes(random, size);
    Md5 md5;
    md5.update(bytes);
    EXPECT_EQ(hex_of(md5), by_openssl(bytes)) << size;
  }
}

// Bodies of any lengths, more and fewer than lanes, in pieces cut anywhere.
TEST(Md5Test, SideBySideIsAsAlone) {
  std::mt19937 random(2);
  for (const Md5::Lanes lanes : all_lanes()) {
    for (const size_t count : {1, 2, 3, 4, 5, 7, 8, 9, 16, 21}) {
      std::vector<std::vector<std::byte>> bodies;
      for (size_t i = 0; i < count; ++i)
        bodies.push_back(random_bytes(random, random() % 5 == 0 ? 0 : random() % 9000));
      std::vector<Md5> digests(count);
      std::vector<size_t> had(count);
      for (int round = 0; round < 4; ++round) {
        std::vector<Md5::More> list;
        for (size_t i = 0; i < count; ++i) {
          const Bytes left = Bytes(bodies[i]).subspan(had[i]);
          const Bytes now = round == 3 ? left : left.first(random() % (left.size() + 1));
          had[i] += now.size();
          list.push_back({&digests[i], now});
        }
        Md5::update_all(list, lanes);
      }
      for (size_t i = 0; i < count; ++i) {
        EXPECT_EQ(hex_of(digests[i]), by_openssl(bodies[i])) << "lanes " << static_cast<int>(lanes) << ", body " << i;
      }
    }
  }
}

TEST(Md5Test, NothingIsNothing) {
  Md5::update_all({});
  Md5 one, two;
  const std::vector<Md5::More> list{{&one, {}}, {&two, {}}};
  Md5::update_all(list);
  EXPECT_EQ(hex_of(one), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(hex_of(two), "d41d8cd98f00b204e9800998ecf8427e");
}

}  // namespace
}  // namespace verbena
