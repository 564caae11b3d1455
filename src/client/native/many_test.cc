// Batches between a session and a native door on real fabrics, over a store in memory.
#include "client/native/many.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <stdexcept>

#include "client/native/dial.h"
#include "client/native/match.h"
#include "client/native/test_server.h"

namespace verbena::client {
namespace {

namespace wire = native::wire;

class NativeManyTest : public testing::TestWithParam<std::string> {
 protected:
  NativeTestServer server_{{.provider = GetParam()}};
  std::unique_ptr<NativeSession> session_ = server_.session();
  std::vector<std::string> keys_;
  std::vector<BatchItem> items_;
  std::vector<std::byte> plain_;
  std::shared_ptr<NativeMemory> lendable_;

  void name(size_t count, size_t size) {
    for (size_t i = 0; i < count; ++i) keys_.push_back("a/prefix/that/all/have/" + std::to_string(i));
    for (size_t i = 0; i < count; ++i) {
      items_.push_back({.bucket = "bucket", .key = keys_[i], .offset = i * size, .size = size});
    }
  }
  MutableBytes memory(bool lendable) {
    const size_t size = items_.back().offset + items_.back().size;
    plain_.assign(size, std::byte{0});
    if (!lendable) return plain_;
    lendable_ = *session_->allocate(size);
    std::ranges::fill(lendable_->bytes(), std::byte{0});
    return lendable_->bytes().first(size);
  }
  ManyCall call_of(wire::Type type, std::span<const MutableBytes> windows, std::span<BatchResult> results) const {
    ManyCall call;
    call.type = type;
    call.items = items_;
    call.windows = windows;
    call.results = results;
    return call;
  }
  Result<void> run(ManyCall& call) {
    return session_->with_streams(false, [&](NativeStreams& streams) { return run_many(streams, call); });
  }
};

TEST_P(NativeManyTest, ABatchReadsByOneLeaseAndJoinsAnotherOfTheSameCore) {
  ASSERT_TRUE(session_);
  name(1, 10);
  server_.store.put("bucket", keys_[0], "ten bytes.");
  std::vector<BatchResult> results(1);
  BatchLease taken{.time = std::chrono::seconds(60)};
  ManyCall head = call_of(wire::Type::head_many, {}, results);
  head.take = &taken;
  ASSERT_TRUE(run(head));
  ASSERT_NE(taken.lease, 0u);
  const size_t core = ClientLease::core(taken.lease);
  const MutableBytes window = memory(false);
  const std::vector<MutableBytes> windows{window};
  ManyCall get = call_of(wire::Type::get_many, windows, results);
  get.take = &taken;
  get.lease = ClientLease::make(1 - core, 1);
  const auto refused = run(get);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errc::invalid_argument);
  get.lease = ClientLease::make(core, 1);
  EXPECT_TRUE(run(get));
  EXPECT_EQ(as_text(window), "ten bytes.");
}

TEST_P(NativeManyTest, ThousandsOfObjectsGoInAndOutByFewMessages) {
  ASSERT_TRUE(session_);
  for (const size_t size : {size_t{100}, size_t{3000}}) {
    for (const bool lendable : {true, false}) {
      keys_.clear();
      items_.clear();
      name(1500, size);
      const MutableBytes window = memory(lendable);
      std::mt19937 random(1);
      for (auto& byte : window) byte = static_cast<std::byte>(random());
      const std::vector<std::byte> before(window.begin(), window.end());
      std::vector<BatchResult> results(items_.size());
      ManyCall put = call_of(wire::Type::put_many, std::span(&window, 1), results);
      ASSERT_TRUE(run(put));
      for (const auto& result : results) ASSERT_FALSE(result.error);
      EXPECT_EQ(server_.store.count("bucket"), 1500u);

      std::ranges::fill(window, std::byte{0});
      size_t leading = 0;
      ManyCall get = call_of(wire::Type::get_many, std::span(&window, 1), results);
      get.in_order = [&](size_t n) {
        EXPECT_GT(n, leading);
        const size_t from = leading * size, bytes = (n - leading) * size;
        EXPECT_EQ(std::memcmp(window.data() + from, before.data() + from, bytes), 0) << n;
        leading = n;
      };
      ASSERT_TRUE(run(get));
      EXPECT_EQ(leading, items_.size());
      for (const auto& result : results) {
        ASSERT_FALSE(result.error);
        ASSERT_EQ(result.bytes, size);
      }
      EXPECT_EQ(std::memcmp(window.data(), before.data(), before.size()), 0);

      ManyCall head = call_of(wire::Type::head_many, {}, results);
      ASSERT_TRUE(run(head));
      EXPECT_EQ(results[1499].size, size);
      ManyCall remove = call_of(wire::Type::delete_many, {}, results);
      ASSERT_TRUE(run(remove));
      EXPECT_TRUE(server_.store.count("bucket") == 0);
    }
  }
}

TEST_P(NativeManyTest, AnItemsFailureIsItsOwn) {
  ASSERT_TRUE(session_);
  name(6, 1000);
  server_.store.put("bucket", keys_[0], std::string(1000, 'a'));
  server_.store.put("bucket", keys_[2], std::string(1001, 'c'));
  server_.store.put("bucket", keys_[3], std::string(10, 'd'));
  server_.store.put("bucket", keys_[5], std::string(1000, 'f'));
  items_[4].bucket = "absent";
  items_[5].if_none_match = "*";
  const MutableBytes window = memory(true);
  std::vector<BatchResult> results(items_.size());
  ManyCall get = call_of(wire::Type::get_many, std::span(&window, 1), results);
  ASSERT_TRUE(run(get));
  EXPECT_FALSE(results[0].error);
  EXPECT_EQ(results[1].error, ErrorCode::no_such_key);
  EXPECT_EQ(results[2].error, ErrorCode::buffer_too_small);
  EXPECT_FALSE(results[3].error);
  EXPECT_EQ(results[3].bytes, 10u);
  EXPECT_EQ(results[4].error, ErrorCode::no_such_bucket);
  EXPECT_EQ(results[5].error, ErrorCode::not_modified);
  EXPECT_EQ(as_text(Bytes(window).subspan(3000, 12)), std::string(10, 'd') + std::string(2, '\0'));
}

// Small bytes are sent in the reply, and the server does not know their places: the whole batch failed as malformed.
TEST_P(NativeManyTest, AnItemThatIsTooLongForItsPlaceFailsAloneInAReplyToo) {
  ASSERT_TRUE(session_);
  name(3, 10);
  const MutableBytes window = memory(true);
  std::ranges::fill(window, std::byte{7});
  std::vector<BatchResult> results(items_.size());
  ManyCall put = call_of(wire::Type::put_many, std::span(&window, 1), results);
  ASSERT_TRUE(run(put));
  for (const size_t room : {size_t{9}, size_t{0}}) {
    std::ranges::fill(window, std::byte{0});
    items_[1].size = room;
    ManyCall get = call_of(wire::Type::get_many, std::span(&window, 1), results);
    ASSERT_TRUE(run(get));
    EXPECT_FALSE(results[0].error);
    EXPECT_EQ(results[1].error, ErrorCode::buffer_too_small);
    EXPECT_EQ(results[1].bytes, 0u);
    EXPECT_FALSE(results[2].error);
    EXPECT_EQ(std::ranges::count(window, std::byte{7}), 20);
    EXPECT_EQ(std::ranges::count(window.subspan(10, 10), std::byte{0}), 10);
  }
}

TEST_P(NativeManyTest, SeveralCallersShareTheCredits) {
  ASSERT_TRUE(session_);
  name(1000, 400);
  for (const auto& key : keys_) server_.store.put("bucket", key, std::string(400, key.back()));
  std::vector<std::jthread> callers;
  std::atomic<int> good{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      std::vector<std::byte> memory(400 * 1000);
      const MutableBytes window(memory);
      std::vector<BatchResult> results(items_.size());
      for (int round = 0; round < 5; ++round) {
        ManyCall get = call_of(wire::Type::get_many, std::span(&window, 1), results);
        if (!run(get)) return;
        for (size_t i = 0; i < items_.size(); ++i) {
          if (results[i].error || memory[i * 400] != static_cast<std::byte>(keys_[i].back())) return;
        }
      }
      ++good;
    });
  }
  callers.clear();
  EXPECT_EQ(good, 4);
}

