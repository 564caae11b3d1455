#include "client/native/session.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>
#include <latch>
#include <random>

#include "client/native/dial.h"
#include "client/native/session_door.h"
#include "client/native/test_server.h"
#include "client/native/watch.h"
#include "net/testing/scripted_server.h"

namespace verbena::client {
namespace {

std::string pattern_text(size_t size, unsigned seed = 1) {
  std::string text(size, '\0');
  std::mt19937 random(seed);
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

MutableBytes writable(std::string& text) { return std::as_writable_bytes(std::span(text.data(), text.size())); }

// The other process of AClientKilledInMidTransfer...
TEST(NativeClient, DISABLED_ReadsUntilItIsKilled) {
  const char* port = getenv("VERBENA_TEST_NATIVE_PORT");
  if (port == nullptr) GTEST_SKIP() << "runs as another test's child";
  NativeOptions options;
  options.port = static_cast<uint16_t>(atoi(port));
  options.credentials = {.access_key = "AKROOT", .secret_key = "secret/root", .session_token = {}};
  auto session = NativeSession::open(options);
  ASSERT_TRUE(session);
  std::string into(8 * MiB, '\0');
  NativeGet request;
  request.bucket = "bucket";
  request.key = "big";
  request.into = writable(into);
  for (int i = 0; i < 100'000; ++i) (void)(*session)->get(request);
}

class NativeSessionTest : public testing::TestWithParam<std::string> {
 protected:
  NativeTestServer server_{{.provider = GetParam()}};
  std::unique_ptr<NativeSession> session_ = server_.session();

  // Reads "big" repeatedly in another process: this program again, running one test that is otherwise disabled.
  pid_t fork_client() {
    const std::string port = std::to_string(server_.port);
    const pid_t child = fork();
    if (child != 0) return child;
    setenv("VERBENA_TEST_NATIVE_PORT", port.c_str(), 1);
    execl("/proc/self/exe", "native", "--gtest_also_run_disabled_tests", "--gtest_filter=NativeClient.*", nullptr);
    _exit(127);
  }

  Result<NativeObject> put(std::string_view key, std::string_view bytes) {
    NativePut request;
    request.bucket = "bucket";
    request.key = key;
    request.from = as_bytes(bytes);
    return session_->put(request);
  }
  Result<NativeObject> get(std::string_view key, std::string& into) {
    NativeGet request;
    request.bucket = "bucket";
    request.key = key;
    request.into = writable(into);
    return session_->get(request);
  }
};

TEST_P(NativeSessionTest, EverySizeComesBackAsItWent) {
  ASSERT_TRUE(session_);
  EXPECT_TRUE(session_->provider().starts_with(GetParam()));
  for (const size_t size : {size_t{0}, size_t{1}, size_t{511}, size_t{512}, size_t{513}, size_t{4095}, size_t{4096},
                            size_t{4097}, 64 * KiB, 1 * MiB, 1 * MiB + 1, 16 * MiB}) {
    const std::string key = "size/" + std::to_string(size), bytes = pattern_text(size);
    const auto stored = put(key, bytes);
    ASSERT_TRUE(stored) << size << " " << describe(stored.error());
    EXPECT_EQ(stored->length, size);
    std::string back(size, '\0');
    const auto got = get(key, back);
    ASSERT_TRUE(got) << size << " " << describe(got.error());
    EXPECT_EQ(got->length, size);
    EXPECT_EQ(got->etag, stored->etag);
    EXPECT_TRUE(back == bytes) << size;
  }
}

TEST_P(NativeSessionTest, ALargerBufferThanTheObjectIsFilledInPart) {
  ASSERT_TRUE(put("a", pattern_text(10'000)));
  std::string into(20'000, 'z');
  const auto got = get("a", into);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->length, 10'000u);
  EXPECT_TRUE(into == pattern_text(10'000) + std::string(10'000, 'z'));
}

TEST_P(NativeSessionTest, ASmallerBufferIsLeftAlone) {
  ASSERT_TRUE(put("a", pattern_text(10'000)));
  for (const size_t size : {size_t{0}, size_t{100}, size_t{9'999}}) {
    std::string into(size, 'z');
    const auto got = get("a", into);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error(), Errc::too_large);
    EXPECT_TRUE(into == std::string(size, 'z'));
  }
}

TEST_P(NativeSessionTest, RegisteredMemoryServesBothWays) {
  auto memory = session_->allocate(4 * MiB);
  ASSERT_TRUE(memory) << describe(memory.error());
  const std::string bytes = pattern_text(1 * MiB);
  const MutableBytes from = (*memory)->bytes().subspan(1 * MiB, bytes.size());
  std::memcpy(from.data(), bytes.data(), bytes.size());
  for (int i = 0; i < 8; ++i) {  // over all cores
    const std::string key = "registered/" + std::to_string(i);
    NativePut put;
    put.bucket = "bucket";
    put.key = key;
    put.from = from;
    put.memory = memory->get();
    ASSERT_TRUE(session_->put(put));
    NativeGet get;
    get.bucket = "bucket";
    get.key = key;
    get.into = (*memory)->bytes().subspan(2 * MiB, bytes.size());
    get.memory = memory->get();
    const auto got = session_->get(get);
    ASSERT_TRUE(got);
    EXPECT_TRUE(as_text(get.into) == bytes);
  }
}

TEST_P(NativeSessionTest, ManyRangesLandOneAfterTheOther) {
  const std::string bytes = pattern_text(3 * MiB);
  ASSERT_TRUE(put("a", bytes));
  std::vector<NativeRange> ranges;
  std::mt19937 random(3);
  for (int i = 0; i < 64; ++i) {
    const uint64_t first = random() % (bytes.size() - 50'000), length = 1 + random() % 50'000;
    ranges.push_back({.first = first, .last = first + length - 1});
  }
  ranges.back() = {.first = std::nullopt, .last = 100};
  std::string all;
  for (size_t i = 0; i + 1 < ranges.size(); ++i) {
    all += bytes.substr(*ranges[i].first, *ranges[i].last - *ranges[i].first + 1);
  }
  all += bytes.substr(bytes.size() - 100);
  std::string into(all.size(), '\0');
  NativeGet get;
  get.bucket = "bucket";
  get.key = "a";
  get.into = writable(into);
  get.ranges = ranges;
  const auto got = session_->get(get);
  ASSERT_TRUE(got) << describe(got.error());
  EXPECT_EQ(got->length, all.size());
  EXPECT_EQ(got->ranges.size(), 64u);
  EXPECT_TRUE(got->partial);
  EXPECT_TRUE(into == all);
}

TEST_P(NativeSessionTest, MetadataChecksumsAndConditionsAreS3s) {
  const std::string bytes = pattern_text(5'000);
  Digest digest(Algorithm::crc64nvme);
  digest.update(as_bytes(bytes));
  const std::vector<NativeChecksum> expected = {{.algorithm = Algorithm::crc64nvme, .value = digest.finish()}};
  const std::vector<std::pair<std::string, std::string>> headers = {{"content-type", "text/plain"},
                                                                    {"x-amz-meta-colour", "blue"}};
  NativePut request;
  request.bucket = "bucket";
  request.key = "a";
  request.from = as_bytes(bytes);
  request.headers = headers;
  request.expected = expected;
  request.if_none_match = "*";
  const auto stored = session_->put(request);
  ASSERT_TRUE(stored) << describe(stored.error());
  const auto again = session_->put(request);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error(), Errc::precondition_failed);

  NativeGet head;
  head.bucket = "bucket";
  head.key = "a";
  head.full_headers = true;
  const auto found = session_->head(head);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->object_size, bytes.size());
  EXPECT_EQ(found->headers, headers);
  ASSERT_EQ(found->checksums.size(), 1u);
  EXPECT_EQ(found->checksums[0].value, expected[0].value);
  const std::vector<std::string> etag = {stored->etag};
  head.if_none_match = etag;
  EXPECT_EQ(session_->head(head).error(), Errc::not_modified);

  request.key = "b";
  request.if_none_match = {};
  std::string wrong = bytes;
  wrong[0] ^= 1;
  request.from = as_bytes(wrong);
  EXPECT_EQ(session_->put(request).error(), Errc::bad_digest);
  head.key = "b";
  EXPECT_EQ(session_->head(head).error(), Errc::no_such_key);
}

TEST_P(NativeSessionTest, ErrorsAreS3s) {
  std::string into(10, '\0');
  EXPECT_EQ(get("none", into).error(), Errc::no_such_key);
  NativeGet elsewhere;
  elsewhere.bucket = "elsewhere";
  elsewhere.key = "a";
  EXPECT_EQ(session_->head(elsewhere).error(), Errc::no_such_bucket);
  EXPECT_EQ(put("", "x").error(), Errc::invalid_request);
  EXPECT_EQ(put(std::string(1025, 'k'), "x").error(), Errc::key_too_long);
  EXPECT_TRUE(put(std::string(1024, 'k'), "x"));
  ASSERT_TRUE(put("a", "12345"));
  const NativeRange beyond{.first = 5, .last = 6};
  NativeGet range;
  range.bucket = "bucket";
  range.key = "a";
  range.into = writable(into);
  range.ranges = std::span(&beyond, 1);
  EXPECT_EQ(session_->get(range).error(), Errc::invalid_range);
}

TEST_P(NativeSessionTest, KeysAreListedOverManyMessagesAndDeleted) {
  for (int i = 0; i < 1500; ++i)
    server_.store.put("bucket", "long/" + std::string(200, 'k') + std::to_string(1000 + i), "x");
  NativeList list;
  list.bucket = "bucket";
  list.prefix = "long/";
  const auto page = session_->list(list);
  ASSERT_TRUE(page) << describe(page.error());
  EXPECT_EQ(page->items(), 1000u);
  EXPECT_TRUE(page->truncated());
  list.after = page->next_after();
  const auto rest = session_->list(list);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->items(), 500u);
  EXPECT_FALSE(rest->truncated());
  std::vector<std::string> keys;
  rest->each([&](const native::wire::ListItem& item) { return keys.emplace_back(item.key), true; });
  ASSERT_EQ(keys.size(), 500u);
  EXPECT_EQ(keys[0], "long/" + std::string(200, 'k') + "2000");
  EXPECT_EQ(keys[499], "long/" + std::string(200, 'k') + "2499");
  ASSERT_TRUE(session_->remove("bucket", keys[0]));
  EXPECT_EQ(session_->list(list)->items(), 499u);
  EXPECT_TRUE(session_->remove("bucket", "never-was"));
}

TEST_P(NativeSessionTest, AsynchronousRequestsArePipelinedBeyondTheCredits) {
  constexpr int count = 300;
  const std::string bytes = pattern_text(10'000);
  std::latch stored(count);
  std::atomic<int> failed{0};
  for (int i = 0; i < count; ++i) {
    const std::string key = "async/" + std::to_string(i);
    NativePut request;
    request.bucket = "bucket";
    request.key = key;
    request.from = as_bytes(bytes);
    session_->put_async(request, [&](Result<NativeObject> done) {
      if (!done) ++failed;
      stored.count_down();
    });
  }
  stored.wait();
  EXPECT_EQ(failed, 0);
  std::vector<std::string> into(count, std::string(bytes.size(), '\0'));
  std::latch got(count);
  for (int i = 0; i < count; ++i) {
    const std::string key = "async/" + std::to_string(i);
    NativeGet request;
    request.bucket = "bucket";
    request.key = key;
    request.into = writable(into[i]);
    session_->get_async(request, [&](Result<NativeObject> done) {
      if (!done) ++failed;
      got.count_down();
    });
  }
  got.wait();
  EXPECT_EQ(failed, 0);
  for (const auto& one : into) EXPECT_TRUE(one == bytes);
}

TEST_P(NativeSessionTest, ThreadsShareASession) {
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        const std::string key = "t" + std::to_string(t) + "/" + std::to_string(i);
        const std::string bytes = pattern_text(static_cast<size_t>(i) * 300 + 1, static_cast<unsigned>(t));
        std::string back(bytes.size(), '\0');
        if (!put(key, bytes) || !get(key, back) || back != bytes) ++failed;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
}

TEST_P(NativeSessionTest, ARestartedServerIsReachedAgain) {
  const uint16_t port = server_.port;
  ASSERT_TRUE(session_->ping());
  // A second server replaces the one that dies.
  auto first = std::make_unique<NativeTestServer>(NativeTestServer::Setup{.provider = GetParam()});
  first->keep_directory();
  NativeOptions options = first->options();
  options.request_timeout = std::chrono::seconds(3);
  auto opened = NativeSession::open(options);
  ASSERT_TRUE(opened);
  const uint16_t taken = first->port;
  const auto directory = first->directory();
  NativePut request;
  request.bucket = "bucket";
  request.key = "a";
  request.from = as_bytes("bytes");
  ASSERT_TRUE((*opened)->put(request));
  first.reset();
  NativeTestServer second({.provider = GetParam(), .port = taken, .directory = directory});
  // Where the transport does not report that the server is gone, one request has to time out first.
  bool stored = false;
  for (int i = 0; i < 3 && !stored; ++i) stored = (*opened)->put(request).has_value();
  EXPECT_TRUE(stored);
  EXPECT_EQ(second.store.count("bucket"), 1u);
  EXPECT_NE(port, taken);
}

// Three quarters of an idle time of one second were rounded to zero: each request opened a session of its own.
TEST_P(NativeSessionTest, AShortIdleTimeIsNotOneSessionForEachRequest) {
  native::Options door;
  door.idle_timeout = std::chrono::seconds(1);
  NativeTestServer server({.provider = GetParam(), .cores = 1, .door = door});
  NativeOptions options = server.options();
  std::atomic<int> dialled{0};
  options.dial = [&, dial = make_native_dial(options)](const NativeEndpoint& endpoint, const SessionTerms& terms) {
    ++dialled;
    return dial(endpoint, terms);
  };
  auto opened = NativeSession::open(options);
  ASSERT_TRUE(opened) << describe(opened.error());
  for (int i = 0; i < 40; ++i) EXPECT_TRUE((*opened)->ping());
  EXPECT_LT(dialled, 20) << "a few, where the machine stood still in between";
}

// Callers queued for a host that was gone, and each waited for the time-outs of all before it.
TEST_P(NativeSessionTest, WhoWaitsForAnAttemptThatFailsTakesItsError) {
  native::Options door;
  door.idle_timeout = std::chrono::seconds(1);
  NativeTestServer server({.provider = GetParam(), .cores = 1, .door = door});
  NativeOptions options = server.options();
  options.providers = {GetParam()};
  std::atomic<int> failed{0};
  std::atomic<bool> is_gone{false};
  options.dial = [&, dial = make_native_dial(options)](
                     const NativeEndpoint& endpoint,
                     const SessionTerms& terms) -> Result<std::unique_ptr<fabric::Link>> {
    if (!is_gone) return dial(endpoint, terms);
    ++failed;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return fail(Errc::timed_out, "scripted");
  };
  auto opened = NativeSession::open(options);
  ASSERT_TRUE(opened) << describe(opened.error());
  is_gone = true;
  std::this_thread::sleep_for(std::chrono::seconds(1));  // after this idle time a new session is opened
  constexpr int callers = 16;
  std::latch together(callers);
  std::vector<std::jthread> threads;
  for (int i = 0; i < callers; ++i) {
    threads.emplace_back([&] {
      together.arrive_and_wait();
      EXPECT_FALSE((*opened)->ping());
    });
  }
  threads.clear();
  EXPECT_LT(failed, callers / 2) << "each asks twice";
}

// They waited for the time-outs of the attempt: five seconds for each provider, at a frozen server.
TEST_P(NativeSessionTest, WhoIsCancelledWaitsForNoAttemptToOpenASession) {
  native::Options door;
  door.idle_timeout = std::chrono::seconds(1);
  NativeTestServer server({.provider = GetParam(), .cores = 1, .door = door});
  server.store.put("bucket", "k", "bytes");
  NativeOptions options = server.options();
  options.providers = {GetParam()};
  std::promise<void> let_go;
  std::atomic<bool> is_stuck{false};
  options.dial = [&, until = let_go.get_future().share(), dial = make_native_dial(options)](
                     const NativeEndpoint& endpoint, const SessionTerms& terms) {
    if (is_stuck) until.wait();
    return dial(endpoint, terms);
  };
  SessionDoor at_first(options, true), later(options, true);
  ASSERT_TRUE(later.session());
  is_stuck = true;
  std::this_thread::sleep_for(std::chrono::seconds(1));  // after this idle time a new session is opened
  for (SessionDoor* const door_of : {&at_first, &later}) {
    const auto get = [&](const std::stop_token& stop) -> std::optional<ErrorCode> {
      std::vector<std::byte> into(8);
      GetOptions get_options;
      get_options.cancel = stop;
      const auto got = door_of->get("bucket", "k", into, nullptr, get_options, {});
      return got ? std::nullopt : std::optional(got.error().code);
    };
    std::stop_source one, two;
    auto opens = std::async(std::launch::async, get, one.get_token());
    auto waits = std::async(std::launch::async, get, two.get_token());
    EXPECT_EQ(opens.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
    for (auto* const stop : {&one, &two}) stop->request_stop();
    const bool ended = opens.wait_for(std::chrono::seconds(20)) == std::future_status::ready &&
                       waits.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    if (!ended) let_go.set_value();
    ASSERT_TRUE(ended);
    // Which error it is, the stop tells the caller of the door.
    EXPECT_TRUE(opens.get() && waits.get());
  }
  is_stuck = false;
  let_go.set_value();  // the attempts go on, for those that come later
  std::vector<std::byte> into(8);
  for (SessionDoor* const door_of : {&at_first, &later}) {
    const auto got = door_of->get("bucket", "k", into, nullptr, {}, {});
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->bytes, 5u);
  }
}

// It ended the process, or left the session being opened for ever.
TEST_P(NativeSessionTest, AnExceptionWhileASessionIsOpenedIsAnErrorAndTheNextCallTriesAgain) {
  NativeOptions options = server_.options();
  options.providers = {GetParam()};
  bool throws = true;
  options.dial = [&, dial = make_native_dial(options)](const NativeEndpoint& endpoint, const SessionTerms& terms) {
    if (throws) throw std::bad_alloc();
    return dial(endpoint, terms);
  };
  const auto session = NativeSession::unopened(options);
  const std::stop_source stop;
  for (const std::stop_token& by : {std::stop_token(), stop.get_token()}) {
    const auto ready = session->ready(by);
    ASSERT_FALSE(ready);
    EXPECT_EQ(ready.error(), Errc::out_of_memory);
  }
  throws = false;
  EXPECT_TRUE(session->ready(stop.get_token()));
}

TEST_P(NativeSessionTest, AServerThatIsGoneIsAnErrorNotAHang) {
  auto server = std::make_unique<NativeTestServer>(NativeTestServer::Setup{.provider = GetParam()});
  NativeOptions options = server->options();
  options.request_timeout = std::chrono::milliseconds(500);
  auto opened = NativeSession::open(options);
  ASSERT_TRUE(opened);
  server.reset();
  std::string into(100'000, '\0');
  NativeGet request;
  request.bucket = "bucket";
  request.key = "a";
  request.into = writable(into);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE((*opened)->get(request));
}

TEST_P(NativeSessionTest, AWrongSecretOpensNothing) {
  NativeOptions options = server_.options();
  options.credentials.secret_key = "wrong";
  const auto opened = NativeSession::open(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(), Errc::signature_does_not_match);
}

TEST_P(NativeSessionTest, AProviderThatTheServerDoesNotOfferIsNoSession) {
  NativeOptions options = server_.options();
  options.providers = {GetParam() == "local" ? "tcp" : "local"};
  const auto opened = NativeSession::open(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(), Errc::connection_failed);
}

TEST_P(NativeSessionTest, NothingStaysLeasedAndNoSessionStaysAfterABye) {
  const size_t leased = server_.arena().leased_bytes();  // the fabric's own buffers
  ASSERT_TRUE(put("a", pattern_text(1 * MiB)));
  std::string into(1 * MiB, '\0');
  ASSERT_TRUE(get("a", into));
  session_.reset();
  for (int i = 0; i < 500 && server_.door->sessions() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(server_.door->sessions(), 0u);
  EXPECT_EQ(server_.door->in_flight(), 0u);
  EXPECT_EQ(server_.arena().leased_bytes(), leased);
}

// A process of its own, so that a kill leaves nothing of it.
TEST_P(NativeSessionTest, AClientKilledInMidTransferCostsNoLeaseAndNobodyElse) {
  ASSERT_TRUE(put("big", pattern_text(8 * MiB)));
  std::string into(8 * MiB, '\0');
  ASSERT_TRUE(get("big", into));
  const size_t leased = server_.arena().leased_bytes();
  for (int round = 0; round < 3; ++round) {
    const pid_t child = fork_client();
    ASSERT_GT(child, 0);
    // The process has started when its session exists.
    for (int i = 0; i < 1000 && server_.door->sessions() < 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_GE(server_.door->sessions(), 2u);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    std::string back(8 * MiB, '\0');
    EXPECT_TRUE(get("big", back));
    EXPECT_TRUE(back == into);
  }
  for (int i = 0; i < 3000 && (server_.door->in_flight() != 0 || server_.arena().leased_bytes() > leased); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(server_.door->in_flight(), 0u);
  EXPECT_LE(server_.arena().leased_bytes(), leased);
}

// For any request: nothing was sent, and another door may take it.
TEST(NativeClient, WhateverIsThereInsteadOfANativeDoorIsAFailedConnection) {
  const std::string replies[] = {"",
                                 "no http at all\r\n\r\n",
                                 net::http_reply(200, "", "no JSON"),
                                 net::http_reply(200, "", std::string(2 * MiB, 'x')),
                                 net::http_reply(503, "x-verbena-error: 130\r\n", ""),
                                 net::http_reply(500, "x-verbena-error: 128\r\n", "")};
  for (const std::string& reply : replies) {
    net::ScriptedServer server([&](const net::ScriptedRequest&, int) { return reply; });
    NativeOptions options;
    options.port = server.port();
    const auto opened = NativeSession::open(options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error(), Errc::connection_failed) << reply.substr(0, 60) << describe(opened.error());
  }
  std::atomic<bool> over{false};
  net::ScriptedServer silent([&](const net::ScriptedRequest&, int) {
    while (!over) std::this_thread::yield();
    return std::string();
  });
  NativeOptions options;
  options.port = silent.port();
  options.connect_timeout = std::chrono::milliseconds(100);
  const auto opened = NativeSession::open(options);
  over = true;
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error(), Errc::connection_failed);
}

TEST_P(NativeSessionTest, AKindOfChangeThatThisClientDoesNotKnowIsAGap) {
  auto watch = NativeWatch::open(std::move(session_), "bucket", "", {});
  ASSERT_TRUE(watch) << describe(watch.error());
  const auto feed = server_.store.feed("bucket");
  ASSERT_TRUE(feed);
  (*feed)->tell(static_cast<store::KeyEvent>(100), "of a newer server", {});
  (*feed)->tell(store::KeyEvent::evicted, "old", {});
  bool gap = false;
  std::vector<std::string> keys;
  while (keys.empty()) {
    const auto news = (*watch)->next(deadline_in(std::chrono::seconds(20)), {});
    ASSERT_TRUE(news) << describe(news.error());
    ASSERT_TRUE(news->gap || !news->changes.empty()) << "nothing came";
    gap |= news->gap;
    for (const NativeChange& change : news->changes) keys.push_back(change.key);
  }
  EXPECT_TRUE(gap);
  EXPECT_EQ(keys, std::vector<std::string>{"old"});
}

INSTANTIATE_TEST_SUITE_P(Providers, NativeSessionTest, testing::Values("local", "tcp"),
                         [](const auto& provider) { return provider.param; });

}  // namespace
}  // namespace verbena::client
