#include <gtest/gtest.h>
#include <sys/resource.h>
#include <boost/system/error_code.hpp>

#include <cerrno>

#include "base/log.h"
#include "base/metrics.h"
#include "http/test_server.h"

namespace verbena::http {
namespace {

TEST(Connection, AnswersOneRequestAfterTheOther) {
  TestServer server;
  TestClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    const auto answer = client.ask("GET /a%20b?x=1&y HTTP/1.1\r\nHost: h:9000\r\n\r\n");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "hello");
    EXPECT_EQ(answer.header("x-seen"), "GET /a%20b?x=1&y");
    EXPECT_EQ(answer.header("Server"), "Verbena");
    EXPECT_FALSE(answer.header("Date").empty());
    EXPECT_TRUE(answer.header("Connection").empty());
  }
  EXPECT_EQ(server.listener().connections(), 1u);
}

TEST(Connection, AHeaderValueCannotEndItsLine) {
  TestServer server;
  const auto answer = TestClient(server.port()).ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(answer.header("x-split"), "a  evil: b");
  EXPECT_TRUE(answer.header("evil").empty());
}

TEST(Connection, AnswersPipelinedRequestsInOrder) {
  TestServer server;
  TestClient client(server.port());
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(i < 10 ? 1 : 2) + "\r\n\r\n" +
                std::to_string(i);
  }
  ASSERT_TRUE(client.send(requests));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.read().body, std::to_string(i));
}