// Passes everything on.
class PassingLink : public fabric::Link {
 public:
  explicit PassingLink(std::unique_ptr<fabric::Link> link) : link_(std::move(link)) {}
  std::string_view provider() const override { return link_->provider(); }
  std::string address() const override { return link_->address(); }
  size_t message_size_max() const override { return link_->message_size_max(); }
  Result<void> send(Bytes message) override { return link_->send(message); }
  Result<size_t> poll(const OnMessage& handler) override { return link_->poll(handler); }
  void wait(Deadline deadline) override { link_->wait(deadline); }
  void wake() override { link_->wake(); }
  Result<std::unique_ptr<fabric::Lent>> lend(MutableBytes memory, fabric::Access access) override {
    return link_->lend(memory, access);
  }
  Result<std::shared_ptr<MutableBytes>> allocate(size_t size) override { return link_->allocate(size); }

 private:
  std::unique_ptr<fabric::Link> link_;
};

// Delivers no messages while held; the server still reaches lent memory.
class HeldLink final : public PassingLink {
 public:
  enum State { open, held, broken };
  HeldLink(std::unique_ptr<fabric::Link> link, std::shared_ptr<std::atomic<State>> state)
      : PassingLink(std::move(link)), state_(std::move(state)) {}
  Result<size_t> poll(const OnMessage& handler) override {
    if (*state_ == broken) return fail(Errc::closed, "test: broken");
    return *state_ == held ? Result<size_t>(0) : PassingLink::poll(handler);
  }

