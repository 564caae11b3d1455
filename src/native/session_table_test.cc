#include "native/session_table.h"

#include <gtest/gtest.h>

#include <cstring>

#include "native/session_stream.h"

namespace verbena::native {
namespace {

using std::chrono::seconds;

Result<wire::MasterKey> no_key(uint64_t) { return wire::MasterKey{}; }

std::shared_ptr<Session> add(SessionTable& table) {
  auto session = std::make_shared<Session>();
  EXPECT_TRUE(table.add(session, no_key));
  return session;
}

TEST(SessionTable, FindsWhatWasAddedUntilItEnds) {
  SessionTable table({.sessions_max = 10, .idle_timeout = seconds(10), .hello_timeout = seconds(1)});
  auto session = add(table);
  EXPECT_EQ(table.find(session->id), session);
  EXPECT_EQ(table.find(session->id + 1), nullptr);
  table.end(session->id);
  EXPECT_TRUE(session->ended);
  EXPECT_EQ(table.find(session->id), nullptr);
  table.end(session->id);
  EXPECT_EQ(table.size(), 0u);
}

TEST(SessionTable, IsBounded) {
  SessionTable table({.sessions_max = 2, .idle_timeout = seconds(10), .hello_timeout = seconds(1)});
  auto a = add(table), b = add(table);
  auto refused = table.add(std::make_shared<Session>(), no_key);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errc::slow_down);
  table.end(a->id);
  add(table);
  EXPECT_EQ(table.size(), 2u);
}

// An exchange of keys costs a core tens of microseconds: no caller has one beyond its limits.
TEST(SessionTable, MakesNoKeyWithoutAPlaceAndKeepsNoPlaceWithoutAKey) {
  SessionTable table({.sessions_max = 2, .idle_timeout = seconds(10), .hello_timeout = seconds(1)});
  int made = 0;
  const auto count = [&made](uint64_t) -> Result<wire::MasterKey> {
    ++made;
    return wire::MasterKey{};
  };
  const auto refuse = [](uint64_t) -> Result<wire::MasterKey> { return fail(Errc::invalid_argument); };
  ASSERT_TRUE(table.add(std::make_shared<Session>(), count));
  for (int i = 0; i < 5; ++i) {
    const auto refused = table.add(std::make_shared<Session>(), refuse);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), Errc::invalid_argument);
  }
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.all().size(), 1u);
  ASSERT_TRUE(table.add(std::make_shared<Session>(), count));
  EXPECT_FALSE(table.add(std::make_shared<Session>(), count));
  EXPECT_EQ(made, 2);
}

std::shared_ptr<Session> session_of(const std::string& account, const std::string& address, bool superuser = false) {
  auto session = std::make_shared<Session>();
  auto principal = std::make_shared<auth::Principal>();
  auto named = std::make_shared<auth::Account>();
  named->id = account;
  principal->account = std::move(named);
  principal->superuser = superuser;
  session->identity.principal = std::move(principal);
  session->peer_address = address;
  return session;
}

bool fits(SessionTable& table, const std::shared_ptr<Session>& session) {
  const auto added = table.add(session, no_key);
  if (!added) {
    EXPECT_EQ(added.error(), Errc::slow_down);
  }
  return added.has_value();
}

// A user without any policy opened all possible sessions: root got none.
TEST(SessionTable, OneAccountCannotTakeAllSessionsAndSomeAreKeptForRoot) {
  SessionTable table({.sessions_max = 10,
                      .idle_timeout = seconds(10),
                      .hello_timeout = seconds(1),
                      .account_max = 4,
                      .client_max = 0,
                      .reserved = 2});
  std::vector<std::shared_ptr<Session>> alice;
  for (int i = 0; i < 4; ++i) {
    alice.push_back(session_of("alice", "192.0.2." + std::to_string(i)));
    EXPECT_TRUE(fits(table, alice.back()));
  }
  EXPECT_FALSE(fits(table, session_of("alice", "192.0.2.9")));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(fits(table, session_of("bob" + std::to_string(i), "192.0.2.1")));
  EXPECT_FALSE(fits(table, session_of("carol", "192.0.2.1")));
  EXPECT_TRUE(fits(table, session_of("root", "192.0.2.1", true)));
  EXPECT_TRUE(fits(table, session_of("root", "192.0.2.1", true)));
  EXPECT_FALSE(fits(table, session_of("root", "192.0.2.1", true)));
  for (const auto& session : alice) table.end(session->id);
  EXPECT_TRUE(fits(table, session_of("alice", "192.0.2.1")));
}

// With a session of one directory bucket that root had opened, a worker used the places reserved for root.
TEST(SessionTable, ALimitedSessionOfRootIsOneOfItsAccounts) {
  SessionTable table({.sessions_max = 4,
                      .idle_timeout = seconds(10),
                      .hello_timeout = seconds(1),
                      .account_max = 2,
                      .client_max = 0,
                      .reserved = 2});
  const auto worker = [] {
    auto session = session_of("root", "192.0.2.1", true);
    auth::AccessKey key{.credentials = {}, .principal = session->identity.principal};
    key.limits = auth::BucketSession{.bucket = "b--local1-az1--x-s3", .read_only = true};
    session->identity.key = std::make_shared<const auth::AccessKey>(std::move(key));
    return session;
  };
  EXPECT_TRUE(fits(table, worker()));
  EXPECT_TRUE(fits(table, worker()));
  EXPECT_FALSE(fits(table, worker()));
  EXPECT_TRUE(fits(table, session_of("root", "192.0.2.1", true)));
}

