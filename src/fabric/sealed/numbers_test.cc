// Numbers of a sealed connection, which never come twice, and its keys, which are renewed.
#include <gtest/gtest.h>

#include <set>

#include "fabric/sealed/channel.h"
#include "fabric/sealed/test_sealed.h"

namespace verbena::fabric::sealed {
namespace {

TEST_F(SealedTest, KeysAreRenewedInBothDirections) {
  start({.epoch_bits = 2});
  connect(1, 2);
  const Message bytes = pattern(2 * MiB, 3);
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(*get(bytes) == bytes);
    EXPECT_TRUE(*put(bytes) == bytes);
  }
}

// Key streams of records on the wire: the same bytes are sealed again and again, so that a number that came twice under
// a key would show as the same ciphertext.
class KeyStreams {
 public:
  std::function<void(MutableBytes)> watch() {
    return [this](MutableBytes on_way) {
      const std::lock_guard lock(mutex_);
      for (size_t at = 0; at < on_way.size(); at += record_size_max) {
        const auto start = on_way.subspan(at, 64);
        seen_.emplace(start.begin(), start.end());
        ++records_;
      }
    };
  }
  size_t records() {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(seen_.size(), records_) << "a number was used twice";
    return records_;
  }

 private:
  std::mutex mutex_;
  std::set<Message> seen_;
  size_t records_ = 0;
};

TEST_F(SealedTest, ServersNumbersThatAreUsedUpEndTheConnectionAndNoneComesTwice) {
  KeyStreams streams;
  wire.written = streams.watch();
  start({.numbers_max = 13});
  connect();
  const Message bytes(256 * KiB, std::byte{7});  // four records
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(*get(bytes) == bytes);
  limit = std::chrono::milliseconds(500);
  const auto fourth = get(bytes);
  ASSERT_FALSE(fourth);
  EXPECT_EQ(fourth.error(), Errc::closed);
  EXPECT_EQ(streams.records(), 12u);
  EXPECT_FALSE(ask("still there?")) << "the connection has ended";
  EXPECT_EQ(streams.records(), 12u);
  // Another session's numbers are its own, and so is its key.
  limit = std::chrono::seconds(20);
  call_on(core, [this] { return peer = 0; });
  connect(2);
  EXPECT_TRUE(*get(bytes) == bytes);
  EXPECT_EQ(streams.records(), 16u);
}

TEST_F(SealedTest, ClientsNumbersThatAreUsedUpEndTheLinkAndNoneComesTwice) {
  KeyStreams streams;
  wire.read = streams.watch();
  start();
  connect(1, 24, 13);
  const Message bytes(256 * KiB, std::byte{7});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(*put(bytes) == bytes);
  limit = std::chrono::milliseconds(500);
  EXPECT_FALSE(put(bytes));
  EXPECT_EQ(streams.records(), 12u);
  const auto later = client->send(as_bytes("another request"));
  EXPECT_EQ(later.error(), Errc::closed);
  EXPECT_STREQ(later.error().context, "sealed: the connection's numbers are used up") << "nothing was forged";
  limit = std::chrono::seconds(20);
  call_on(core, [this] { return peer = 0; });
  connect(2);
  EXPECT_TRUE(*put(bytes) == bytes);
}

TEST_F(SealedTest, NumbersOfMessagesThatAreUsedUpEndTheConnection) {
  std::mutex mutex;
  std::vector<uint64_t> to_server, to_client;
  const auto watch = [&](std::vector<uint64_t>& into) {
    return [&](Message message) {
      const std::lock_guard lock(mutex);
      into.push_back(decode_header(message)->sequence);
      return std::vector<Message>{std::move(message)};
    };
  };
  wire.to_server = watch(to_server);
  wire.to_client = watch(to_client);
  start({.numbers_max = 3});
  connect();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(ask("question"));
  limit = std::chrono::milliseconds(300);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(ask("question")) << "the server has no number left for the answer";
  limit = std::chrono::seconds(20);
  call_on(core, [this] { return peer = 0; });
  connect(2, 24, 2);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(ask("question"));
  for (int i = 0; i < 2; ++i) {
    const auto sent = client->send(as_bytes("question"));
    EXPECT_EQ(sent.error(), Errc::closed);
    EXPECT_STREQ(sent.error().context, "sealed: the connection's numbers are used up");
  }
  const std::lock_guard lock(mutex);
  EXPECT_EQ(to_client, (std::vector<uint64_t>{1, 2, 3, 1, 2})) << "of two sessions";
  EXPECT_EQ(to_server, (std::vector<uint64_t>{1, 2, 3, 4, 5, 1, 2}));
}

// The client's first key, after the server's has been renewed.
TEST_F(SealedTest, APeerThatSealsWithAnOldKeyAfterRenewalIsRefused) {
  start({.epoch_bits = 2});
  connect(1, 24);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(ask("under the first key"));
  const uint64_t before = counters().forged_messages.value();
  limit = std::chrono::milliseconds(300);
  EXPECT_FALSE(ask("under the first key still"));
  EXPECT_EQ(counters().forged_messages.value(), before + 1);
  EXPECT_EQ(call_on(core, [&] { return heard.size(); }), 3u);
}

TEST(SealedChannel, ANumberIsNotUsedAgainAfterAFailureOfTheTransport) {
  Channel channel(1, derive(key_of(1), {}, Side::client), Salt{}, 4096);
  int sent = 0;
  EXPECT_EQ(
      channel.send(as_bytes("one"), {}, [&](Bytes) { return ++sent, Result<void>(fail(Errc::io_error)); }).error(),
      Errc::io_error);
  EXPECT_EQ(channel.send(as_bytes("two"), {}, [&](Bytes) { return ++sent, Result<void>(); }).error(), Errc::closed);
  EXPECT_EQ(sent, 1);
}

TEST(SealedChannel, ARecordUnderAnOldKeyIsRefusedAndALateOneOfTheKeyBeforeIsNot) {
  constexpr size_t envelope_size_max = 4096;
  const auto channel = [](Side side, unsigned epoch_bits) {
    const auto salt = side == Side::client ? std::optional(Salt{}) : std::nullopt;
    return Channel(1, derive(key_of(1), {}, side, epoch_bits), salt, envelope_size_max);
  };
  Channel stays = channel(Side::client, 24), renews = channel(Side::client, 2), server = channel(Side::server, 2);
  const Place place{.key = 3, .offset = 0, .length = 100};
  const Message bytes = pattern(place.length, 22);
  Message sealed(place.length), opened(place.length);
  const auto opens = [&](Channel& from) {
    const Seals seals = *from.seal_records(place, bytes, sealed.data());
    return server.open_records(place, seals, sealed, opened.data()) && opened == bytes;
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(opens(stays)) << "both have the first key";
  EXPECT_FALSE(opens(stays));
  EXPECT_TRUE(std::ranges::all_of(opened, [](std::byte b) { return b == std::byte{0}; })) << "nothing of it stays";
  Message late(place.length);
  Seals of_late;
  for (int i = 0; i < 4; ++i) of_late = *renews.seal_records(place, bytes, late.data());
  EXPECT_TRUE(opens(renews)) << "the renewed key";
  EXPECT_TRUE(server.open_records(place, of_late, late, opened.data())) << "number 3, which came late";
}

}  // namespace
}  // namespace verbena::fabric::sealed