 private:
  std::shared_ptr<std::atomic<State>> state_;
};

// Counts the messages of reads.
class CountingLink final : public PassingLink {
 public:
  CountingLink(std::unique_ptr<fabric::Link> link, std::atomic<size_t>& reads)
      : PassingLink(std::move(link)), reads_(reads) {}
  Result<void> send(Bytes message) override {
    const auto header = wire::parse_header(message, message_size_max());
    if (header && header->type == static_cast<uint8_t>(wire::Type::get_many)) ++reads_;
    return PassingLink::send(message);
  }

 private:
  std::atomic<size_t>& reads_;
};

// Of one core, for 64 objects of 64 KiB.
class ManyMessages : public testing::TestWithParam<std::string> {
 protected:
  static constexpr size_t count = 64, size = 64 * KiB;
  // Reads all into this memory, and returns the number of messages.
  size_t read(MutableBytes window, bool in_order) {
    std::vector<BatchResult> results(count);
    ManyCall get;
    get.items = items_;
    get.windows = std::span(&window, 1);
    get.results = results;
    size_t told = 0;
    if (in_order) get.in_order = [&](size_t n) { told = n; };
    reads_ = 0;
    std::ranges::fill(window, std::byte{0});
    const auto done = session_->with_streams(false, [&](NativeStreams& streams) { return run_many(streams, get); });
    EXPECT_TRUE(done) << describe(done.error());
    EXPECT_EQ(told, in_order ? count : 0);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_FALSE(results[i].error);
      EXPECT_EQ(std::ranges::count(window.subspan(i * size, size), std::byte(i + 1)), size) << i;
    }
    return reads_;
  }
  void SetUp() override {
    NativeOptions options = server_.options();
    options.dial = [this, dial = make_native_dial(options)](
                       const NativeEndpoint& endpoint,
                       const SessionTerms& terms) -> Result<std::unique_ptr<fabric::Link>> {
      VB_ASSIGN(auto link, dial(endpoint, terms));
      return std::make_unique<CountingLink>(std::move(link), reads_);
    };
    auto opened = NativeSession::open(options);
    ASSERT_TRUE(opened) << describe(opened.error());
    session_ = std::move(*opened);
    for (size_t i = 0; i < count; ++i) keys_.push_back("k" + std::to_string(i));
    for (size_t i = 0; i < count; ++i) {
      server_.store.put("bucket", keys_[i], std::string(size, static_cast<char>(i + 1)));
      items_.push_back({.bucket = "bucket", .key = keys_[i], .offset = i * size, .size = size});
    }
  }

  NativeTestServer server_{{.provider = GetParam(), .cores = 1}};
  std::unique_ptr<NativeSession> session_;
  std::atomic<size_t> reads_{0};
  std::vector<std::string> keys_;
  std::vector<BatchItem> items_;
};

TEST_P(ManyMessages, ABatchWithoutOrderIsOne) {
  const auto memory = *session_->allocate(count * size);
  EXPECT_EQ(read(memory->bytes().first(count * size), false), 1u);
}

