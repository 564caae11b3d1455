// Watches through the native door: all kinds of changes, many watchers, and watchers that do not read.
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "base/checksum.h"
#include "client/endpoint.h"
#include "client/http/s3_http.h"
#include "world.h"

namespace verbena::matrix {
namespace {

using namespace std::chrono_literals;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

class WatchMatrix : public testing::TestWithParam<std::string> {
 protected:
  WatchMatrix() : WatchMatrix(test_config()) {}
  explicit WatchMatrix(Config config) : world(std::move(config)), maker(world.client({Via::http, "auto"})) {
    EXPECT_TRUE(maker.make_bucket("watched"));
    const auto endpoint = client::parse_endpoint(world.server.http()).value();
    http = net::HttpClient::create({.host = endpoint.host, .port = endpoint.port}).value();
    s3.emplace(*http,
               client::S3Options{.credentials = {server::TestServer::access_key, server::TestServer::secret_key, ""}});
  }
  Client native() { return world.client({Via::native, GetParam()}); }
  static Watch watch(const Client& client, const std::string& prefix = {}, const std::string& bucket = "watched") {
    WatchOptions options;
    options.prefix = prefix;
    auto begun = client.watch(bucket, options);
    if (!begun) {
      ADD_FAILURE() << begun.error().message;
      std::abort();
    }
    return *begun;
  }
  void put(const std::string& key, std::string_view body = "body", const std::string& bucket = "watched") {
    const auto done = maker.put(bucket, key, bytes_of(body));
    ASSERT_TRUE(done) << done.error().message;
  }
  // "created key" of the next `count` changes.
  static std::vector<std::string> told(const Watch& watch, size_t count) {
    std::vector<std::string> texts;
    while (texts.size() < count) {
      const auto news = watch.next(10s);
      if (!news) {
        texts.push_back(news.error().message);
        break;
      }
      if (news->gap) texts.push_back("gap");
      if (!news->gap && news->changes.empty()) break;
      for (const KeyChange& change : news->changes) {
        texts.push_back(std::string(to_string(change.what)) + " " + change.key);
        last = change;
      }
    }
    return texts;
  }
  Outcome<net::HttpReply> call(const std::string& method, const std::string& key, const std::string& query,
                               net::HttpHeaders headers = {}, std::string_view body = {},
                               const std::string& bucket = "watched") {
    client::S3Call call{.method = method, .bucket = bucket, .key = key, .headers = std::move(headers)};
    if (!query.empty()) {
      const size_t at = query.find('=');
      call.query.emplace_back(query.substr(0, at), at == query.npos ? "" : query.substr(at + 1));
    }
    call.body = bytes_of(body);
    if (!body.empty()) {  // S3 requires its digest
      const uint32_t crc = crc32c(call.body);
      std::string raw;
      for (int shift = 24; shift >= 0; shift -= 8) raw.push_back(static_cast<char>(crc >> shift));
      call.headers.emplace_back("x-amz-checksum-crc32c", to_base64(verbena::as_bytes(raw)));
    }
    return s3->call(call);
  }
  using Texts = std::vector<std::string>;

