// Signed requests over a socket to a router over a store in memory.
#include "http/s3_handler.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "auth/auth.h"
#include "base/metrics.h"
#include "http/test_server.h"
#include "store/memory/test_store.h"

namespace verbena::http {
namespace {

class S3Handler : public testing::Test {
 protected:
  S3Handler() {
    char pattern[] = "/tmp/verbena-s3-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    log_ = std::move(*call::AccessLog::open({.path = log_path()}));
    server_ = std::make_unique<TestServer>(
        Limits{}, std::nullopt,
        make_s3_handler(verifier_, router_, {.access_log = log_.get(), .stopping = &stopping_}));
    client_ = std::make_unique<TestClient>(server_->port());
  }
  ~S3Handler() override {
    server_.reset();
    std::filesystem::remove_all(directory_);
  }
  std::string log_path() const { return directory_ + "/access.log"; }

  std::string request(std::string_view method, std::string_view target, std::string_view hash,
                      std::vector<std::pair<std::string, std::string>> headers = {}, std::string_view body = {}) {
    headers.emplace_back("host", "localhost:9000");
    const size_t mark = std::min(target.find('?'), target.size());
    if (!hash.empty()) {
      auth::sign(root_, "us-east-1", "s3", system_clock(), method, target.substr(0, mark),
                 target.substr(std::min(mark + 1, target.size())), hash, headers);
    }
    std::string text = std::string(method) + " " + std::string(target) + " HTTP/1.1\r\n";
    for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
    if (method == "PUT" || !body.empty()) text += "content-length: " + std::to_string(body.size()) + "\r\n";
    return text + "\r\n" + std::string(body);
  }
  Answer ask(std::string_view method, std::string_view target, std::string_view body = {},
             std::string_view hash = "UNSIGNED-PAYLOAD",
             std::vector<std::pair<std::string, std::string>> headers = {}) {
    return client_->ask(request(method, target, hash, std::move(headers), body));
  }
  std::string read_log() {
    server_->stop();
    log_.reset();
    std::ifstream file(log_path());
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const auth::Credentials root_{"AKIDROOT", "very secret", ""};
  auth::RootCredentials store_of_keys_{root_};
  auth::Verifier verifier_{store_of_keys_, system_clock(), {}};
  store::in_memory::TestStore store_{test_arena()};
  s3::Service service_{store_, test_arena(), system_clock()};
  s3::Router router_{service_, nullptr, {}};
  std::atomic<bool> stopping_ = false;
  std::string directory_;
  std::unique_ptr<call::AccessLog> log_;
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<TestClient> client_;
};

// Load balancers look at the port that they send requests to.
TEST_F(S3Handler, HealthIsToldToEveryone) {
  EXPECT_EQ(ask("GET", "/-/health", {}, "").body, "ok\n");
  EXPECT_EQ(ask("HEAD", "/-/health", {}, "").status, 200);
  EXPECT_EQ(ask("PUT", "/-/health", "x").status, 400) << "no bucket's name";
  for (const char* host : {"photos.localhost", "Photos.localhost.", "photos.localhost.:9000"}) {
    const std::string head = std::string("GET /-/health HTTP/1.1\r\nhost: ") + host + "\r\n\r\n";
    EXPECT_EQ(client_->ask(head).status, 404) << "a key: " << host;
  }
  stopping_ = true;
  const Answer stopping = ask("GET", "/-/health", {}, "");
  EXPECT_EQ(stopping.status, 503);
  EXPECT_EQ(stopping.body, "stopping\n");
}

TEST_F(S3Handler, AnObjectGoesInAndComesOutOverOneConnection) {
  EXPECT_EQ(ask("PUT", "/bucket").status, 200);
  for (size_t size : {0, 1, 4096, 3'000'000}) {
    const auto body = pattern(size);
    const auto put = ask("PUT", "/bucket/a%20key", body);
    EXPECT_EQ(put.status, 200) << put.body;
    const auto get = ask("GET", "/bucket/a%20key");
    EXPECT_EQ(get.status, 200);
    EXPECT_TRUE(get.body == body);
    EXPECT_EQ(get.header("ETag"), put.header("ETag"));
    const auto head = ask("HEAD", "/bucket/a%20key");
    EXPECT_EQ(head.header("Content-Length"), std::to_string(size));
  }
  EXPECT_EQ(server_->listener().connections(), 1u);
}

TEST_F(S3Handler, EveryAnswerCarriesOneRequestId) {
  for (const auto& answer : {ask("GET", "/"), ask("GET", "/none/key"), client_->ask(request("GET", "/", ""))}) {
    const auto id = answer.header("x-amz-request-id");
    EXPECT_EQ(id.size(), 16u);
    EXPECT_EQ(answer.head.find("x-amz-request-id"), answer.head.rfind("x-amz-request-id"));
  }
}

TEST_F(S3Handler, ASignedHashThatIsNotTheBodysStoresNothing) {
  ask("PUT", "/bucket");
  const auto hash = to_hex(as_bytes(sha256(as_bytes("hello"))));
  EXPECT_EQ(ask("PUT", "/bucket/k", "hello", hash).status, 200);
  const auto wrong = ask("PUT", "/bucket/other", "jello", hash);
  EXPECT_EQ(wrong.status, 400);
  EXPECT_NE(wrong.body.find("<Code>XAmzContentSHA256Mismatch</Code>"), std::string::npos) << wrong.body;
  EXPECT_EQ(ask("GET", "/bucket/other").status, 404);
  EXPECT_EQ(ask("PUT", "/bucket/other", "", hash).status, 400);
  EXPECT_EQ(ask("GET", "/bucket/k").body, "hello");
}

TEST_F(S3Handler, AnUnsignedStreamWithATrailingChecksumIsStoredDecoded) {
  ask("PUT", "/bucket");
  Digest digest(Algorithm::crc32);
  digest.update(as_bytes("hello world"));
  const std::string crc = digest.finish_base64();
  const auto put = [&](const std::string& checksum, const std::string& length) {
    return ask("PUT", "/bucket/k", "5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32:" + checksum + "\r\n\r\n",
               "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
               {{"content-encoding", "aws-chunked"},
                {"x-amz-decoded-content-length", length},
                {"x-amz-sdk-checksum-algorithm", "CRC32"},
                {"x-amz-trailer", "x-amz-checksum-crc32"}});
  };
  const auto stored = put(crc, "11");
  EXPECT_EQ(stored.status, 200) << stored.body;
  EXPECT_EQ(stored.header("x-amz-checksum-crc32"), crc);
  const auto get = ask("GET", "/bucket/k");
  EXPECT_EQ(get.body, "hello world");
  EXPECT_EQ(get.header("content-encoding"), "");
  EXPECT_EQ(put("AAAAAA==", "11").status, 400);
  EXPECT_EQ(put(crc, "12").status, 400);
  EXPECT_EQ(put(crc, "x").status, 411);
  EXPECT_EQ(ask("GET", "/bucket/k").body, "hello world");
}

TEST_F(S3Handler, StrangersAndForgersAreRefused) {
  EXPECT_EQ(client_->ask(request("PUT", "/bucket", "")).status, 403);
  auto forged = request("GET", "/", "UNSIGNED-PAYLOAD");
  char& digit = forged[forged.find("Signature=") + 10];
  digit = digit == '0' ? '1' : '0';
  const auto answer = client_->ask(forged);
  EXPECT_EQ(answer.status, 403);
  EXPECT_NE(answer.body.find("<Code>SignatureDoesNotMatch</Code>"), std::string::npos) << answer.body;
}

// RFC 3986, section 3.2.2: a name may end with a dot.
TEST_F(S3Handler, AHostMayBeAFullName) {
  ask("PUT", "/bucket");
  for (const char* host : {"bucket.localhost.", "BUCKET.LocalHost.:9000"}) {
    const auto query = auth::presign(root_, "us-east-1", system_clock(), "PUT", host, "/k", "", 60).value();
    EXPECT_EQ(client_->ask("PUT /k?" + query + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 2\r\n\r\nhi").status,
              200)
        << host;
    EXPECT_EQ(ask("GET", "/bucket/k").body, "hi");
    EXPECT_EQ(ask("DELETE", "/bucket/k").status, 204);
  }
}

TEST_F(S3Handler, APresignedAddressIsEnough) {
  ask("PUT", "/bucket");
  ask("PUT", "/bucket/k", "hello");
  const auto query =
      auth::presign(root_, "us-east-1", system_clock(), "GET", "localhost:9000", "/bucket/k", "", 60).value();
  EXPECT_EQ(client_->ask("GET /bucket/k?" + query + " HTTP/1.1\r\nHost: localhost:9000\r\n\r\n").body, "hello");
}

TEST_F(S3Handler, TheAccessLogNamesTheRequestAndNoSecret) {
  const auto query =
      auth::presign(root_, "us-east-1", system_clock(), "GET", "localhost:9000", "/bucket/k", "", 60).value();
  client_->ask("GET /bucket/k?" + query + " HTTP/1.1\r\nHost: localhost:9000\r\n\r\n");
  ask("PUT", "/bucket");
  const auto log = read_log();
  EXPECT_NE(log.find("\"door\":\"http\",\"peer\":\"127.0.0.1\","), std::string::npos) << log;
  EXPECT_NE(log.find("\"access_key\":\"AKIDROOT\",\"action\":\"GET object\",\"bucket\":\"bucket\",\"key\":\"k\","
                     "\"status\":404,\"error\":\"NoSuchBucket\""),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("\"action\":\"PUT bucket\",\"bucket\":\"bucket\",\"status\":200,\"bytes_in\""), std::string::npos)
      << log;
  EXPECT_EQ(log.find("Signature"), std::string::npos);
  EXPECT_EQ(log.find("X-Amz"), std::string::npos);
}

// Lines that have both.
int count(const std::string& log, const std::string& one, const std::string& other) {
  std::istringstream lines(log);
  int found = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(one) != std::string::npos && line.find(other) != std::string::npos) ++found;
  }
  return found;
}

// Its window is never opened: an empty object moves no byte.
class NoWindows final : public rdma::Dialect {
 public:
  bool serves(rdma::TokenForm) const override { return true; }
  Task<Result<std::unique_ptr<fabric::Window>>> open(const rdma::Token&, rdma::TokenClient, fabric::Access) override {
    ADD_FAILURE() << "a window was opened";
    co_return fail(Errc::rdma_not_supported);
  }
};

TEST_F(S3Handler, AnEmptyObjectByTokenIsLoggedAndCountedAsTheTokenDoors) {
  EXPECT_EQ(ask("PUT", "/bucket").status, 200);
  NoWindows windows;
  s3::Router router(service_, &windows, {});
  server_ = std::make_unique<TestServer>(Limits{}, std::nullopt,
                                         make_s3_handler(verifier_, router, {.access_log = log_.get()}));
  client_ = std::make_unique<TestClient>(server_->port());
  auto& puts =
      metrics::counter("verbena_http_requests_total", "", {{"door", "token"}, {"method", "PUT"}, {"status", "2xx"}});
  auto& gets =
      metrics::counter("verbena_http_requests_total", "", {{"door", "token"}, {"method", "GET"}, {"status", "2xx"}});
  const uint64_t puts_before = puts.value(), gets_before = gets.value();
  const std::string token = "1000:0:ofi1:tcp:0200aabb7f000001:7";
  const auto put = ask("PUT", "/bucket/empty", "", "UNSIGNED-PAYLOAD", {{"x-amz-rdma-token", token}});
  EXPECT_EQ(put.status, 200) << put.body;
  EXPECT_EQ(put.header("x-amz-rdma-reply"), "200");
  const auto get = ask("GET", "/bucket/empty", "", "UNSIGNED-PAYLOAD", {{"x-amz-rdma-token", token}});
  EXPECT_EQ(get.header("x-amz-rdma-reply"), "200");
  EXPECT_EQ(ask("GET", "/bucket/empty").status, 200);
  EXPECT_EQ(puts.value(), puts_before + 1);
  EXPECT_EQ(gets.value(), gets_before + 1);
  const std::string log = read_log();
  EXPECT_EQ(count(log, "\"door\":\"token\"",
                  "\"action\":\"PUT object\",\"bucket\":\"bucket\",\"key\":\"empty\",\"status\":200"),
            1)
      << log;
  EXPECT_EQ(count(log, "\"door\":\"token\"",
                  "\"action\":\"GET object\",\"bucket\":\"bucket\",\"key\":\"empty\",\"status\":200"),
            1)
      << log;
  EXPECT_EQ(count(log, "\"door\":\"http\"",
                  "\"action\":\"GET object\",\"bucket\":\"bucket\",\"key\":\"empty\",\"status\":200"),
            1)
      << log;
}

// What lies in memory is served without a coroutine, by another way through handler and router.
class HotObjects : public S3Handler {
 protected:
  HotObjects() {
    store_.is_hot = [this](std::string_view) {
      ++looks_;
      return hot_.load();
    };
    ask("PUT", "/bucket");
    ask("PUT", "/bucket/key", pattern(100'000));
  }
  void hot(bool is) { hot_ = is; }
  // How often was looked in memory since this was last asked.
  int looks() { return looks_.exchange(0); }
  // Its lines but for those that are of one request alone.
  static std::string lasting(const Answer& answer) {
    std::istringstream lines(answer.head);
    std::string out;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("Date: ") && !line.starts_with("x-amz-request-id: ")) out += line + "\n";
    }
    return out;
  }