TEST(Connection, EmptyLinesBeforeARequestAreIgnored) {
  TestServer server;
  TestClient client(server.port());
  EXPECT_EQ(client.ask("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
}

TEST(Connection, ARequestMayArriveByteByByte) {
  TestServer server;
  TestClient client(server.port());
  for (char c : std::string_view("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")) {
    ASSERT_TRUE(client.send({&c, 1}));
  }
  EXPECT_EQ(client.read().body, "abc");
}

TEST(Connection, BodiesOfEverySizeComeBackWhole) {
  TestServer server;
  TestClient client(server.port());
  for (size_t size : {0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, 5'000'001}) {
    const auto body = pattern(size);
    std::thread sender([&] {
      client.send("PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" + body);
    });
    const auto answer = client.read();
    sender.join();
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(answer.body == body) << size;
  }
}

TEST(Connection, ChunkedBodiesAreDecoded) {
  TestServer server;
  TestClient client(server.port());
  const std::string head = "PUT /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(client.ask(head + "0\r\n\r\n").body, "");
  EXPECT_EQ(client.ask(head + "3\r\nabc\r\n0\r\n\r\n").body, "abc");
  EXPECT_EQ(client.ask(head + "3;name=value\r\nabc\r\n00A\r\n0123456789\r\n0\r\nx-trailer: 1\r\n\r\n").body,
            "abc0123456789");
  const auto big = pattern(300'000);
  EXPECT_TRUE(client.ask(head + "493e0\r\n" + big + "\r\n0\r\n\r\n").body == big);
  EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
}

TEST(Connection, BrokenChunkFramingIsRefusedAndEndsTheConnection) {
  TestServer server;
  for (const char* body : {"g\r\n", "\r\n", "-1\r\nabc\r\n", "3\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n",
                           "3 \r\nabc\r\n0\r\n\r\n", "0x3\r\nabc\r\n", "1000000000000000\r\n", "3\r\nabc\n0\r\n\r\n"}) {
    TestClient client(server.port());
    const auto answer =
        client.ask("PUT /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(body));
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(answer.body, "invalid_request") << body;
    EXPECT_EQ(answer.header("Connection"), "close") << body;
    EXPECT_TRUE(client.closed());
  }
}

TEST(Connection, AChunkLineOfUnboundedLengthIsRefused) {
  TestServer server;
  TestClient client(server.port());
  client.send("PUT /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;");
  client.send(std::string(100'000, 'x'));
  EXPECT_EQ(client.read().status, 400);
}

TEST(Connection, ContinueIsSentWhenTheBodyIsWanted) {
  TestServer server;
  TestClient client(server.port());
  client.send("PUT /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  EXPECT_EQ(client.ask("abc").body, "abc");
  EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
}

TEST(Connection, ContinueIsSentForAnEmptyBodyTooButNotWhereNoBodyIsFramed) {
  TestServer server;
  TestClient client(server.port());
  for (int i = 0; i < 2; ++i) {
    client.send("PUT /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n");
    EXPECT_EQ(client.read().status, 100);
    EXPECT_EQ(client.read().status, 200);
  }
  EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n").status, 200);
  EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
}

TEST(Connection, ContinueIsNotSentWhenTheRequestIsRefused) {
  TestServer server;
  TestClient client(server.port());
  const auto answer =
      client.ask("PUT /refuse HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(answer.header("Connection"), "close");
  client.half_close();
  EXPECT_TRUE(client.closed());
}

TEST(Connection, AnUnreadShortBodyIsDrainedAndTheConnectionLivesOn) {
  TestServer server;
  TestClient client(server.port());
  const auto answer =
      client.ask("PUT /refuse HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n" + pattern(200'000));
  EXPECT_EQ(answer.status, 403);
  EXPECT_TRUE(answer.header("Connection").empty());
  EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
}

TEST(Connection, AClientThatSendsALongBodyWithoutListeningStillReadsTheRefusal) {
  TestServer server;
  TestClient client(server.port());
  const size_t size = 20 << 20;
  const auto body = pattern(size);
  ASSERT_TRUE(client.send("PUT /refuse HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n"));
  EXPECT_TRUE(client.send(body));
  const auto answer = client.read();
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(answer.body, "refused");
  EXPECT_EQ(answer.header("Connection"), "close");
}

TEST(Connection, ABodyThatEndsEarlyIsIncomplete) {
  TestServer server;
  TestClient client(server.port());
  client.send("PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
  client.half_close();
  const auto answer = client.read();
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body, "incomplete_body");
  EXPECT_TRUE(client.closed());
}

TEST(Connection, AClientThatClosesMidBodyIsForgotten) {
  TestServer server;
  {
    TestClient client(server.port());
    client.send("PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc");
  }
  EXPECT_TRUE(server.wait_for_connections(0));
}

TEST(Connection, AHalfClosedClientStillGetsItsAnswer) {
  TestServer server;
  TestClient client(server.port());
  client.send("GET /send?3000000 HTTP/1.1\r\nHost: h\r\n\r\n");
  client.half_close();
  const auto answer = client.read();
  EXPECT_TRUE(answer.whole);
  EXPECT_TRUE(answer.body == pattern(3'000'000));
  EXPECT_TRUE(client.closed());
}

TEST(Connection, LargeAnswersReachASlowReaderWhole) {
  TestServer server;
  TestClient client(server.port());
  const int small = 64 * 1024;
  ::setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  const auto answer = client.ask("GET /send?12345678 HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(answer.body == pattern(12'345'678));
  EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
  EXPECT_EQ(test_arena().leased_bytes(), 0u);
}

TEST(Connection, AReaderThatLeavesMidAnswerCostsNoLease) {
  const int cuts = test_cuts;
  TestServer server;
  {
    TestClient client(server.port());
    client.send("GET /send?200000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    char some[1000];
    ASSERT_GT(::recv(client.fd(), some, sizeof some, 0), 0);
  }
  EXPECT_TRUE(server.wait_for_connections(0));
  EXPECT_EQ(test_cuts, cuts + 1);
  EXPECT_EQ(test_arena().leased_bytes(), 0u);
}

TEST(Connection, AnEmptyObjectHasAHeadAndNoBody) {
  TestServer server;
  TestClient client(server.port());
  const auto answer = client.ask("GET /send?0 HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("Content-Length"), "0");
}

TEST(Connection, AnAnswerThatIsCutShortDoesNotLookWhole) {
  TestServer server;
  TestClient client(server.port());
  const auto answer = client.ask("GET /short HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.whole);
}

TEST(Connection, AHandlerThatThrowsOrSaysNothingIsAnswered500) {
  TestServer server;
  for (const char* path : {"/throw", "/nothing"}) {
    const auto answer = TestClient(server.port()).ask("GET " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_EQ(answer.status, 500);
    EXPECT_EQ(answer.header("Connection"), "close");
  }
}

TEST(Connection, HeadTellsTheLengthAndSendsNoBody) {
  TestServer server;
  TestClient client(server.port());
  const auto answer = client.ask("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(answer.header("Content-Length"), "42");
  EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").body, "hello");
}

TEST(Connection, Http10ClosesUnlessAskedToKeepAlive) {
  TestServer server;
  {
    TestClient client(server.port());
    const auto answer = client.ask("GET / HTTP/1.0\r\n\r\n");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.header("Connection"), "close");
    EXPECT_TRUE(client.closed());
  }
  TestClient client(server.port());
  EXPECT_EQ(client.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").header("Connection"), "keep-alive");
  EXPECT_EQ(client.ask("GET / HTTP/1.0\r\n\r\n").status, 200);
}

TEST(Connection, ClosesWhenAskedTo) {
  TestServer server;
  TestClient client(server.port());
  EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").header("Connection"), "close");
  EXPECT_TRUE(client.closed());
}

TEST(Connection, AnAbsoluteTargetNamesTheHost) {
  TestServer server;
  TestClient client(server.port());
  const auto answer = client.ask("GET http://bucket.example:9000/a?b HTTP/1.1\r\nHost: other\r\n\r\n");
  EXPECT_EQ(answer.header("x-seen"), "GET /a?b");
  EXPECT_EQ(answer.header("x-host"), "bucket.example:9000");
  EXPECT_EQ(client.ask("GET http://h?b HTTP/1.1\r\nHost: h\r\n\r\n").header("x-seen"), "GET /?b");
}

TEST(Connection, ConnectionsOverTheLimitAreTurnedAway) {
  TestServer server(Limits{.connections_max = 2});
  TestClient a(server.port()), b(server.port());
  for (TestClient* busy : {&a, &b}) {
    ASSERT_TRUE(busy->send("POST /signed-echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na"));
  }
  ASSERT_TRUE(server.wait_for_connections(2));
  TestClient c(server.port());
  EXPECT_EQ(c.read().status, 503);
  EXPECT_TRUE(c.closed());
  ASSERT_TRUE(a.send("bc"));
  EXPECT_EQ(a.read().body, "abc") << "whose request is signed and served is not displaced";
  a.close();
  ASSERT_TRUE(server.wait_for_connections(1));
  EXPECT_EQ(TestClient(server.port()).ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
}

constexpr std::string_view whole_get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
constexpr std::string_view signed_get = "GET /signed HTTP/1.1\r\nHost: h\r\n\r\n";

// 8,900 connections with half a head each kept all other clients out for as long as they were held.
TEST(Connection, HalfHeadsDoNotKeepOthersOut) {
  TestServer server(Limits{.connections_max = 64});
  TestClient earlier(server.port());
  EXPECT_EQ(earlier.ask(signed_get).status, 200);
  std::vector<TestClient> held;
  for (int i = 0; i < 200; ++i) {
    held.emplace_back(server.port());
    held.back().send("GET / HTTP/1.1\r\nHo");
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(TestClient(server.port()).ask(signed_get).status, 200) << i;
  }
  EXPECT_EQ(earlier.ask(signed_get).status, 200) << "what has shown more stays";
  EXPECT_LE(server.listener().connections(), 64u);
}

TEST(Connection, SilentOnesAndThoseThatRestAfterAnAnonymousRequestGoBeforeOthersAreRefused) {
  TestServer server(Limits{.connections_max = 32});
  TestClient earlier(server.port());
  EXPECT_EQ(earlier.ask(signed_get).status, 200);
  std::vector<TestClient> held;
  for (int i = 0; i < 100; ++i) {
    held.emplace_back(server.port());
    if (i % 2 == 0) held.back().ask(whole_get);
  }
  for (int i = 0; i < 50; ++i) EXPECT_EQ(TestClient(server.port()).ask(signed_get).status, 200) << i;
  EXPECT_EQ(earlier.ask(signed_get).status, 200);
}

// A refused client that goes on sending is read for a while, so that it gets its answer.
TEST(Connection, ThoseThatLingerDoNotKeepOthersOut) {
  TestServer server(Limits{.connections_max = 32});
  std::vector<TestClient> held;
  for (int i = 0; i < 100; ++i) {
    held.emplace_back(server.port());
    held.back().send("POST /refuse HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\nx");
  }
  for (int i = 0; i < 50; ++i) EXPECT_EQ(TestClient(server.port()).ask(signed_get).status, 200) << i;
}

TEST(Connection, AThousandIdleConnectionsAllStillAnswer) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 8192);
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 2200) GTEST_SKIP() << "too few open files allowed";
  TestServer server;
  std::vector<TestClient> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.emplace_back(server.port());
    ASSERT_TRUE(clients.back().connected()) << i;
  }
  for (int round = 0; round < 2; ++round) {
    for (auto& client : clients) ASSERT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
    EXPECT_EQ(server.listener().connections(), 1000u);
  }
}

// Holds all descriptors that the process may have, until cleared.
class Ballast {
 public:
  Ballast() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = std::min<rlim_t>(before_.rlim_cur, 512);
    ::setrlimit(RLIMIT_NOFILE, &few);
    fill();
  }
  ~Ballast() { clear(); }
  void fill() {
    for (int fd; (fd = ::dup(0)) >= 0;) fds_.push_back(fd);
  }
  void drop_one() {
    ::close(fds_.back());
    fds_.pop_back();
  }
  void clear() {
    while (!fds_.empty()) drop_one();
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }

 private:
  rlimit before_{};
  std::vector<int> fds_;
};

TEST(Listener, WithoutFreeDescriptorsItWaitsAndThenServesWhoKnocked) {
  TestServer server;
  TestClient old(server.port());
  ASSERT_EQ(old.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
  auto& failures = metrics::counter("verbena_http_accept_failures_total", "");
  const uint64_t before = failures.value();
  // clang's check of virtual calls reads an object through a pipe when it first meets it: do that while there are
  // descriptors.
  ASSERT_EQ(old.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
  {
    TestClient gone(server.port());
    ASSERT_EQ(gone.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
  }
  ASSERT_TRUE(server.wait_for_connections(1));
  EXPECT_FALSE(boost::system::error_code(EMFILE, boost::system::system_category()).message().empty());
  log::warn("a test takes all descriptors");  // creates the log's sink
  Ballast ballast;
  // A connection leaves the count before it is fully destroyed, and that check uses it, too: once the same core has
  // sent another answer, its resources are free.
  ASSERT_EQ(old.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
  ballast.fill();
  ballast.drop_one();
  TestClient fresh(server.port());  // takes the last one; the kernel accepts the connection, the server cannot
  ASSERT_TRUE(fresh.connected());
  ASSERT_TRUE(fresh.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  for (int i = 0; i < 20'000 && failures.value() < before + 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(failures.value(), before + 2) << "it tries again";
  EXPECT_EQ(old.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200) << "an admitted client is served";
  ballast.clear();
  EXPECT_EQ(fresh.read().status, 200);
  EXPECT_EQ(server.listener().connections(), 2u);
}

TEST(Listener, StopsAcceptingAndLetsIdleConnectionsGo) {
  TestServer server;
  TestClient client(server.port());
  EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
  server.listener().stop_accepting();
  EXPECT_TRUE(client.closed());
  EXPECT_TRUE(server.wait_for_connections(0));
  TestClient late(server.port());
  EXPECT_FALSE(late.connected() && late.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status == 200);
}

TEST(Listener, AnExchangeInProgressIsFinishedWhenStopping) {
  TestServer server;
  TestClient client(server.port());
  client.send("PUT /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  server.listener().stop_accepting();
  const auto answer = client.ask("abc");
  EXPECT_EQ(answer.body, "abc");
  EXPECT_EQ(answer.header("Connection"), "close");
  EXPECT_TRUE(server.wait_for_connections(0));
}

TEST(Listener, AStoppedCoreMayBeDestroyedWithConnectionsOpen) {
  auto server = std::make_unique<TestServer>();
  TestClient idle(server->port()), busy(server->port()), reading(server->port());
  idle.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  busy.send("PUT /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  busy.read();
  reading.send("GET /send?200000000 HTTP/1.1\r\nHost: h\r\n\r\n");
  char some[100];
  ASSERT_GT(::recv(reading.fd(), some, sizeof some, 0), 0);
  server.reset();
  EXPECT_EQ(test_arena().leased_bytes(), 0u);
}

TEST(Listener, SeveralCoresShareAPortButProcessesDoNot) {
  TestServer server;
  Core core({});
  auto second = listen(core, "127.0.0.1", server.port(), {}, {}, act_on_path);
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)->port(), server.port());

  // A socket of another program, which allows sharing.
  const int other = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  ::setsockopt(other, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(other, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(other, 1), 0);
  ::getsockname(other, reinterpret_cast<sockaddr*>(&address), &size);
  auto taken = listen(core, "127.0.0.1", ntohs(address.sin_port), {}, {}, act_on_path);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::connection_failed);
  EXPECT_EQ(taken.error().sys, EADDRINUSE);
  ::close(other);
}

TEST(Listener, AnAddressThatIsNoneIsBadConfiguration) {
  Core core({});
  for (const char* address : {"", "example.com", "1.2.3", "[::1", "127.0.0.1:80"}) {
    auto made = listen(core, address, 0, {}, {}, act_on_path);
    ASSERT_FALSE(made) << address;
    EXPECT_EQ(made.error().code, Errc::bad_config);
  }
}

}  // namespace
}  // namespace verbena::http