  World world;
  Client maker;
  std::unique_ptr<net::HttpClient> http;
  std::optional<client::S3Http> s3;
  static inline KeyChange last;
};

TEST_P(WatchMatrix, ChangesByEveryDoorAreTold) {
  const Watch all = watch(native());
  for (const Way& way : every_way()) {
    SCOPED_TRACE(way.name());
    const auto client = world.client(way);
    const std::string key = "by " + way.name();
    ASSERT_TRUE(client.put("watched", key, bytes_of("body")));
    EXPECT_EQ(told(all, 1), Texts{"created " + key});
    EXPECT_EQ(last.size, 4u);
    const auto info = client.head("watched", key);
    ASSERT_TRUE(info);
    EXPECT_EQ(last.etag, info->etag);
    ASSERT_TRUE(client.remove("watched", key));
    EXPECT_EQ(told(all, 1), Texts{"removed " + key});
  }
}

TEST_P(WatchMatrix, EveryVerbThatChangesAKeyIsTold) {
  const auto client = native();
  const Watch all = watch(client);
  put("a");
  EXPECT_EQ(told(all, 1), Texts{"created a"});
  ASSERT_TRUE(call("PUT", "copy", "", {{"x-amz-copy-source", "/watched/a"}}));
  EXPECT_EQ(told(all, 1), Texts{"created copy"});
  ASSERT_TRUE(
      call("PUT", "a", "tagging", {}, "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"));
  EXPECT_EQ(told(all, 1), Texts{"changed a"});
  // A batch of writes, and one of removals.
  const std::vector<std::byte> body(64);
  auto window = client.allocate(64);
  ASSERT_TRUE(window);
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("many/" + std::to_string(i));
  std::vector<BatchItem> items;
  for (const auto& name : names) items.push_back({.bucket = "watched", .key = name, .offset = 0, .size = 64});
  std::vector<BatchResult> results(items.size());
  const std::vector<Buffer> windows{*window};
  ASSERT_TRUE(client.put_many(items, windows, results));
  auto texts = told(all, 20);
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), 20u);
  EXPECT_TRUE(std::ranges::all_of(texts, [](const auto& text) { return text.starts_with("created many/"); }));
  for (auto& item : items) item.size = 0;
  ASSERT_TRUE(client.remove_many(items, results));
  EXPECT_EQ(told(all, 20).size(), 20u);
  // Many removals in one request of S3's.
  const std::string list = "<Delete><Object><Key>a</Key></Object><Object><Key>copy</Key></Object></Delete>";
  ASSERT_TRUE(call("POST", "", "delete", {}, list));
  texts = told(all, 2);
  std::ranges::sort(texts);
  EXPECT_EQ(texts, (Texts{"removed a", "removed copy"}));
  // A multipart upload.
  ClientOptions options;
  options.endpoint = world.server.http();
  options.access_key = server::TestServer::access_key;
  options.secret_key = server::TestServer::secret_key;
  options.via = Via::http;
  options.multipart_threshold = 6 << 20;
  options.part_size = 5 << 20;
  const auto large = random_bytes(11 << 20, 7);
  auto by_parts = Client::connect(options);
  ASSERT_TRUE(by_parts);
  ASSERT_TRUE(by_parts->put("watched", "large", std::span<const std::byte>(large)));
  EXPECT_EQ(told(all, 1), Texts{"created large"});
  EXPECT_EQ(last.size, large.size());
}

TEST_P(WatchMatrix, VersionsMarkersAppendsAndRenamesAreTold) {
  const std::string versions = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
  ASSERT_TRUE(maker.make_bucket("versions"));
  ASSERT_TRUE(call("PUT", "", "versioning", {}, versions, "versions"));
  const auto client = native();
  const Watch of_versions = watch(client, "", "versions");
  put("v", "1", "versions");
  EXPECT_EQ(told(of_versions, 1), Texts{"created v"});
  EXPECT_FALSE(last.version_id.empty());
  ASSERT_TRUE(maker.remove("versions", "v"));
  EXPECT_EQ(told(of_versions, 1), Texts{"marked v"});
  RemoveOptions marker;
  marker.version_id = last.version_id;
  ASSERT_TRUE(maker.remove("versions", "v", marker));
  EXPECT_EQ(told(of_versions, 2), (Texts{"removed v", "created v"})) << "the object is there again";
  EXPECT_EQ(last.size, 1u);

  const std::string directory = "d--local1-az1--x-s3";
  ASSERT_TRUE(maker.make_bucket(directory));
  const Watch from = watch(client, "from/", directory), to = watch(client, "to/", directory);
  PutOptions append;
  append.append_at = append_at_end;
  ASSERT_TRUE(client.put(directory, "from/log", bytes_of("one"), append));
  ASSERT_TRUE(client.put(directory, "from/log", bytes_of("two"), append));
  EXPECT_EQ(told(from, 2), (Texts{"created from/log", "appended from/log"}));
  EXPECT_EQ(last.size, 6u);
  ASSERT_TRUE(client.rename(directory, "from/log", "to/log"));
  EXPECT_EQ(told(from, 1), Texts{"renamed_away from/log"});
  EXPECT_EQ(told(to, 1), Texts{"renamed_here to/log"});
}

