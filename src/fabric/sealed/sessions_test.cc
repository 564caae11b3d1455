// Sessions that are not this one, and sessions that end.
#include "fabric/sealed/cipher.h"
#include "fabric/sealed/frames.h"
#include "fabric/sealed/test_sealed.h"

namespace verbena::fabric::sealed {
namespace {

// The same transfers of the same bytes, with the same windows and numbers: the sessions' keys are what differs.
TEST_F(SealedTest, ARecordOfAnotherSessionIsNotTaken) {
  start();
  connect(1);
  const Message bytes = pattern(200'000, 31);
  Message of_put, of_get;
  wire.read = [&](MutableBytes on_way) { of_put.assign(on_way.begin(), on_way.end()); };
  wire.written = [&](MutableBytes on_way) { of_get.assign(on_way.begin(), on_way.end()); };
  ASSERT_TRUE(*put(bytes) == bytes);
  ASSERT_TRUE(*get(bytes) == bytes);
  client.reset();
  call_on(core, [this] { return peer = 0; });
  connect(2);
  wire.read = [&](MutableBytes on_way) { std::ranges::copy(of_put, on_way.begin()); };
  const auto stored = put(bytes);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error(), Errc::bad_digest);
  wire.written = [&](MutableBytes on_way) { std::ranges::copy(of_get, on_way.begin()); };
  limit = std::chrono::seconds(2);
  const auto got = get(bytes);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error(), Errc::closed);
}

TEST_F(SealedTest, APeerWithAnotherKeyIsNotHeard) {
  start();
  limit = std::chrono::milliseconds(200);
  const uint64_t before = counters().forged_messages.value();
  client = seal(std::make_unique<WireLink>(wire, core, below), 1, key_of(2), 24, numbers_max_default);
  EXPECT_FALSE(ask("delete everything"));
  EXPECT_TRUE(call_on(core, [&] { return heard.empty(); }));
  EXPECT_GT(counters().forged_messages.value(), before);
}

// A device may write a part of a record, and old bytes of the ring are behind it.
TEST_F(SealedTest, ARecordThatArrivesInPartIsNotTaken) {
  start();
  connect();
  const Message bytes = pattern(200'000, 32);
  ASSERT_TRUE(*get(bytes) == bytes);
  wire.read =
      wire.written = [](MutableBytes on_way) { std::ranges::fill(on_way.last(on_way.size() / 3), std::byte{}); };
  EXPECT_EQ(put(bytes).error(), Errc::bad_digest);
  limit = std::chrono::seconds(2);
  EXPECT_EQ(get(bytes).error(), Errc::closed);
}

// After the second operation of a transfer: the client's window has right bytes or none, the server's read fails.
TEST_F(SealedTest, ASessionThatEndsInTheMiddleOfATransferLeavesNoWrongByte) {
  start();
  const Message bytes = pattern(4 * MiB, 33);
  for (const bool reads : {false, true}) {
    start_over();
    connect();
    Message memory = reads ? bytes : Message(bytes.size(), std::byte{0xaa});
    const Access access = reads ? Access::server_reads : Access::server_writes;
    auto lent = client->lend(memory, access);
    ASSERT_TRUE(lent && ask("a request"));
    int operations = 0;
    const auto end = [&](MutableBytes) {
      if (++operations == 2) boost::asio::post(core.io(), [this] { port->remove_peer(peer); });
    };
    (reads ? wire.read : wire.written) = end;
    auto here = reads ? std::move(*arena->lease(bytes.size())) : lease(bytes);
    const auto opened = window(**lent, access);
    const auto done = reads ? driven(opened->read(here.bytes(), 0, deadline_in(limit)))
                            : driven(opened->write(here.bytes(), 0, deadline_in(limit)));
    ASSERT_FALSE(done) << (reads ? "PUT" : "GET");
    EXPECT_NE(done.error(), Errc::timed_out) << "it ends with the session";
    EXPECT_GE(operations, 2);
    (reads ? wire.read : wire.written) = {};
    if (reads) continue;
    size_t landed = 0;
    for (size_t at = 0; at < memory.size(); at += record_size_max) {
      const auto record = Bytes(memory).subspan(at, record_size_max);
      if (std::ranges::equal(record, Bytes(bytes).subspan(at, record_size_max))) {
        ++landed;
        continue;
      }
      EXPECT_TRUE(std::ranges::all_of(record, [](std::byte b) { return b == std::byte{0xaa}; })) << at;
    }
    EXPECT_LT(landed, memory.size() / record_size_max);
  }
}

}  // namespace
}  // namespace verbena::fabric::sealed
