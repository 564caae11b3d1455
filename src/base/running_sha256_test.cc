#include "base/running_sha256.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/checksum.h"
#include "base/hex.h"

namespace verbena {
namespace {

std::string by_openssl(Algorithm algorithm, Bytes bytes) {
  Digest digest(algorithm);
  digest.update(bytes);
  return digest.finish_hex();
}

std::vector<std::byte> random_body(std::mt19937& random, size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  return bytes;
}

// FIPS 180-2, appendix B.1 and B.2.
TEST(RunningSha256, KnownValues) {
  const std::pair<const char*, const char*> known[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}};
  for (const auto& [text, digest] : known) {
    RunningSha256 sha256;
    sha256.update(as_bytes(text));
    EXPECT_EQ(to_hex(sha256.finish()), digest) << text;
  }
}

TEST(RunningSha256, WithMd5BothAreAsAlone) {
  std::mt19937 random(1);
  for (int round = 0; round < 600; ++round) {
    const auto bytes = random_body(random, round < 300 ? static_cast<size_t>(round) : random() % 70'000);
    RunningSha256 sha256;
    Md5 md5;
    for (Bytes left = bytes; !left.empty();) {
      const Bytes now = left.first(std::min<size_t>(left.size(), 1 + random() % 20'000));
      sha256.update_with(md5, now);
      left = left.subspan(now.size());
    }
    EXPECT_EQ(to_hex(sha256.finish()), by_openssl(Algorithm::sha256, bytes)) << bytes.size();
    EXPECT_EQ(to_hex(md5.finish()), by_openssl(Algorithm::md5, bytes)) << bytes.size();
  }
}

// The MD5 may have bytes of its own before, so that their blocks do not begin together.
TEST(RunningSha256, WithAnMd5ThatIsAhead) {
  std::mt19937 random(2);
  for (const size_t ahead : {1, 63, 64, 100}) {
    const auto bytes = random_body(random, 5000);
    RunningSha256 sha256;
    Md5 md5;
    md5.update(Bytes(bytes).first(ahead));
    sha256.update_with(md5, Bytes(bytes).subspan(ahead, 1000));
    sha256.update_with(md5, Bytes(bytes).subspan(ahead + 1000));
    EXPECT_EQ(to_hex(sha256.finish()), by_openssl(Algorithm::sha256, Bytes(bytes).subspan(ahead))) << ahead;
    EXPECT_EQ(to_hex(md5.finish()), by_openssl(Algorithm::md5, bytes)) << ahead;
  }
}

}  // namespace
}  // namespace verbena