// Order per key; a reader that was notified of a change finds it or a newer one.
TEST_P(WatchMatrix, WhoReadsAfterAMessageSeesTheChangeOrANewerOne) {
  constexpr int keys = 4, rounds = 200;
  const auto client = native();
  for (const char* durability : {"sync", "memory"}) {
    SCOPED_TRACE(durability);
    const std::string bucket = std::string("race-") + durability;
    ASSERT_TRUE(maker.make_bucket(bucket, *durability == 's' ? BucketDurability::sync : BucketDurability::memory));
    const Watch all = watch(client, "", bucket);
    std::vector<std::thread> writers;
    for (int k = 0; k < keys; ++k) {
      writers.emplace_back([&, k] {
        const auto writer = native();
        for (int i = 1; i <= rounds; ++i) {
          const std::string body(static_cast<size_t>(i), 'x');  // the size is the number
          EXPECT_TRUE(writer.put(bucket, std::to_string(k), bytes_of(body)));
        }
      });
    }
    std::map<std::string, uint64_t> seen;
    uint64_t number = 0;
    const auto all_seen = [&] {
      return seen.size() == keys && std::ranges::all_of(seen, [](const auto& one) { return one.second == rounds; });
    };
    while (!all_seen()) {
      const auto news = all.next(10s);
      ASSERT_TRUE(news) << news.error().message;
      ASSERT_FALSE(news->changes.empty() && !news->gap) << "a change was not reported";
      ASSERT_FALSE(news->gap);
      for (const KeyChange& change : news->changes) {
        EXPECT_GT(change.number, number);
        number = change.number;
        EXPECT_GE(change.size, seen[change.key]) << "in order";
        seen[change.key] = change.size;
      }
      const KeyChange& one = news->changes.back();
      const auto now = client.head(bucket, one.key);
      ASSERT_TRUE(now);
      EXPECT_GE(now->size, one.size);
    }
    for (auto& writer : writers) writer.join();
  }
}

TEST_P(WatchMatrix, WhoNeverReadsHoldsUpNobodyAndIsToldOfTheGap) {
  const auto client = native();
  const Watch deaf = watch(client), listens = watch(client, "k");
  const auto writer = native();
  const std::string pad(900, 'x');
  std::atomic<size_t> heard{0};
  std::thread listener([&] {
    while (heard < 1500) {
      const auto news = listens.next(10s);
      if (!news || (news->changes.empty() && !news->gap)) break;
      EXPECT_FALSE(news->gap);
      heard += news->changes.size();
    }
  });
  for (int i = 0; i < 1500; ++i) ASSERT_TRUE(writer.put("watched", "k" + std::to_string(i) + pad, bytes_of("x")));
  listener.join();
  EXPECT_EQ(heard, 1500u);
  const auto news = deaf.next(10s);
  ASSERT_TRUE(news);
  EXPECT_TRUE(news->gap);
  // And continues from there.
  put("last");
  std::string text;
  for (bool more = true; more;) {
    const auto rest = deaf.next(10s);
    ASSERT_TRUE(rest);
    EXPECT_FALSE(rest->gap);
    ASSERT_FALSE(rest->changes.empty());
    more = rest->changes.back().key != "last";
  }
}

