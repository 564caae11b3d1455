#include "s3/objects/md5_together.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <memory>
#include <random>
#include <vector>

#include "base/checksum.h"

namespace verbena::s3 {
namespace {

struct Body {
  std::vector<std::byte> bytes;
  Md5 md5{};
  int begun = -1, ended = -1;  // places in the order of all that happened
};

std::unique_ptr<Body> random_body(unsigned seed, size_t size) {
  std::mt19937 random(seed);
  auto body = std::make_unique<Body>(Body{.bytes = std::vector<std::byte>(size)});
  for (std::byte& one : body->bytes) one = static_cast<std::byte>(random());
  return body;
}

std::string expected(const Body& body) {
  Digest digest(Algorithm::md5);
  digest.update(body.bytes);
  return digest.finish();
}

Task<void> digest_halves(Body& body, int& now) {
  body.begun = now++;
  const Bytes bytes(body.bytes);
  co_await update_md5_together(body.md5, bytes.first(bytes.size() / 2));
  co_await update_md5_together(body.md5, bytes.subspan(bytes.size() / 2));
  body.ended = now++;
}

class Md5Together : public ::testing::Test {
 protected:
  void spawn(boost::asio::io_context& io, unsigned seed, size_t size) {
    bodies.push_back(random_body(seed, size));
    boost::asio::co_spawn(io, digest_halves(*bodies.back(), now), boost::asio::detached);
  }
  void expect_right() {
    for (const auto& body : bodies) EXPECT_EQ(as_text(body->md5.finish()), expected(*body)) << body->bytes.size();
  }

  int now = 0;
  std::vector<std::unique_ptr<Body>> bodies;
};

TEST_F(Md5Together, OneAloneIsDigested) {
  boost::asio::io_context io;
  spawn(io, 1, 40'001);
  io.run();
  EXPECT_EQ(bodies.front()->ended, 1);
  expect_right();
}

// A lane for each: none of them ends before the last has begun.
TEST_F(Md5Together, WhatIsReadyTogetherIsComputedTogether) {
  boost::asio::io_context io;
  for (unsigned i = 0; i < Md5::lanes_max; ++i) spawn(io, i, 30'000 + 97 * i);
  io.run();
  for (const auto& body : bodies) {
    EXPECT_LT(body->begun, static_cast<int>(Md5::lanes_max));
    EXPECT_GE(body->ended, static_cast<int>(Md5::lanes_max));
  }
  expect_right();
}

// The ninth finds all lanes taken, and large bodies the time of a core.
TEST_F(Md5Together, MoreThanABatchTakesAreSeveral) {
  boost::asio::io_context io;
  for (unsigned i = 0; i < 3 * Md5::lanes_max + 1; ++i) spawn(io, i, i % 4 == 0 ? 900'000 + i : 100 + 20'000 * i);
  io.run();
  for (const auto& body : bodies) EXPECT_NE(body->ended, -1);
  expect_right();
}

TEST_F(Md5Together, LoopsOfOneThreadAreNotMixed) {
  boost::asio::io_context first, second;
  spawn(first, 1, 20'000);
  spawn(second, 2, 30'000);
  first.run_one();
  second.run_one();  // both wait
  second.run();
  EXPECT_EQ(bodies[0]->ended, -1);
  EXPECT_NE(bodies[1]->ended, -1);
  first.run();
  expect_right();
}

TEST_F(Md5Together, ALoopThatIsDestroyedTakesItsCallsWithIt) {
  {
    boost::asio::io_context io;
    spawn(io, 1, 20'000);
    io.run_one();
  }
  EXPECT_EQ(bodies.front()->begun, 0);
  EXPECT_EQ(bodies.front()->ended, -1);
  bodies.clear();
  boost::asio::io_context io;
  spawn(io, 2, 20'000);
  io.run();
  expect_right();
}

}  // namespace
}  // namespace verbena::s3
