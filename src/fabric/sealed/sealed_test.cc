// A sealed connection on a wire that belongs to an attacker.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>

#include "fabric/sealed/channel.h"
#include "fabric/sealed/frames.h"
#include "fabric/sealed/test_sealed.h"
#include "fabric/sealing_names.h"

namespace verbena::fabric::sealed {
namespace {

TEST_F(SealedTest, MessagesAndBytesArriveAndNothingOfThemIsOnTheWire) {
  const Message bytes = pattern(3 * MiB + 777, 1);
  std::mutex mutex;
  Message on_wire;
  const auto record = [&](Bytes seen) {
    const std::lock_guard lock(mutex);
    on_wire.insert(on_wire.end(), seen.begin(), seen.end());
  };
  wire.to_server = wire.to_client = [&](Message message) {
    record(message);
    return std::vector<Message>{std::move(message)};
  };
  wire.written = wire.read = record;
  start();
  connect();
  EXPECT_EQ(as_text(*ask("hello, this is no secret of a stranger")), "hello, this is no secret of a stranger");
  EXPECT_EQ(sessions_seen.at(0), 1u);
  const auto got = get(bytes, 5);
  ASSERT_TRUE(got) << describe(got.error());
  EXPECT_TRUE(*got == bytes);
  const auto stored = put(bytes);
  ASSERT_TRUE(stored) << describe(stored.error());
  EXPECT_TRUE(*stored == bytes);
  const std::lock_guard lock(mutex);
  EXPECT_FALSE(contains(on_wire, as_bytes("no secret of a stranger")));
  for (size_t at = 0; at + 16 < bytes.size(); at += 100'003) {
    EXPECT_FALSE(contains(on_wire, Bytes(bytes).subspan(at, 16)));
  }
  EXPECT_EQ(wire.lends, 2u) << "only the two rings are ever reachable";
}

TEST_F(SealedTest, EverySizeArrives) {
  start();
  connect();
  for (const size_t size : {1, 8, 4096, 4097, 65536, 65537, 262144, 262145, 700'000}) {
    const Message bytes = pattern(size, static_cast<unsigned>(size));
    const auto got = get(bytes, 3);
    ASSERT_TRUE(got) << size << ": " << describe(got.error());
    EXPECT_TRUE(*got == bytes) << size;
    const auto stored = put(bytes);
    ASSERT_TRUE(stored) << size << ": " << describe(stored.error());
    EXPECT_TRUE(*stored == bytes) << size;
  }
}

TEST_F(SealedTest, ChaChaServesWhereTheCpuHasNoAes) {
  start();
  connect(9);
  const Message bytes = pattern(300'000, 2);
  const auto got = get(bytes);
  ASSERT_TRUE(got) << describe(got.error());
  EXPECT_TRUE(*got == bytes);
  EXPECT_TRUE(*put(bytes) == bytes);
}

// What the transport has put into the client's memory is nothing without the message that names it.
TEST_F(SealedTest, AClientThatReadsItsWindowEarlyGetsNothing) {
  start();
  connect();
  Message memory(256 * KiB, std::byte{0xaa});
  const Message before = memory;
  auto lent = client->lend(memory, Access::server_writes);
  ASSERT_TRUE(lent && ask("a request"));
  std::mutex mutex;
  std::vector<Message> held;
  Message in_ring;
  wire.written = [&](MutableBytes on_way) {
    const std::lock_guard lock(mutex);
    in_ring.assign(on_way.begin(), on_way.end());
  };
  call_on(core, [&] {
    wire.to_client = [&](Message message) {
      const std::lock_guard lock(mutex);
      held.push_back(std::move(message));
      return std::vector<Message>{};
    };
    return 0;
  });
  const auto bytes = pattern(256 * KiB, 20);
  const auto source = lease(bytes);
  const auto lands = window(**lent, Access::server_writes);
  ASSERT_TRUE(spawn_on(core, lands->write(source.bytes(), 0, deadline_in(limit))).get());
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return !held.empty();
  }));
  EXPECT_TRUE(client->poll([](Bytes) {}));
  EXPECT_TRUE(memory == before) << "all bytes have been written, and none is in the window";
  {
    const std::lock_guard lock(mutex);
    ASSERT_EQ(in_ring.size(), bytes.size());
    for (size_t at = 0; at < bytes.size(); at += 4096) {
      EXPECT_FALSE(contains(in_ring, Bytes(bytes).subspan(at, 16))) << "the ring has sealed bytes alone";
    }
    const std::lock_guard arrives(wire.mutex);
    for (Message& message : held) wire.arrived.push_back(std::move(message));
  }
  EXPECT_TRUE(client->poll([](Bytes) {}));
  EXPECT_TRUE(memory == bytes);
}

TEST_F(SealedTest, WithoutMemoryATransferIsRefusedAndLaterOnesAreWell) {
  start();
  connect();
  Message memory(256 * KiB, std::byte{0xaa});
  const Message before = memory;
  auto lent = client->lend(memory, Access::server_writes);
  ASSERT_TRUE(lent && ask("a request"));
  const auto bytes = pattern(256 * KiB, 21);
  const auto source = lease(bytes);
  const auto lands = window(**lent, Access::server_writes);
  std::vector<memory::Lease> all;
  for (size_t size = segment_size; size >= 4 * KiB; size /= 2) {
    while (auto one = arena->lease(size)) all.push_back(std::move(*one));
  }
  const auto refused = driven(lands->write(source.bytes(), 0, deadline_in(limit)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errc::slow_down);
  EXPECT_TRUE(ask("an answer that says so")) << "the connection is well";
  EXPECT_TRUE(memory == before);
  all.clear();
  ASSERT_TRUE(driven(lands->write(source.bytes(), 0, deadline_in(limit))));
  EXPECT_TRUE(ask("done"));
  EXPECT_TRUE(memory == bytes);
}

TEST_F(SealedTest, AFullQueueDelaysAndLosesNothing) {
  start();
  connect();
  Message bytes = pattern(MiB, 4);
  auto lent = client->lend(bytes, Access::server_reads);
  ASSERT_TRUE(lent && ask("a request"));
  {
    const std::lock_guard lock(wire.mutex);
    wire.full = 40;
  }
  auto target = std::move(*arena->lease(MiB));
  const auto from = window(**lent, Access::server_reads);
  ASSERT_TRUE(driven(from->read(target.bytes(), 0, deadline_in(limit))));
  EXPECT_TRUE(std::ranges::equal(target.bytes(), bytes));
}

// Every message is once changed at a random place, or cut to a random length: no call ends with another result than
// right bytes or an error.
TEST_F(SealedTest, AChangedOrCutMessageEndsTheLinkOrIsDropped) {
  start();
  limit = std::chrono::milliseconds(150);
  std::mt19937_64 random(5);
  const Message bytes = pattern(600'000, 6);
  for (int round = 0; round < 48; ++round) {
    start_over();
    const bool cuts = round / 4 % 2 == 1;
    std::atomic<int> count = static_cast<int>(random() % 8);
    const std::function<std::vector<Message>(Message)> change = [&](Message message) {
      if (count.fetch_sub(1) != 0) return std::vector<Message>{std::move(message)};
      const size_t at = random() % message.size();
      if (cuts) {
        message.resize(at);
      } else {
        message[at] ^= static_cast<std::byte>(1u << random() % 8);
      }
      return std::vector<Message>{std::move(message)};
    };
    call_on(core, [&] {
      wire.to_server = round % 2 == 0 ? change : nullptr;
      wire.to_client = round % 2 == 1 ? change : nullptr;
      return 0;
    });
    connect();
    const auto hello = ask("hello");
    if (!hello) continue;
    const auto got = round % 4 < 2 ? get(bytes) : put(bytes);
    if (got) {
      EXPECT_TRUE(*got == bytes);
    }
    client.reset();
  }
}

TEST_F(SealedTest, AChangedRecordIsNeverTakenForBytes) {
  start();
  connect();
  const Message bytes = pattern(600'000, 7);
  ASSERT_TRUE(ask("hello"));
  const uint64_t before = counters().forged_records.value();
  wire.read = [](MutableBytes on_way) { on_way[on_way.size() / 2] ^= std::byte{1}; };
  const auto stored = put(bytes);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error(), Errc::bad_digest);
  EXPECT_GT(counters().forged_records.value(), before);
  wire.read = {};
  wire.written = [](MutableBytes on_way) { on_way[on_way.size() / 2] ^= std::byte{1}; };
  limit = std::chrono::seconds(2);
  const auto got = get(bytes);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error(), Errc::closed);
}

// Records of an earlier transfer of the same window, in their old place.
TEST_F(SealedTest, AReplayedRecordIsNotTaken) {
  start();
  connect();
  const Message first = pattern(200'000, 8), second = pattern(200'000, 9);
  Message recorded;
  wire.read = wire.written = [&](MutableBytes on_way) { recorded.assign(on_way.begin(), on_way.end()); };
  EXPECT_TRUE(*put(first) == first);
  wire.read = [&](MutableBytes on_way) { std::ranges::copy(recorded, on_way.begin()); };
  EXPECT_FALSE(put(second));
  wire.read = {};
  EXPECT_TRUE(*get(first) == first);
  const Message old = recorded;
  wire.written = [&](MutableBytes on_way) { std::ranges::copy(old, on_way.begin()); };
  limit = std::chrono::seconds(2);
  EXPECT_FALSE(get(second));
}

TEST_F(SealedTest, TwoRecordsThatChangePlacesAreNotTaken) {
  start();
  connect();
  ASSERT_TRUE(ask("hello"));
  wire.read = [](MutableBytes on_way) {
    if (on_way.size() < 2 * record_size_max) return;
    std::swap_ranges(on_way.begin(), on_way.begin() + record_size_max, on_way.begin() + record_size_max);
  };
  EXPECT_FALSE(put(pattern(256 * KiB, 10)));
}

TEST_F(SealedTest, RepeatedSwappedAndMissingMessagesBreakTheLink) {
  start();
  limit = std::chrono::milliseconds(200);
  for (const std::string_view attack : {"repeat", "drop", "swap"}) {
    std::vector<Message> held;
    start_over();
    int n = 0;
    wire.to_client = [&](Message message) -> std::vector<Message> {
      ++n;
      if (attack == "repeat") return {message, message};
      if (attack == "drop") return n == 2 ? std::vector<Message>{} : std::vector<Message>{message};
      if (n == 2) {
        held.push_back(std::move(message));
        return {};
      }
      std::vector<Message> out{std::move(message)};
      for (auto& late : held) out.push_back(std::move(late));
      held.clear();
      return out;
    };
    connect();
    bool broke = false;
    for (int i = 0; i < 4 && !broke; ++i) broke = !ask("question");
    EXPECT_TRUE(broke) << attack;
    client.reset();
  }
}

TEST_F(SealedTest, ARecordedConnectionOpensNoSecondOne) {
  std::vector<Message> recorded;
  wire.to_server = [&](Message message) {
    recorded.push_back(message);
    return std::vector<Message>{std::move(message)};
  };
  start();
  connect();
  ASSERT_TRUE(ask("delete everything"));
  const uint64_t refused = counters().forged_messages.value();
  call_on(core, [&] {
    for (const Message& message : recorded) below.receive(0, message);
    port->remove_peer(peer);
    for (const Message& message : recorded) below.receive(0, message);
    return 0;
  });
  EXPECT_EQ(call_on(core, [&] { return heard.size(); }), 1u);
  EXPECT_EQ(counters().forged_messages.value(), refused + 2 * recorded.size());
}

TEST_F(SealedTest, AMessageOfAnotherSessionIsRefused) {
  start();
  wire.to_server = [&](Message message) {
    message[8] = std::byte{2};  // the envelope's session
    return std::vector<Message>{std::move(message)};
  };
  limit = std::chrono::milliseconds(200);
  connect();
  EXPECT_FALSE(ask("hello"));
  EXPECT_TRUE(call_on(core, [&] { return heard.empty(); }));
}

TEST_F(SealedTest, PlainMessagesPassOnlyWhereTheyMay) {
  start({.takes_plain = false});
  const uint64_t refused = counters().plain_messages.value();
  call_on(core, [&] { return below.receive(0, as_bytes("plain")), 0; });
  EXPECT_EQ(counters().plain_messages.value(), refused + 1);
  EXPECT_TRUE(call_on(core, [&] { return heard.empty(); }));
  call_on(core, [&] { return port.reset(), 0; });
  call_on(core, [&] {
    port = seal(core, below, *arena, {.takes_plain = true});
    port->on_message([this](PeerId, Bytes) { sessions_seen.push_back(port->sealed_session()); });
    below.receive(0, as_bytes("plain"));
    return 0;
  });
  EXPECT_EQ(sessions_seen, std::vector<uint64_t>{0});
}

TEST_F(SealedTest, WhatIsWithdrawnIsNeitherReadNorWritten) {
  start();
  connect();
  Message memory = pattern(200'000, 11);
  const Message before = memory;
  auto lent = client->lend(memory, Access::server_writes);
  ASSERT_TRUE(lent && ask("hello"));
  const auto bytes = pattern(200'000, 12);
  const auto source = lease(bytes);
  const auto lands = window(**lent, Access::server_writes);
  (*lent)->revoke();
  EXPECT_TRUE(driven(lands->write(source.bytes(), 0, deadline_in(limit))));
  EXPECT_TRUE(ask("done"));
  EXPECT_TRUE(memory == before);
  // The other direction than was lent, and bytes beyond the window.
  auto readable = client->lend(memory, Access::server_reads);
  const auto wrong = window(**readable, Access::server_writes);
  EXPECT_TRUE(driven(wrong->write(source.bytes(), 0, deadline_in(limit))));
  EXPECT_TRUE(ask("done"));
  EXPECT_TRUE(memory == before);
  auto target = std::move(*arena->lease(4096));
  EXPECT_FALSE(driven(wrong->read(target.bytes(), 0, deadline_in(limit))));
  EXPECT_FALSE(driven(window(**readable, Access::server_reads)->read(target.bytes(), 199'999, deadline_in(limit))));
  (*readable)->revoke();
  EXPECT_FALSE(driven(window(**readable, Access::server_reads)->read(target.bytes(), 0, deadline_in(limit))));
}

// A client that never gives segments back, and one that never answers: each delays its own transfers only.
TEST_F(SealedTest, AClientThatStopsDelaysOnlyItself) {
  start({.buffers_max = 4, .buffers_per_peer_max = 2});
  connect();
  Message memory(8 * MiB);
  auto lent = client->lend(memory, Access::server_writes);
  ASSERT_TRUE(lent && ask("hello"));
  auto source = std::move(*arena->lease(4 * MiB));
  const auto lands = window(**lent, Access::server_writes);
  // No poll of the client: the ring is full after two MiB.
  const auto stuck = spawn_on(core, lands->write(source.bytes(), 0, deadline_in(std::chrono::milliseconds(200)))).get();
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error(), Errc::timed_out);
  const auto readable = client->lend(memory, Access::server_reads);
  const auto from = window(**readable, Access::server_reads);
  const auto silent = spawn_on(core, from->read(source.bytes(), 0, deadline_in(std::chrono::milliseconds(200)))).get();
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error(), Errc::timed_out);
  // It wakes up, and goes on.
  EXPECT_TRUE(ask("still there?"));
  EXPECT_TRUE(*get(pattern(MiB, 13)) == pattern(MiB, 13));
  EXPECT_TRUE(*put(pattern(MiB, 14)) == pattern(MiB, 14));
}

TEST_F(SealedTest, APortThatGoesEndsItsTransfers) {
  start();
  connect();
  Message memory(MiB);
  auto lent = client->lend(memory, Access::server_reads);
  ASSERT_TRUE(lent && ask("hello"));
  auto target = std::move(*arena->lease(MiB));
  const auto from = window(**lent, Access::server_reads);
  auto done = spawn_on(core, from->read(target.bytes(), 0, deadline_in(std::chrono::seconds(20))));
  call_on(core, [this] { return port.reset(), 0; });
  EXPECT_EQ(done.get().error(), Errc::closed);
}

// A window is watched while records come that cannot be opened: it never holds another byte than before.
TEST_F(SealedTest, NothingOfAForgedRecordIsSeenInTheWindow) {
  start();
  connect();
  Message memory(256 * KiB, std::byte{0xaa});
  auto lent = client->lend(memory, Access::server_writes);
  ASSERT_TRUE(lent && ask("a request"));
  wire.written = [](MutableBytes on_way) { on_way.back() ^= std::byte{1}; };
  const auto bytes = pattern(256 * KiB, 16);
  const auto source = lease(bytes);
  const auto lands = window(**lent, Access::server_writes);
  constexpr size_t forged = 192 * KiB;  // the last record
  std::atomic<bool> stop = false, seen = false;
  std::thread watcher([&] {
    while (!stop) {
      if (__atomic_load_n(reinterpret_cast<unsigned char*>(&memory[forged]), __ATOMIC_RELAXED) != 0xaa) seen = true;
    }
  });
  (void)driven(lands->write(source.bytes(), 0, deadline_in(limit)));
  limit = std::chrono::seconds(2);
  EXPECT_FALSE(ask("done"));
  stop = true;
  watcher.join();
  EXPECT_FALSE(seen);
  EXPECT_TRUE(std::ranges::equal(Bytes(memory).first(forged), Bytes(bytes).first(forged))) << "those were right";
  EXPECT_TRUE(std::ranges::all_of(Bytes(memory).subspan(forged), [](std::byte b) { return b == std::byte{0xaa}; }));
}

TEST_F(SealedTest, BuffersThatAreNotNeededGoBackToTheArena) {
  start();
  connect();
  ASSERT_TRUE(ask("hello"));
  const size_t before = arena->leased_bytes();
  const auto bytes = pattern(MiB, 17);
  ASSERT_TRUE(*get(bytes) == bytes);
  EXPECT_GT(arena->leased_bytes(), before) << "some are kept for the next transfer";
  EXPECT_TRUE(eventually([&] { return arena->leased_bytes() == before; }));
  EXPECT_TRUE(*get(bytes) == bytes);
}

// More than the queue below takes at once: what waits leaves as soon as there is room, without another message.
TEST_F(SealedTest, WhatWaitsForAQueueLeavesWithoutAnotherMessage) {
  start();
  connect();
  Message memory(MiB);
  auto lent = client->lend(memory, Access::server_writes);
  ASSERT_TRUE(lent && ask("a request"));
  {
    const std::lock_guard lock(wire.mutex);
    wire.full = 20;
  }
  const auto bytes = pattern(4 * KiB, 18);
  const auto source = lease(bytes);
  const auto lands = window(**lent, Access::server_writes);
  ASSERT_TRUE(spawn_on(core, lands->write(source.bytes(), 0, deadline_in(limit))).get());
  EXPECT_TRUE(eventually([&] {
    EXPECT_TRUE(client->poll([](Bytes) {}));
    return std::ranges::equal(Bytes(memory).first(bytes.size()), bytes);
  }));
}

// Each vain attempt to answer a client that does not read cost a whole encryption, thousands of them each turn.
TEST_F(SealedTest, NothingIsSealedForAPeerWhoseQueueIsFull) {
  start();
  connect();
  Message memory(MiB);
  auto lent = client->lend(memory, Access::server_writes);
  ASSERT_TRUE(lent && ask("a request"));
  const auto source = lease(pattern(4 * KiB, 19));
  const auto lands = window(**lent, Access::server_writes);
  wire.says_full = true;
  const int before = wire.sends;
  for (int i = 0; i < 100; ++i) {
    const auto sent = call_on(core, [&] { return port->send(peer, as_bytes("an answer")); });
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error(), Errc::would_block);
  }
  EXPECT_FALSE(call_on(core, [&] { return port->may_send(peer); }));
  // A record that waits is tried again each turn.
  ASSERT_TRUE(spawn_on(core, lands->write(source.bytes(), 0, deadline_in(limit))).get());
  for (int i = 0; i < 100; ++i) call_on(core, [] { return 0; });
  EXPECT_EQ(wire.sends, before);
  wire.says_full = false;
  EXPECT_TRUE(eventually([&] {
    EXPECT_TRUE(client->poll([](Bytes) {}));
    return std::ranges::equal(Bytes(memory).first(4 * KiB), source.bytes());
  }));
}

TEST_F(SealedTest, ASecondPeerOfOneConnectionIsRefused) {
  start();
  connect();
  ASSERT_TRUE(ask("hello"));
  bool refused = false;
  call_on(core, [&] {
    port->on_message([&](PeerId, Bytes) { refused = !port->add_peer("another"); });
    return 0;
  });
  ASSERT_TRUE(client->send(as_bytes("a hello of another session")));
  EXPECT_TRUE(eventually([&] { return call_on(core, [&] { return refused; }); }));
}

// Opened straight out of such memory, a record would be taken whose tag was computed before a byte changed.
TEST(SealedChannel, ARecordInMemoryThatChangesMeanwhileGivesItsBytesOrNone) {
  for (const Sealing sealing : {Sealing::aes_256_gcm, Sealing::chacha20_poly1305}) {
    Channel sends(1, derive(key_of(1, sealing), {}, Side::server), std::nullopt, 4096);
    Channel opens(1, derive(key_of(1, sealing), {}, Side::client), Salt{}, 4096);
    const Message plain = pattern(record_size_max, 17);
    Message ring(plain.size());
    const Place place{.key = 1, .offset = 0, .length = record_size_max};
    const Seals seals = *sends.seal_records(place, plain, ring.data());
    size_t taken = 0, other = 0;
    const auto open = [&] {
      return opens.open_shared(place, seals, ring, [&](const Place&, Bytes bytes) {
        ++taken;
        if (!std::ranges::equal(bytes, plain)) ++other;
      });
    };
    ASSERT_TRUE(open());
    std::atomic<bool> stop = false;
    std::thread attacker([&] {
      auto* const byte = reinterpret_cast<unsigned char*>(&ring[30'000]);
      while (!stop) __atomic_fetch_xor(byte, 1, __ATOMIC_RELAXED);
    });
    for (int i = 0; i < 1000; ++i) (void)open();
    stop = true;
    attacker.join();
    EXPECT_EQ(other, 0u) << "of " << taken;
  }
}

TEST(SealedFrames, RandomBodiesAreReadOrRefused) {
  std::mt19937_64 random(15);
  for (int i = 0; i < 200'000; ++i) {
    Message body(random() % 200);
    for (auto& byte : body) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : random() % 3);
    Bytes left(body);
    for (int n = 0; n < 8 && !left.empty(); ++n) {
      if (!take_record(left)) break;
    }
    (void)decode_rings(body), (void)decode_want(body), (void)decode_ready(body), (void)decode_segment(body);
    (void)decode_header(body);
  }
  Record record{.place = {7, 9, 100'000}, .inside = std::nullopt, .segment = 3, .seals = {}};
  record.seals = {.first = 5, .tags = {{}, {}}};
  Message body;
  encode(record, body);
  EXPECT_LE(body.size(), record_overhead + 2 * aead_tag_size);
  Bytes left(body);
  const auto back = take_record(left);
  ASSERT_TRUE(back && left.empty());
  EXPECT_EQ(back->place.length, 100'000u);
  EXPECT_EQ(back->segment, 3);
  EXPECT_EQ(back->seals.first, 5u);
}

TEST(SealingNames, ACipherThatThisMachineForbidsIsNotUsable) {
  const auto gcm_only = [](AeadKind kind) { return kind == AeadKind::aes_256_gcm; };
  EXPECT_EQ(usable_sealing_of("aes-256-gcm", gcm_only), Sealing::aes_256_gcm);
  EXPECT_EQ(usable_sealing_of("chacha20-poly1305", gcm_only), Sealing::none);
  EXPECT_EQ(usable_sealing_of("rot13", gcm_only), Sealing::none);
  EXPECT_EQ(sealing_of("chacha20-poly1305"), Sealing::chacha20_poly1305);
}

TEST(SealingNames, TheCiphersOfAMachineAreListedTheFastestFirst) {
  using List = std::vector<Sealing>;
  const auto all = [](AeadKind) { return true; };
  const auto gcm_only = [](AeadKind kind) { return kind == AeadKind::aes_256_gcm; };
  EXPECT_EQ(usable_sealings(all, AeadKind::aes_256_gcm), (List{Sealing::aes_256_gcm, Sealing::chacha20_poly1305}));
  EXPECT_EQ(usable_sealings(all, AeadKind::chacha20_poly1305),
            (List{Sealing::chacha20_poly1305, Sealing::aes_256_gcm}));
  EXPECT_EQ(usable_sealings(gcm_only, AeadKind::chacha20_poly1305), List{Sealing::aes_256_gcm});
}

}  // namespace
}  // namespace verbena::fabric::sealed