TEST_P(WatchMatrix, APrefixIsBytesAndNothingElse) {
  const auto client = native();
  put("before");
  const std::vector<std::string> prefixes{"", "a", "a/", "a//", "a/*", "%61", "a/\n", "A", "\xc3\xa4", ".."};
  std::vector<Watch> watches;
  for (const auto& prefix : prefixes) watches.push_back(watch(client, prefix));
  const std::vector<std::string> keys{"a", "a/b", "a//b", "a/*", "%61", "A", "\xc3\xa4/x", "../a", "b"};
  for (const auto& key : keys) put(key);
  for (size_t i = 0; i < prefixes.size(); ++i) {
    Texts expected;
    for (const auto& key : keys) {
      if (key.starts_with(prefixes[i])) expected.push_back("created " + key);
    }
    EXPECT_EQ(told(watches[i], expected.size()), expected) << prefixes[i];
    const auto rest = watches[i].next(0ms);
    ASSERT_TRUE(rest);
    EXPECT_TRUE(rest->changes.empty()) << prefixes[i];
  }
  WatchOptions too_long;
  too_long.prefix = std::string(1025, 'p');
  EXPECT_FALSE(client.watch("watched", too_long));
  const auto none = client.watch("no-such-bucket", {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::no_such_bucket);
}

TEST_P(WatchMatrix, ItsEndsAreTold) {
  const auto client = native();
  const Watch ended = watch(client), removed = watch(client);
  std::thread waits([&] {
    const auto news = ended.next();
    ASSERT_FALSE(news);
    EXPECT_EQ(news.error().code, ErrorCode::cancelled);
  });
  std::this_thread::sleep_for(20ms);
  ended.end();
  waits.join();
  EXPECT_EQ(ended.next(1s).error().code, ErrorCode::cancelled);
  const auto nothing = removed.next(10ms);
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->changes.empty());
  ASSERT_TRUE(maker.remove_bucket("watched"));
  const auto gone = removed.next(10s);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::no_such_bucket);
  // A later bucket of the same name is another one: watches of the first do not report it.
  ASSERT_TRUE(maker.make_bucket("watched"));
  const auto anew = removed.next(10s);
  ASSERT_TRUE(anew) << anew.error().message;
  EXPECT_TRUE(anew->gap);
  put("again");
  EXPECT_EQ(told(removed, 1), Texts{"created again"});
}

class IdleWatchMatrix : public WatchMatrix {
 protected:
  IdleWatchMatrix() : WatchMatrix(idle_soon()) {}
  static Config idle_soon() {
    Config config = test_config();
    config.rdma.session_idle_timeout = std::chrono::seconds(2);
    return config;
  }
};

TEST_P(IdleWatchMatrix, ASessionThatWasLostIsAGapAndOneThatWaitsIsNotIdle) {
  // The server checks once a second for waits that are over: a request sent in the middle of that second waits for two
  // thirds of a second and more, longer than the client keeps an idle session.
  std::this_thread::sleep_for(400ms);
  const auto client = native();
  const Watch all = watch(client);
  put("one");
  EXPECT_EQ(told(all, 1), Texts{"created one"});
  const uint64_t number = last.number;
  // No change for several times the idle limit of a session.
  const auto nothing = all.next(5s);
  ASSERT_TRUE(nothing) << nothing.error().message;
  EXPECT_FALSE(nothing->gap);
  put("two");
  EXPECT_EQ(told(all, 1), Texts{"created two"});
  // No request for as long.
  std::this_thread::sleep_for(4s);
  put("missed");
  const auto news = all.next(10s);
  ASSERT_TRUE(news) << news.error().message;
  EXPECT_TRUE(news->gap);
  put("three");
  EXPECT_EQ(told(all, 1), Texts{"created three"});
  EXPECT_GT(last.number, number);
}

TEST_P(WatchMatrix, OverHttpAloneAWatchIsAClearError) {
  const auto begun = maker.watch("watched", {});
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().code, ErrorCode::unsupported);
  EXPECT_NE(begun.error().message.find("native door"), std::string::npos);
}

// The limit per session and endpoint; a refused watch does not affect the others.
TEST_P(WatchMatrix, SoManyThatTheLimitIsMet) {
  const auto client = native();
  std::vector<Watch> watches;
  std::optional<ClientError> refused;
  for (int i = 0; i < 10'000 && !refused; ++i) {
    WatchOptions options;
    options.prefix = "p" + std::to_string(i);
    auto begun = client.watch("watched", options);
    if (begun) {
      watches.push_back(*begun);
    } else {
      refused = begun.error();
    }
  }
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, ErrorCode::slow_down);
  EXPECT_GE(watches.size(), 64u);
  put("p0");
  EXPECT_EQ(told(watches[0], 1), Texts{"created p0"});
  EXPECT_TRUE(client.head("watched", "p0"));
  watches.clear();
  EXPECT_EQ(told(watch(client, "p1"), 0), Texts());
}

INSTANTIATE_TEST_SUITE_P(By, WatchMatrix, testing::ValuesIn(test_providers()));
INSTANTIATE_TEST_SUITE_P(By, IdleWatchMatrix, testing::ValuesIn(test_providers()));

}  // namespace
}  // namespace verbena::matrix