 private:
  std::atomic<bool> hot_ = true;
  std::atomic<int> looks_ = 0;
};

TEST_F(HotObjects, AreLookedUpOnceWhateverBecomesOfTheRequest) {
  (void)looks();
  EXPECT_EQ(ask("GET", "/bucket/key").status, 200);
  EXPECT_EQ(looks(), 1);
  EXPECT_EQ(ask("GET", "/bucket/key", {}, "UNSIGNED-PAYLOAD", {{"range", "bytes=200000-"}}).status, 416);
  EXPECT_EQ(looks(), 1) << "the range is none of its";
  EXPECT_EQ(client_->ask("GET /bucket/key HTTP/1.1\r\nhost: h\r\n\r\n").status, 403);
  EXPECT_EQ(looks(), 1) << "no caller may read it";
  EXPECT_EQ(ask("HEAD", "/bucket/key").status, 200);
  EXPECT_EQ(looks(), 1);
}

TEST_F(HotObjects, AnswersAreThoseOfColdObjects) {
  using Headers = std::vector<std::pair<std::string, std::string>>;
  const std::string etag = ask("HEAD", "/bucket/key").header("etag");
  const std::vector<Headers> all{{},
                                 {{"range", "bytes=10-19"}},
                                 {{"range", "bytes=-7"}},
                                 {{"range", "bytes=200000-"}},
                                 {{"range", "nonsense"}},
                                 {{"if-none-match", etag}},
                                 {{"if-match", "\"other\""}},
                                 {{"x-amz-checksum-mode", "ENABLED"}},
                                 {{"x-amz-server-side-encryption", "AES256"}},
                                 {{"x-amz-expected-bucket-owner", "nobody"}},
                                 {{"x-amz-rdma-token", "x"}},
                                 {{"origin", "http://example.com"}},
                                 {{"x-amz-website-redirect-location", "/"}}};
  for (const Headers& headers : all) {
    for (const char* target : {"/bucket/key", "/bucket/key?x=1", "/bucket/none", "/none/key", "/bucket/%ff"}) {
      for (const char* method : {"GET", "HEAD"}) {
        const std::string name = std::string(method) + target + " " + (headers.empty() ? "" : headers[0].first);
        hot(false);
        const Answer cold = ask(method, target, {}, "UNSIGNED-PAYLOAD", headers);
        hot(true);
        const Answer at_once = ask(method, target, {}, "UNSIGNED-PAYLOAD", headers);
        EXPECT_EQ(lasting(at_once), lasting(cold)) << name;
        EXPECT_EQ(at_once.header("x-amz-request-id").size(), 16u) << name;
        EXPECT_TRUE(cold.status >= 400 || at_once.body == cold.body) << name;
      }
    }
  }
}

TEST_F(HotObjects, WhoMayNotHasNoByteOfThem) {
  EXPECT_EQ(ask("GET", "/bucket/key", {}, "").status, 403);
  EXPECT_EQ(ask("GET", "/bucket/key", {}, to_hex(as_bytes(sha256(as_bytes("x"))))).status, 400) << "of no body";
  std::string forged = request("GET", "/bucket/key", "UNSIGNED-PAYLOAD");
  const size_t at = forged.find("Signature=") + 10;
  forged[at] = forged[at] == '0' ? '1' : '0';
  const Answer refused = client_->ask(forged);
  EXPECT_EQ(refused.status, 403);
  EXPECT_NE(refused.body.find("SignatureDoesNotMatch"), std::string::npos);
  EXPECT_EQ(ask("GET", "/bucket/key").status, 200) << "the connection lives on";
}

TEST_F(HotObjects, EverybodyReadsThemAsLongAsThePolicySaysSo) {
  ask("PUT", "/bucket/other", "x");
  const auto status = [this](const char* path, const char* more = "") {
    return client_->ask("GET " + std::string(path) + " HTTP/1.1\r\nhost: h\r\n" + more + "\r\n").status;
  };
  const auto set_policy = [this](std::string_view resource, std::string_view more, std::string_view other = "") {
    const std::string text = R"({"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*",)"
                             R"("Action":"s3:GetObject","Resource":"arn:aws:s3:::)" +
                             std::string(resource) + "\"" + std::string(more) + "}" + std::string(other) + "]}";
    EXPECT_EQ(ask("PUT", "/bucket?policy", text).status, 204);
  };
  ask("DELETE", "/bucket?publicAccessBlock");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(status("/bucket/key"), 403);
  set_policy("bucket/*", "");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(status("/bucket/key"), 200);
  EXPECT_EQ(status("/bucket/other"), 200);
  set_policy("bucket/k*", "");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(status("/bucket/key"), 200);
    EXPECT_EQ(status("/bucket/other"), 403);
  }
  set_policy("bucket/*", R"(,"Condition":{"StringEquals":{"aws:UserAgent":"me"}})");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(status("/bucket/key", "user-agent: me\r\n"), 200);
    EXPECT_EQ(status("/bucket/key", "user-agent: you\r\n"), 403);
  }
  set_policy("bucket/*", "",
             R"(,{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::bucket/key"})");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(status("/bucket/key"), 403);
    EXPECT_EQ(status("/bucket/other"), 200);
  }
  EXPECT_EQ(ask("DELETE", "/bucket?policy").status, 204);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(status("/bucket/other"), 403);
}

