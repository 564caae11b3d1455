// Invalid heads and hostile timing.
#include <gtest/gtest.h>

#include "http/head_parser.h"
#include "http/test_server.h"

namespace verbena::http {
namespace {

Answer ask(std::string_view request, Limits limits = {}) {
  TestServer server(limits);
  TestClient client(server.port());
  auto answer = client.ask(request);
  if (answer.status != 200) {
    EXPECT_EQ(answer.header("Connection"), "close");
    client.half_close();
    EXPECT_TRUE(client.closed());
  }
  return answer;
}

TEST(Hostile, ShapesOfRequestSmugglingAreRefused) {
  const char* requests[] = {
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nabc",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: -3\r\n\r\nabc",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 0x3\r\n\r\nabc",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length : 3\r\n\r\nabc",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n\tb\r\n\r\n",
      "GET / HTTP/1.1\nHost: h\n\n",
      "GET / HTTP/1.1\r\nHost: h\n\r\n",
      "GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: h\r\n: empty\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET a HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET * HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET /#x HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET ftp://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET http://user@h/ HTTP/1.1\r\nHost: h\r\n\r\n",
      "CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n",
      " GET / HTTP/1.1\r\nHost: h\r\n\r\n",
      "\x16\x03\x01\x02\r\n\r\n",
  };
  for (const char* request : requests) EXPECT_EQ(ask(request).status, 400) << request;
  EXPECT_EQ(ask("GET / HTTP/1.1\r\nHost: h\r\nX: a" + std::string(1, '\0') + "b\r\n\r\n").status, 400);
}

// A signed "x-amz-copy-source: /b/k,v", split at its comma, kept its valid signature and named "/b/k".
TEST(Hostile, AHeaderOfOneValueThatIsThereTwiceIsRefused) {
  const auto twice = [](const std::string& name, const std::string& again) {
    return ask("GET / HTTP/1.1\r\nHost: h\r\n" + name + ": a\r\nX: y\r\n" + again + ": a\r\n\r\n");
  };
  for (const char* name : {"x-amz-copy-source",
                           "x-amz-copy-source-range",
                           "x-amz-acl",
                           "x-amz-grant-read",
                           "x-amz-tagging",
                           "x-amz-content-sha256",
                           "x-amz-date",
                           "x-amz-security-token",
                           "x-amz-rdma-token",
                           "x-amz-checksum-crc32",
                           "x-amz-storage-class",
                           "x-amz-object-lock-mode",
                           "x-verbena-durability",
                           "x-verbena-append",
                           "x-verbena-etag",
                           "x-verbena-ttl",
                           "Authorization",
                           "Content-Type",
                           "Content-MD5",
                           "Date",
                           "Range",
                           "If-Match",
                           "If-None-Match",
                           "If-Modified-Since",
                           "If-Unmodified-Since",
                           "If-Range",
                           "Origin",
                           "Referer"}) {
    std::string upper = name;
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const Answer answer = twice(name, upper);
    EXPECT_EQ(answer.status, 400) << name;
    EXPECT_NE(answer.body.find("A single-value header is repeated."), std::string::npos) << answer.body;
  }
  for (const char* name :
       {"x-amz-meta-a", "x-amz-object-attributes", "Accept-Encoding", "Content-Encoding", "X-Other"}) {
    EXPECT_EQ(twice(name, name).status, 200) << name << " may be a list";
  }
}

TEST(Hostile, ARefusedHeadIsAnsweredInXmlWithAnIdOfItsOwn) {
  const Answer answer = ask("GET a HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.header("content-type"), "application/xml");
  EXPECT_NE(answer.body.find("<Code>BadRequest</Code>"), std::string::npos) << answer.body;
  const std::string id = answer.header("x-amz-request-id");
  EXPECT_EQ(id.size(), 16u);
  EXPECT_NE(answer.body.find("<RequestId>" + id + "</RequestId>"), std::string::npos) << answer.body;
}

TEST(Hostile, OtherTransferCodingsAndExpectationsAreNamed) {
  EXPECT_EQ(ask("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n").status, 501);
  EXPECT_EQ(ask("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n").status, 501);
  EXPECT_EQ(ask("POST /echo HTTP/1.1\r\nHost: h\r\nExpect: cookies\r\nContent-Length: 1\r\n\r\na").status, 200);
  for (const char* line : {"GET / HTTP/2.0", "GET / HTTP/1.1 ", "GET /a b HTTP/1.1"}) {
    EXPECT_EQ(ask(std::string(line) + "\r\nHost: h\r\n\r\n").status, 505) << line;
  }
}

TEST(Hostile, HeadsOverTheLimitAreRefusedAndThoseBelowAreNot) {
  const Limits limits{.header_bytes_max = 64 * KiB};
  EXPECT_EQ(ask("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(60'000, 'x') + "\r\n\r\n", limits).status, 200);
  EXPECT_EQ(ask("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(66'000, 'x') + "\r\n\r\n", limits).status, 431);
  EXPECT_EQ(ask("GET /" + std::string(17'000, 'x') + " HTTP/1.1\r\nHost: h\r\n\r\n", limits).status, 414);
  std::string many = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 300; ++i) many += "X: 1\r\n";
  EXPECT_EQ(ask(many + "\r\n", limits).status, 431);
}

// Thousands of unfinished large heads of an unauthenticated client held hundreds of megabytes.
TEST(Hostile, OneClientHasFewLargeHeadsUnderWay) {
  TestServer server;
  const std::string begun = "GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(20'000, 'x');
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 64; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    clients.back()->send(begun);
  }
  // They have been read once a later client is answered; then there is room for no more.
  const auto refused = [&] {
    TestClient more(server.port());
    more.send(begun);
    pollfd waiting{more.fd(), POLLIN, 0};
    return ::poll(&waiting, 1, 200) == 1 && more.read().status == 503;
  };
  bool told = false;
  for (int i = 0; i < 100 && !told; ++i) told = refused();
  EXPECT_TRUE(told);
  EXPECT_EQ(TestClient(server.port()).ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200) << "a usual one";
  clients.front()->send("\r\n\r\n");
  EXPECT_EQ(clients.front()->read().status, 200);
}

TEST(Hostile, AHeadThatNeverEndsIsGivenUp) {
  TestServer server(Limits{.header_timeout = std::chrono::seconds(1)});
  TestClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost");
  EXPECT_EQ(client.read().status, 408);
  client.half_close();
  EXPECT_TRUE(client.closed());
}

TEST(Hostile, ADrippingHeadDoesNotOutliveItsTime) {
  TestServer server(Limits{.header_timeout = std::chrono::seconds(1)});
  TestClient client(server.port());
  client.send("GET / HTTP/1.1\r\n");
  bool cut = false;
  for (int i = 0; i < 1000 && !cut; ++i) {
    cut = !client.send("X: 1\r\n");
    pollfd waiting{client.fd(), POLLIN, 0};
    cut = cut || ::poll(&waiting, 1, 20) != 0;
  }
  EXPECT_TRUE(cut);
}

TEST(Hostile, AnIdleConnectionIsClosed) {
  TestServer server(Limits{.idle_timeout = std::chrono::seconds(1)});
  TestClient client(server.port());
  EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
  EXPECT_TRUE(client.closed());
}

TEST(Hostile, AStalledBodyIsAnsweredAndClosed) {
  TestServer server(Limits{.body_stall_timeout = std::chrono::seconds(1)});
  TestClient client(server.port());
  client.send("PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
  const auto answer = client.read();
  EXPECT_EQ(answer.body, "request_timeout");
  EXPECT_EQ(answer.header("Connection"), "close");
  client.half_close();
  EXPECT_TRUE(client.closed());
}

TEST(Hostile, AReaderThatStopsReadingIsCutAndItsLeasesComeBack) {
  const int cuts = test_cuts;
  TestServer server(Limits{.body_stall_timeout = std::chrono::seconds(1)});
  TestClient client(server.port());
  client.send("GET /send?200000000 HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(server.wait_for_connections(1));
  EXPECT_TRUE(server.wait_for_connections(0));
  EXPECT_EQ(test_cuts, cuts + 1);
  EXPECT_EQ(test_arena().leased_bytes(), 0u);
}

// Bytes keep arriving, so it never stalls; but it would hold memory for hours.
TEST(Hostile, AnUploadBelowTheMinimumRateIsAnsweredAndClosed) {
  TestServer server(Limits{.body_stall_timeout = std::chrono::seconds(1), .body_rate_min = 1 * MiB});
  TestClient client(server.port());
  client.send("PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000\r\n\r\n");
  pollfd entry{client.fd(), POLLIN, 0};
  for (int i = 0; i < 500 && ::poll(&entry, 1, 40) == 0; ++i) client.send("x");
  const auto answer = client.read();
  EXPECT_EQ(answer.body, "request_timeout");
  EXPECT_EQ(answer.header("Connection"), "close");
}

// The answer comes during the upload. An immediate close would answer the remaining bytes with a reset, which discards
// an answer that was not read yet.
void send_on_and_read(TestClient& client) {
  pollfd answered{client.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&answered, 1, 20'000), 1);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(client.send(std::string(1000, 'x'))) << "reset after " << i << " sends";
    ::poll(nullptr, 0, 100);  // in all longer than the rate's window
  }
  EXPECT_EQ(client.read().body, "request_timeout");
  client.half_close();
  EXPECT_TRUE(client.closed());
}

TEST(Hostile, AStalledUploaderThatGoesOnSendingReadsItsAnswerAndNoReset) {
  TestServer server(Limits{.body_stall_timeout = std::chrono::seconds(1)});
  TestClient client(server.port());
  client.send("PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc");
  send_on_and_read(client);
}

TEST(Hostile, ASlowUploaderThatGoesOnSendingReadsItsAnswerAndNoReset) {
  TestServer server(Limits{.body_stall_timeout = std::chrono::seconds(1), .body_rate_min = 1 * MiB});
  TestClient client(server.port());
  client.send("PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000\r\n\r\n");
  pollfd entry{client.fd(), POLLIN, 0};
  for (int i = 0; i < 500 && ::poll(&entry, 1, 40) == 0; ++i) client.send("x");
  send_on_and_read(client);
}

TEST(Hostile, OneThatKeepsTheRateIsServedHoweverLongItTakes) {
  TestServer server(Limits{.body_stall_timeout = std::chrono::seconds(1), .body_rate_min = 1});
  TestClient client(server.port());
  const std::string body = pattern(60);
  client.send("PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 60\r\n\r\n");
  pollfd entry{client.fd(), POLLIN, 0};
  for (const char c : body) {
    if (::poll(&entry, 1, 40) != 0) break;  // 2.4 seconds in all: more than two windows
    client.send({&c, 1});
  }
  EXPECT_EQ(client.read().body, body);
}

// Usual heads have a parser of their own; a tab is unusual enough for the other one.
TEST(HeadParser, APlainHeadReadsAsAnyOther) {
  constexpr std::string_view lines[] = {
      "GET /a%20b?x=1 HTTP/1.1\r\nHost: h:9000\r\nX-Amz-Date:  20260102T030405Z \r\nEmpty:\r\n",
      "HEAD /~!$&'()*+,;=:@\"<>[]\\^`{|} HTTP/1.1\r\nhost: h\r\nConnection: Keep-Alive\r\n!#$%&'*+-.^_`|~9z: a:b\r\n",
      "PUT http://other/k HTTP/1.1\r\nhost: h\r\ncontent-length: 12\r\nexpect: 100-continue\r\n",
      "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n",
      "GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\nExpect: 100-Continue\r\n",
      "GET / HTTP/1.0\r\nconnection: keep-alive\r\n",
      "get / HTTP/1.1\r\nhost: h\r\nupgrade: h2c\r\n",
      "GET / HTTP/1.1\r\n",
      "GET / HTTP/1.1\r\nhost: h\r\nrange: bytes=0-1\r\nrange: bytes=2-3\r\n",
      "GET /#x HTTP/1.1\r\nhost: h\r\n",
      "GET / HTTP/1.2\r\nhost: h\r\n",
      "GET / HTTP/1.1\r\nhost: h\r\nbad name: x\r\n",
      "GET / HTTP/1.1\r\nhost: h\r\nno colon\r\n",
      "GET /a b HTTP/1.1\r\nhost: h\r\n",
  };
  RequestHead plain, odd;
  for (const auto text : lines) {
    const std::string head(text);
    ASSERT_EQ(parse_head(head + "\r\n", plain), parse_head(head + "odd: a\tb\r\n\r\n", odd)) << head;
    if (parse_head(head + "\r\n", plain) != 0) continue;
    ASSERT_EQ(odd.headers.back().first, "odd");
    odd.headers.pop_back();
    EXPECT_EQ(plain.method, odd.method);
    EXPECT_EQ(plain.path, odd.path);
    EXPECT_EQ(plain.query, odd.query);
    EXPECT_EQ(plain.headers, odd.headers) << head;
    EXPECT_EQ(plain.content_length, odd.content_length) << head;
    EXPECT_EQ(plain.chunked, odd.chunked) << head;
    EXPECT_EQ(plain.keep_alive, odd.keep_alive) << head;
    EXPECT_EQ(plain.expect_continue, odd.expect_continue) << head;
    EXPECT_EQ(plain.http_1_0, odd.http_1_0) << head;
  }
}

TEST(HeadScanner, FindsTheEndHoweverTheBytesArrive) {
  const std::string_view head = "GET / HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n";
  for (size_t step = 1; step <= head.size(); ++step) {
    HeadScanner scanner;
    auto status = HeadScanner::Status::more;
    for (size_t size = step; status == HeadScanner::Status::more && size < head.size() + step; size += step) {
      status = scanner.scan(head.substr(0, std::min(size, head.size())));
    }
    EXPECT_EQ(status, HeadScanner::Status::complete) << step;
    EXPECT_EQ(scanner.size(), head.size());
  }
}

}  // namespace
}  // namespace verbena::http