// 512 KiB, 1 MiB, 2 MiB and the rest.
TEST_P(ManyMessages, ABatchInOrderBeginsWithASmallOne) {
  const auto memory = *session_->allocate(count * size);
  EXPECT_EQ(read(memory->bytes().first(count * size), true), 4u);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ManyMessages, testing::Values("local", "tcp"));

// A session that breaks is replaced, and unanswered items are requested again. An item already reported to the caller
// gets the result for the same bytes or an error: never that of new bytes after an overwrite.
TEST(NativeManyInOrder, WhatTheCallerWasToldOfHasNoResultOfOtherBytesWhenTheSessionBreaks) {
  NativeTestServer server({.cores = 1});
  NativeOptions options = server.options();
  options.providers = {"local"};
  std::vector<std::shared_ptr<std::atomic<HeldLink::State>>> links;
  options.dial = [&, dial = make_native_dial(options)](
                     const NativeEndpoint& endpoint,
                     const SessionTerms& terms) -> Result<std::unique_ptr<fabric::Link>> {
    VB_ASSIGN(auto link, dial(endpoint, terms));
    links.push_back(std::make_shared<std::atomic<HeldLink::State>>(HeldLink::open));
    return std::make_unique<HeldLink>(std::move(link), links.back());
  };
  auto session = NativeSession::open(options);
  ASSERT_TRUE(session) << describe(session.error());
  constexpr size_t count = 8, size = 1000;
  enum { plain, any_etag, null_version, by_etag };
  std::vector<std::string> keys, etags;
  std::vector<BatchItem> items;
  for (size_t i = 0; i < count; ++i) keys.push_back("k" + std::to_string(i));
  for (size_t i = 0; i < count; ++i) {
    server.store.put("bucket", keys[i], std::string(size, 's'));
    items.push_back({.bucket = "bucket", .key = keys[i], .offset = i * size, .size = size});
  }
  std::vector<BatchResult> results(count);
  ManyCall head;
  head.type = wire::Type::head_many;
  head.items = items;
  head.results = results;
  const auto ask = [&](NativeStreams& streams) { return run_many(streams, head); };
  ASSERT_TRUE((*session)->with_streams(true, ask));
  for (const BatchResult& result : results) etags.push_back(result.etag);
  items[any_etag].if_match = "*";
  items[null_version].version_id = "null";
  items[by_etag].if_match = etags[by_etag];
  const auto memory = *(*session)->allocate(count * size);
  const MutableBytes window = memory->bytes().first(count * size);
  std::ranges::fill(window, std::byte{0});
  ManyCall get;
  get.items = items;
  get.windows = std::span(&window, 1);
  get.results = results;
  size_t told = 0;
  get.in_order = [&](size_t n) {
    EXPECT_GT(n, told);
    EXPECT_EQ(as_text(window.subspan(told * size, (n - told) * size)), std::string((n - told) * size, 's'));
    std::ranges::fill(window.first(n * size), std::byte{'u'});  // the caller reuses the memory
    told = n;
    if (n < count) return;
    for (size_t i = 0; i < count; ++i) {
      if (i != by_etag) server.store.put("bucket", keys[i], std::string(size / 2, 'z'));
    }
    *links.front() = HeldLink::broken;
  };
  const size_t before = links.size();
  *links.front() = HeldLink::held;
  const auto once = [&](NativeStreams& streams) { return run_many(streams, get); };
  const auto done = (*session)->with_streams(true, once);
  ASSERT_TRUE(done) << describe(done.error());
  EXPECT_EQ(links.size(), before + 1);
  EXPECT_EQ(told, count);
  for (size_t i = 0; i < count; ++i) {
    if (i == by_etag) continue;
    ASSERT_TRUE(results[i].error) << i << ": a result of " << results[i].size << " bytes for others";
    EXPECT_EQ(*results[i].error, ErrorCode::connection_failed) << i;
    EXPECT_EQ(results[i].bytes, 0u) << i;
    EXPECT_EQ(results[i].etag, "") << i;
  }
  EXPECT_FALSE(results[by_etag].error);
  EXPECT_EQ(results[by_etag].bytes, size);
  EXPECT_EQ(results[by_etag].etag, etags[by_etag]);
  EXPECT_EQ(as_text(window), std::string(count * size, 'u')) << "the caller's places were written again";
}

