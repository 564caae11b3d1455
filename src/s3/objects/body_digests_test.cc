#include "s3/objects/body_digests.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <random>

#include "base/hex.h"
#include "memory/hashes_along.h"

namespace verbena::s3 {
namespace {

std::vector<std::byte> body_of(unsigned seed, size_t size) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  return bytes;
}

std::string digest_of(Algorithm algorithm, Bytes bytes) {
  Digest digest(algorithm);
  digest.update(bytes);
  return digest.finish();
}

Task<void> digest_in_pieces(std::shared_ptr<DigestsAside> aside, Bytes body, size_t piece) {
  for (Bytes rest = body; !rest.empty();) {
    const size_t now = std::min(piece, rest.size());
    co_await aside->add(rest.first(now));
    rest = rest.subspan(now);
  }
  co_await aside->done();
  aside->digests.finish();
}

class HashingSource final : public memory::Source, public memory::HashesAlong {
 public:
  std::optional<uint64_t> size() const override { return std::nullopt; }
  Task<Result<size_t>> read(MutableBytes) override { co_return 0; }
  void hash_along(Md5& md5) override { asked = &md5; }
  Md5* asked = nullptr;
};

TEST(BodyDigests, ASourceThatHashesIsLeftTheMd5AndNothingElse) {
  const auto body = body_of(1, 10'000);
  HashingSource source;
  BodyDigests digests;
  digests.want(Algorithm::crc64nvme);
  digests.leave_md5_to(source);
  EXPECT_EQ(source.asked, nullptr) << "no MD5 is wanted";
  digests.want_md5();
  digests.leave_md5_to(source);
  ASSERT_NE(source.asked, nullptr);
  source.asked->update(body);
  digests.update(body);
  digests.finish();
  EXPECT_EQ(digests.md5(), digest_of(Algorithm::md5, body));
  EXPECT_EQ(digests.checksums().front().value, digest_of(Algorithm::crc64nvme, body));
}

class SummingWriter final : public store::ObjectWriter {
 public:
  Task<Result<void>> append(memory::Chunk) override { co_return Result<void>(); }
  Task<Result<store::ObjectInfo>> commit(store::ObjectInfo info, store::CommitConditions) override { co_return info; }
  std::optional<uint32_t> crc32c() const override { return crc; }
  std::optional<uint32_t> crc;
};

TEST(BodyDigests, AWriterThatHasTheCrc32cIsLeftThatAndNothingElse) {
  const auto body = body_of(1, 10'000);
  for (const bool has : {true, false}) {
    SummingWriter writer;
    if (has) writer.crc = 0;
    BodyDigests digests;
    digests.want(Algorithm::crc32c);
    digests.want(Algorithm::crc64nvme);
    digests.leave_crc32c_to(writer);
    digests.update(body);
    if (has) writer.crc = 0x01020304;  // what it says is taken
    digests.finish();
    ASSERT_EQ(digests.checksums().size(), 2u);
    EXPECT_EQ(digests.checksums()[0].algorithm, Algorithm::crc32c);
    EXPECT_EQ(digests.checksums()[0].value, has ? "\1\2\3\4" : digest_of(Algorithm::crc32c, body));
    EXPECT_EQ(digests.checksums()[1].value, digest_of(Algorithm::crc64nvme, body));
  }
}

// More bodies than a vector unit has lanes, and than there are helpers: some with MD5, some without.
TEST(DigestsAside, BodiesThatComeTogetherHaveEachTheirOwnDigests) {
  constexpr size_t count = 40;
  boost::asio::io_context io;
  std::vector<std::vector<std::byte>> bodies;
  std::vector<std::shared_ptr<DigestsAside>> asides;
  for (size_t i = 0; i < count; ++i) {
    bodies.push_back(body_of(static_cast<unsigned>(i), 20'000 + 997 * i));
    BodyDigests digests;
    digests.want(Algorithm::crc64nvme);
    if (i % 3 != 0) digests.want_md5();
    asides.push_back(DigestsAside::make(std::move(digests), io.get_executor()));
    boost::asio::co_spawn(io, digest_in_pieces(asides[i], bodies[i], 1'000 + 61 * i), boost::asio::detached);
  }
  io.run();
  for (size_t i = 0; i < count; ++i) {
    const BodyDigests& got = asides[i]->digests;
    EXPECT_EQ(to_hex(as_bytes(got.md5())), i % 3 == 0 ? "" : to_hex(as_bytes(digest_of(Algorithm::md5, bodies[i]))));
    ASSERT_EQ(got.checksums().size(), 1u);
    EXPECT_EQ(got.checksums()[0].value, digest_of(Algorithm::crc64nvme, bodies[i]));
  }
}

}  // namespace
}  // namespace verbena::s3