TEST_F(HotObjects, ManyAskedForAtOnceComeInOrder) {
  std::string requests;
  for (int i = 0; i < 40; ++i) {
    requests += request("GET", "/bucket/key", "UNSIGNED-PAYLOAD", {{"range", "bytes=" + std::to_string(i) + "-99999"}});
    if (i % 8 == 3) requests += request("PUT", "/bucket/other", "UNSIGNED-PAYLOAD", {}, "body");
  }
  std::thread sender([&] { EXPECT_TRUE(client_->send(requests)); });
  const std::string whole = pattern(100'000);
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(client_->read().body == whole.substr(static_cast<size_t>(i))) << i;
    if (i % 8 == 3) {
      EXPECT_EQ(client_->read().status, 200);
    }
  }
  sender.join();
}

TEST_F(HotObjects, ASlowReaderGetsAllOfThemAndTheLogSaysSo) {
  const std::string body = pattern(20'000'000);
  ASSERT_EQ(ask("PUT", "/bucket/large", body).status, 200);
  TestClient slow(server_->port());
  ASSERT_TRUE(slow.send(request("GET", "/bucket/large", "UNSIGNED-PAYLOAD")));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(slow.read().body == body);
  {
    TestClient gone(server_->port());
    ASSERT_TRUE(gone.send(request("GET", "/bucket/large", "UNSIGNED-PAYLOAD")));
    char some[1000];
    ASSERT_GT(::recv(gone.fd(), some, sizeof some, 0), 0);
  }
  EXPECT_TRUE(server_->wait_for_connections(2));
  ask("GET", "/bucket/key");
  const std::string log = read_log();
  EXPECT_NE(log.find(R"("key":"large","status":200,"bytes_in":0,"bytes_out":20000000,)"), std::string::npos) << log;
  EXPECT_NE(
      log.find(R"("action":"GET object","bucket":"bucket","key":"key","status":200,"bytes_in":0,"bytes_out":100000)"),
      std::string::npos)
      << log;
}