// A session whose link can be held, and objects with checksums.
class HeldMany : public testing::Test {
 protected:
  static constexpr size_t count = 8, size = 1000;
  void SetUp() override {
    NativeOptions options = server_.options();
    options.providers = {"local"};
    options.dial = [this, dial = make_native_dial(options)](
                       const NativeEndpoint& endpoint,
                       const SessionTerms& terms) -> Result<std::unique_ptr<fabric::Link>> {
      VB_ASSIGN(auto link, dial(endpoint, terms));
      return std::make_unique<HeldLink>(std::move(link), link_);
    };
    auto session = NativeSession::open(options);
    ASSERT_TRUE(session) << describe(session.error());
    session_ = std::move(*session);
    for (size_t i = 0; i < count; ++i) keys_.push_back("k" + std::to_string(i));
    for (size_t i = 0; i < count; ++i) {
      items_.push_back({.bucket = "bucket", .key = keys_[i], .offset = i * size, .size = size});
    }
    memory_ = *session_->allocate(count * size);
    window_ = memory_->bytes().first(count * size);
    std::ranges::fill(window_, std::byte{'s'});
    ManyCall put = call(wire::Type::put_many);
    put.checked = true;
    ASSERT_TRUE(run(put));
    std::ranges::fill(window_, std::byte{0});
  }
  ManyCall call(wire::Type type) {
    ManyCall call;
    call.type = type;
    call.items = items_;
    call.windows = std::span(&window_, 1);
    call.results = results_;
    return call;
  }
  Result<void> run(ManyCall& call) {
    return session_->with_streams(true, [&](NativeStreams& streams) { return run_many(streams, call); });
  }

  NativeTestServer server_{{.cores = 1}};
  std::shared_ptr<std::atomic<HeldLink::State>> link_ = std::make_shared<std::atomic<HeldLink::State>>(HeldLink::open);
  std::unique_ptr<NativeSession> session_;
  std::vector<std::string> keys_;
  std::vector<BatchItem> items_;
  std::vector<BatchResult> results_ = std::vector<BatchResult>(count);
  std::shared_ptr<NativeMemory> memory_;
  MutableBytes window_;
};

// What the caller had put there since was taken for the object's bytes, and did not match its checksum.
TEST_F(HeldMany, AReportedPlaceThatItsCallerUsesAgainIsNotTakenForADamagedObject) {
  for (const bool reuses : {true, false}) {
    ManyCall get = call(wire::Type::get_many);
    get.verify = true;
    size_t told = 0;
    get.in_order = [&](size_t n) {
      if (reuses) std::ranges::fill(window_.first(n * size), std::byte{'u'});
      told = n;
      if (n == count) *link_ = HeldLink::open;
    };
    *link_ = HeldLink::held;
    const auto done = run(get);
    ASSERT_TRUE(done) << describe(done.error());
    EXPECT_EQ(told, count);
    for (const BatchResult& result : results_) {
      EXPECT_FALSE(result.error) << to_string(*result.error);
      EXPECT_EQ(result.bytes, size);
    }
  }
}

// The messages in flight were forgotten by their owner alone: the stream handed it their answers.
TEST_F(HeldMany, AnAnswerThatComesAfterTheCallerHasThrownGoesToNobody) {
  ManyCall get = call(wire::Type::get_many);
  get.in_order = [](size_t) { throw std::runtime_error("the caller's"); };
  get.timeout = std::chrono::seconds(5);
  for (BatchResult& result : results_) result = {};
  *link_ = HeldLink::held;
  const size_t more_than_credits = session_->credits() + 5;
  for (size_t i = 0; i < more_than_credits; ++i) {
    get.told = 0;
    ASSERT_THROW((void)run(get), std::runtime_error) << i << ": no credit has come back";
  }
  *link_ = HeldLink::open;
  ASSERT_TRUE(session_->ping());
  for (const BatchResult& result : results_) EXPECT_EQ(result.etag, "");
  get = call(wire::Type::get_many);  // the session is as good as before
  ASSERT_TRUE(run(get));
  for (const BatchResult& result : results_) EXPECT_EQ(result.bytes, size);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, NativeManyTest, testing::Values("local", "tcp"));

}  // namespace
}  // namespace verbena::client
