#include "s3/objects/md5_together.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "base/checksum.h"

namespace verbena::s3 {
namespace {

struct Body {
  std::vector<std::byte> bytes;
  Md5 md5{};
  int pieces = 0;  // that are digested
  bool begun = false;
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

Task<void> digest_halves(Body& body) {
  body.begun = true;
  const Bytes bytes(body.bytes);
  co_await update_md5_together(body.md5, bytes.first(bytes.size() / 2));
  ++body.pieces;
  co_await update_md5_together(body.md5, bytes.subspan(bytes.size() / 2));
  ++body.pieces;
}

class Md5Together : public ::testing::Test {
 protected:
  void spawn(boost::asio::io_context& io, unsigned seed, size_t size) {
    bodies.push_back(random_body(seed, size));
    boost::asio::co_spawn(io, digest_halves(*bodies.back()), boost::asio::detached);
  }
  int pieces() const {
    return std::accumulate(bodies.begin(), bodies.end(), 0, [](int n, const auto& body) { return n + body->pieces; });
  }
  // How many pieces each step of the loop digested, of those that digested any: a batch is computed in one.
  std::vector<int> run(boost::asio::io_context& io) {
    std::vector<int> batches;
    for (int before = pieces(); io.run_one() != 0; before = pieces()) {
      if (pieces() != before) batches.push_back(pieces() - before);
    }
    return batches;
  }
  void expect_right() {
    for (const auto& body : bodies) EXPECT_EQ(as_text(body->md5.finish()), expected(*body)) << body->bytes.size();
  }

  std::vector<std::unique_ptr<Body>> bodies;
};

TEST_F(Md5Together, OneAloneWaitsForOneTurn) {
  boost::asio::io_context io;
  spawn(io, 1, 40'001);
  io.run_one();
  EXPECT_TRUE(bodies.front()->begun);
  EXPECT_EQ(pieces(), 0);
  io.run_one();
  EXPECT_EQ(pieces(), 1);
  EXPECT_EQ(run(io), std::vector<int>{1});
  expect_right();
}

TEST_F(Md5Together, WhatIsReadyTogetherIsComputedTogether) {
  boost::asio::io_context io;
  for (unsigned i = 0; i < Md5::lanes_max; ++i) spawn(io, i, 30'000 + 97 * i);
  constexpr int all = Md5::lanes_max;
  EXPECT_EQ(run(io), (std::vector<int>{all, all}));
  expect_right();
}

// The ninth finds all lanes taken.
TEST_F(Md5Together, MoreThanTheLanesAreSeveral) {
  boost::asio::io_context io;
  for (unsigned i = 0; i < 2 * Md5::lanes_max + 1; ++i) spawn(io, i, 100 + 20'000 * i);
  const auto batches = run(io);
  EXPECT_EQ(batches.front(), static_cast<int>(Md5::lanes_max));
  EXPECT_EQ(std::ranges::max(batches), static_cast<int>(Md5::lanes_max));
  EXPECT_EQ(pieces(), 2 * static_cast<int>(bodies.size()));
  expect_right();
}

// Others wait for the core meanwhile.
TEST_F(Md5Together, NoBatchHasMoreThanAMebibyte) {
  boost::asio::io_context io;
  for (unsigned i = 0; i < 3; ++i) spawn(io, i, 900'000 + i);
  EXPECT_EQ(std::ranges::max(run(io)), 2);
  expect_right();
}

// A batch that had several is followed by one that waits for more: they come a few turns later.
TEST_F(Md5Together, AfterSeveralTheNextOnesAreWaitedFor) {
  boost::asio::io_context io;
  for (unsigned i = 0; i < 4; ++i) spawn(io, i, 30'000);
  run(io);
  io.restart();
  spawn(io, 10, 30'000);
  io.run_one();  // it waits
  io.run_one();  // a turn without another
  EXPECT_EQ(bodies.back()->pieces, 0);
  spawn(io, 11, 30'000);
  EXPECT_EQ(run(io).front(), 2);
  expect_right();
}

TEST_F(Md5Together, LoopsOfOneThreadAreNotMixed) {
  boost::asio::io_context first, second;
  spawn(first, 1, 20'000);
  spawn(second, 2, 30'000);
  first.run_one();
  second.run_one();  // both wait
  run(second);
  EXPECT_EQ(bodies[0]->pieces, 0);
  EXPECT_EQ(bodies[1]->pieces, 2);
  run(first);
  expect_right();
}

TEST_F(Md5Together, ALoopThatIsDestroyedTakesItsCallsWithIt) {
  {
    boost::asio::io_context io;
    spawn(io, 1, 20'000);
    io.run_one();
  }
  EXPECT_TRUE(bodies.front()->begun);
  EXPECT_EQ(pieces(), 0);
  bodies.clear();
  boost::asio::io_context io;
  spawn(io, 2, 20'000);
  run(io);
  expect_right();
}

}  // namespace
}  // namespace verbena::s3