TEST_F(HotObjects, AnEmptyOneIsAHeadAlone) {
  ask("PUT", "/bucket/empty");
  for (int i = 0; i < 2; ++i) {
    const Answer empty = ask("GET", "/bucket/empty");
    EXPECT_EQ(empty.status, 200);
    EXPECT_EQ(empty.header("Content-Length"), "0");
  }
}

// Objects in memory in no one piece, whose pieces cannot be read.
class RottenStore final : public store::in_memory::TestStore {
 public:
  using TestStore::TestStore;
  std::shared_ptr<store::ObjectReader> hot(std::string_view bucket, std::string_view key) override {
    const auto found = TestStore::hot(bucket, key);
    return found == nullptr ? nullptr : std::make_shared<Rotten>(found->info());
  }

 private:
  class Rotten final : public store::ObjectReader {
   public:
    explicit Rotten(store::ObjectInfo info) : info_(std::move(info)) {}
    const store::ObjectInfo& info() const override { return info_; }
    Task<Result<memory::Chunk>> read(uint64_t, size_t) override { co_return fail(Errc::corrupt_object, "rotten"); }

   private:
    const store::ObjectInfo info_;
  };
};

TEST_F(S3Handler, AHotObjectThatCannotBeSentIsRefusedAndTheConnectionLivesOn) {
  RottenStore store(test_arena());
  store.is_hot = [](std::string_view) { return true; };
  s3::Service service{store, test_arena(), system_clock()};
  s3::Router router(service, nullptr, {});
  server_ = std::make_unique<TestServer>(Limits{}, std::nullopt, make_s3_handler(verifier_, router));
  client_ = std::make_unique<TestClient>(server_->port());
  EXPECT_EQ(ask("PUT", "/bucket").status, 200);
  EXPECT_EQ(ask("PUT", "/bucket/key", "body").status, 200);
  for (int i = 0; i < 2; ++i) {
    const Answer refused = ask("GET", "/bucket/key");
    EXPECT_EQ(refused.status, 500);
    EXPECT_NE(refused.body.find("<Key>key</Key>"), std::string::npos) << refused.body;
  }
  EXPECT_EQ(server_->listener().connections(), 1u);
  server_->stop();
}

}  // namespace
}  // namespace verbena::http