TEST(SessionTable, OneAddressCannotTakeAllSessions) {
  SessionTable table({.sessions_max = 10,
                      .idle_timeout = seconds(10),
                      .hello_timeout = seconds(1),
                      .account_max = 0,
                      .client_max = 2,
                      .reserved = 0});
  EXPECT_TRUE(fits(table, session_of("a", "2001:db8::1")));
  EXPECT_TRUE(fits(table, session_of("b", "2001:db8::2")));
  EXPECT_FALSE(fits(table, session_of("c", "2001:db8::3")));
  EXPECT_TRUE(fits(table, session_of("c", "2001:db8:0:1::3")));
  EXPECT_TRUE(fits(table, session_of("root", "2001:db8::4", true)));
  // The next sweep ends sessions without a HELLO.
  EXPECT_EQ(table.sweep(SteadyClock::now() + seconds(2)), 4u);
  EXPECT_TRUE(fits(table, session_of("c", "2001:db8::3")));
}

TEST(SessionTable, ForgetsTheIdleAndTheNeverUsed) {
  SessionTable table({.sessions_max = 10, .idle_timeout = seconds(10), .hello_timeout = seconds(1)});
  const auto now = SteadyClock::now();
  auto used = add(table), unused = add(table);
  used->claimed = true;
  EXPECT_EQ(table.sweep(now), 0u);
  EXPECT_EQ(table.sweep(now + seconds(2)), 1u);
  EXPECT_TRUE(unused->ended);
  EXPECT_FALSE(used->ended);
  EXPECT_EQ(table.sweep(now + seconds(11)), 1u);
  EXPECT_EQ(table.size(), 0u);
}

TEST(NonceMemory, RemembersForAsLongAsASignatureIsGood) {
  NonceMemory memory;
  const auto now = SteadyClock::now();
  const wire::Nonce nonce{};
  EXPECT_TRUE(memory.take(nonce, {}, now));
  EXPECT_EQ(memory.take(nonce, {}, now + std::chrono::minutes(30)).error(), Errc::access_denied);
  EXPECT_TRUE(memory.take(nonce, {}, now + std::chrono::minutes(32)));
}

wire::Nonce numbered(uint64_t number) {
  wire::Nonce nonce{};
  std::memcpy(nonce.data(), &number, sizeof number);
  return nonce;
}

// 65,536 signed requests of any tenant made it forget all others': a captured request could be replayed. A refusal
// instead would keep out all users of an account for half an hour.
TEST(NonceMemory, OfOneAccountForgetsItsOwnAndKeepsThoseOfOthers) {
  NonceMemory memory;
  const auto now = SteadyClock::now();
  const auto victim = session_of("victim", "")->identity, flood = session_of("flood", "")->identity;
  uint64_t number = 0;
  const wire::Nonce captured = numbered(++number), first = numbered(++number);
  ASSERT_TRUE(memory.take(captured, victim, now));
  ASSERT_TRUE(memory.take(first, flood, now));
  for (size_t i = 1; i < NonceMemory::account_max; ++i) ASSERT_TRUE(memory.take(numbered(++number), flood, now)) << i;
  EXPECT_EQ(memory.take(first, flood, now).error(), Errc::access_denied);
  EXPECT_TRUE(memory.take(numbered(++number), flood, now)) << "no user of the account is kept out";
  EXPECT_TRUE(memory.take(first, flood, now)) << "its own oldest is forgotten";
  EXPECT_EQ(memory.take(captured, victim, now).error(), Errc::access_denied);
  // Many accounts together: those that have most lose theirs.
  for (size_t i = 0; i < NonceMemory::size_max; ++i) {
    ASSERT_TRUE(memory.take(numbered(++number), session_of("account " + std::to_string(i % 8), "")->identity, now))
        << i;
  }
  EXPECT_EQ(memory.take(captured, victim, now).error(), Errc::access_denied);
  const auto later = now + NonceMemory::keep_for + seconds(1);
  EXPECT_TRUE(memory.take(captured, victim, later)) << "its signature is good no longer";
}

TEST(StreamMap, FindsEachOfManyAndForgetsTheDropped) {
  StreamMap streams;
  EXPECT_EQ(streams.find(1), nullptr);
  for (uint64_t id = 1; id <= 1000; ++id) {
    auto stream = std::make_shared<SessionStream>();
    stream->session = std::make_shared<Session>();
    stream->session->id = id * 0x10000;  // adjacent in the table
    streams.add(stream);
  }
  EXPECT_EQ(streams.size(), 1000u);
  for (uint64_t id = 1; id <= 1000; ++id) ASSERT_EQ(streams.find(id * 0x10000)->session->id, id * 0x10000);
  streams.keep_if([](const SessionStream& stream) { return stream.session->id > 500 * 0x10000; });
  EXPECT_EQ(streams.size(), 500u);
  EXPECT_EQ(streams.find(0x10000), nullptr);
  EXPECT_NE(streams.find(501 * 0x10000), nullptr);
  EXPECT_EQ(streams.find(77), nullptr);
}

}  // namespace
}  // namespace verbena::native
