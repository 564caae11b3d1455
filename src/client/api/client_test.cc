// Every operation through every door, against a real server in this process.
#include "verbena/client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/bytes.h"
#include "base/checksum.h"
#include "server/test_server.h"

namespace verbena {
namespace {

using server::TestServer;

// One server for all tests of this file. It ends before main() does: libraries that it uses end at exit.
class SharedServer : public testing::Environment {
 public:
  static TestServer& get() {
    if (!server) server = std::make_unique<TestServer>();
    return *server;
  }
  void TearDown() override { server.reset(); }

 private:
  static inline std::unique_ptr<TestServer> server;
};
[[maybe_unused]] const testing::Environment* const registered = testing::AddGlobalTestEnvironment(new SharedServer);

TestServer& shared_server() { return SharedServer::get(); }

ClientOptions options_for(TestServer& server, Via via, const std::string& provider = "auto") {
  ClientOptions options;
  options.endpoint = server.http();
  options.native_endpoint = server.native();
  options.access_key = TestServer::access_key;
  options.secret_key = TestServer::secret_key;
  options.via = via;
  options.provider = provider;
  options.token_size_min = 1;
  return options;
}

std::vector<std::byte> pattern(size_t size, unsigned seed = 1) {
  std::vector<std::byte> out(size);
  uint64_t state = seed;
  for (std::byte& byte : out) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    byte = static_cast<std::byte>(state >> 56);
  }
  return out;
}

// By memcmp: std::equal goes through std::byte one by one, which takes seconds without optimization.
bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

struct DoorCase {
  Via via;
  const char* provider;
};
void PrintTo(const DoorCase& door, std::ostream* out) { *out << to_string(door.via) << " " << door.provider; }

class EveryDoor : public testing::TestWithParam<DoorCase> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(shared_server().running());
    auto connected = Client::connect(options_for(shared_server(), GetParam().via, GetParam().provider));
    ASSERT_TRUE(connected) << connected.error().message;
    client.emplace(std::move(*connected));
    static std::atomic<int> next{0};
    bucket = "every-door-" + std::to_string(next++);
    auto made = client->make_bucket(bucket);
    ASSERT_TRUE(made) << made.error().message;
  }
  void expect_door(const Transfer& transfer, uint64_t bytes) {
    if (bytes > 0) {
      EXPECT_EQ(transfer.door, GetParam().via) << transfer.fell_back_reason;
    }
    EXPECT_EQ(transfer.bytes, bytes);
    EXPECT_EQ(transfer.fell_back_reason, "");
    EXPECT_FALSE(transfer.provider.empty());
  }
  std::optional<Client> client;
  std::string bucket;
};

TEST_P(EveryDoor, WhatWasPutComesBack) {
  for (size_t size : {0ul, 1ul, 100ul, 4096ul, 65536ul, 1'000'001ul, 5'000'000ul}) {
    const auto bytes = pattern(size, static_cast<unsigned>(size));
    const std::string key = "key " + std::to_string(size) + " +ü";
    auto put = client->put(bucket, key, std::span<const std::byte>(bytes));
    ASSERT_TRUE(put) << size << ": " << put.error().message;
    expect_door(put->transfer, size);
    EXPECT_FALSE(put->etag.empty());

    std::vector<std::byte> plain(size + 10);
    auto got = client->get(bucket, key, std::span<std::byte>(plain));
    ASSERT_TRUE(got) << size << ": " << got.error().message;
    expect_door(got->transfer, size);
    ASSERT_EQ(got->bytes, size);
    EXPECT_EQ(got->info.size, size);
    EXPECT_EQ(got->info.etag, put->etag);
    EXPECT_TRUE(same(std::span(plain).first(size), bytes)) << size;
  }
}

TEST_P(EveryDoor, RegisteredBuffersWork) {
  auto buffer = client->allocate(300'000);
  ASSERT_TRUE(buffer) << buffer.error().message;
  const auto bytes = pattern(300'000);
  std::ranges::copy(bytes, buffer->data());
  auto put = client->put(bucket, "k", *buffer);
  ASSERT_TRUE(put) << put.error().message;
  expect_door(put->transfer, bytes.size());
  std::ranges::fill(buffer->bytes(), std::byte{0});
  auto got = client->get(bucket, "k", *buffer);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(same(buffer->bytes(), bytes));

  std::vector<std::byte> own(300'000);
  auto registered = client->register_memory(own.data(), own.size());
  ASSERT_TRUE(registered);
  got = client->get(bucket, "k", *registered);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(same(own, bytes));

  auto half = buffer->slice(100'000, 50'000);
  ASSERT_TRUE(half);
  put = client->put(bucket, "half", half);
  ASSERT_TRUE(put);
  got = client->get(bucket, "half", *registered);
  ASSERT_TRUE(got);
  EXPECT_TRUE(same(std::span(own).first(got->bytes), std::span(bytes).subspan(100'000, 50'000)));
}

TEST_P(EveryDoor, RangesComeBackExactly) {
  const auto bytes = pattern(500'000);
  ASSERT_TRUE(client->put(bucket, "k", std::span<const std::byte>(bytes)));
  std::vector<std::byte> into(500'000);
  GetOptions options;
  options.range = Range{1000, 200'000};
  auto got = client->get(bucket, "k", std::span<std::byte>(into), options);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->bytes, 200'000u);
  EXPECT_EQ(got->info.size, bytes.size());
  EXPECT_TRUE(same(std::span(into).first(200'000), std::span(bytes).subspan(1000, 200'000)));

  options.range = Range{499'990, 0};
  got = client->get(bucket, "k", std::span<std::byte>(into), options);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->bytes, 10u);

  const Range several[] = {{0, 10}, {100'000, 70'000}, {499'999, 1}};
  auto buffer = client->allocate(100'000);
  ASSERT_TRUE(buffer);
  got = client->get_ranges(bucket, "k", several, *buffer);
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->bytes, 70'011u);
  EXPECT_TRUE(same(buffer->bytes().first(10), std::span(bytes).first(10)));
  EXPECT_TRUE(same(buffer->bytes().subspan(10, 70'000), std::span(bytes).subspan(100'000, 70'000)));
  EXPECT_EQ(buffer->bytes()[70'010], bytes[499'999]);
}

TEST_P(EveryDoor, TheSameErrorsComeBack) {
  std::byte memory[100];
  auto got = client->get(bucket, "no such thing", std::span(memory));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::no_such_key) << got.error().message;
  got = client->get("no-such-bucket-here", "k", std::span(memory));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::no_such_bucket) << got.error().message;
  auto head = client->head(bucket, "no such thing");
  ASSERT_FALSE(head);
  EXPECT_EQ(head.error().code, ErrorCode::no_such_key) << head.error().message;

  const auto bytes = pattern(100'000);
  auto put = client->put(bucket, "k", std::span<const std::byte>(bytes));
  ASSERT_TRUE(put);
  got = client->get(bucket, "k", std::span(memory));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::buffer_too_small) << got.error().message;
  GetOptions options;
  options.range = Range{100'000, 5};
  got = client->get(bucket, "k", std::span(memory), options);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::invalid_range) << got.error().message;
  options = {};
  options.if_none_match = put->etag;
  got = client->get(bucket, "k", std::span(memory), options);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::not_modified) << got.error().message;

  PutOptions conditions;
  conditions.if_none_match = "*";
  auto second = client->put(bucket, "k", std::span<const std::byte>(bytes), conditions);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::precondition_failed) << second.error().message;
}

// Tools compare the ETag, whichever door carried the bytes.
TEST_P(EveryDoor, TheEtagIsAnMd5WhereItIsAskedFor) {
  PutOptions options;
  options.md5_etag = true;
  for (const size_t size : {size_t{5}, size_t{300'000}}) {
    const auto bytes = pattern(size);
    Digest digest(Algorithm::md5);
    digest.update(bytes);
    const std::string md5 = digest.finish_hex();
    const auto put = client->put(bucket, "k", std::span<const std::byte>(bytes), options);
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(put->etag, md5);
    EXPECT_EQ(client->head(bucket, "k")->etag, md5);
  }
}

TEST_P(EveryDoor, MetadataHeadAndRemove) {
  const auto bytes = pattern(70'000);
  PutOptions options;
  options.content_type = "text/x-test";
  options.metadata["Colour"] = "blue";
  ASSERT_TRUE(client->put(bucket, "k", std::span<const std::byte>(bytes), options));
  auto info = client->head(bucket, "k");
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->size, bytes.size());
  EXPECT_EQ(info->content_type, "text/x-test");
  EXPECT_EQ(info->metadata["colour"], "blue");
  EXPECT_GT(info->last_modified.time_since_epoch().count(), 0);
  ASSERT_TRUE(client->remove(bucket, "k"));
  EXPECT_FALSE(client->head(bucket, "k"));
  EXPECT_TRUE(client->remove(bucket, "k")) << "removing what is not there succeeds";
}

TEST_P(EveryDoor, ATtlBecomesAnEnd) {
  const auto bytes = pattern(1000);
  auto buffer = client->allocate(bytes.size());
  ASSERT_TRUE(buffer) << buffer.error().message;
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  PutOptions options;
  options.ttl = std::chrono::seconds(3600);
  ASSERT_TRUE(client->put(bucket, "ends", std::span<const std::byte>(bytes), options));
  const BatchItem item{.bucket = bucket, .key = "ends too", .size = bytes.size(), .ttl = options.ttl};
  BatchResult result;
  ASSERT_TRUE(client->put_many(std::span(&item, 1), std::span(&*buffer, 1), std::span(&result, 1)));
  EXPECT_FALSE(result.error);
  for (const char* key : {"ends", "ends too"}) {
    auto info = client->head(bucket, key);
    ASSERT_TRUE(info) << info.error().message;
    EXPECT_EQ(info->headers["x-verbena-ttl"], "3600") << key;
    const auto end = std::chrono::seconds(std::stoll(info->headers["x-verbena-expires"]));
    EXPECT_GE(end, info->last_modified.time_since_epoch() + options.ttl);
  }
  options.ttl = std::chrono::hours(24 * 365 * 11);
  EXPECT_FALSE(client->put(bucket, "ends", std::span<const std::byte>(bytes), options));
}

TEST_P(EveryDoor, ListingsPageAndGroup) {
  const auto bytes = pattern(10);
  std::vector<std::string> keys;
  for (int i = 0; i < 25; ++i) keys.push_back("p/" + std::string(1, static_cast<char>('a' + i)) + " ö");
  for (const auto& key : keys) ASSERT_TRUE(client->put(bucket, key, std::span<const std::byte>(bytes)));
  ASSERT_TRUE(client->put(bucket, "q", std::span<const std::byte>(bytes)));

  std::vector<std::string> seen;
  ListOptions options;
  options.prefix = "p/";
  options.max_keys = 10;
  for (int pages = 0; pages < 10; ++pages) {
    auto page = client->list(bucket, options);
    ASSERT_TRUE(page) << page.error().message;
    EXPECT_LE(page->objects.size(), 10u);
    for (const auto& object : page->objects) {
      seen.push_back(object.key);
      EXPECT_EQ(object.size, 10u);
    }
    if (!page->truncated) break;
    options.continuation = page->continuation;
  }
  EXPECT_EQ(seen, keys);

  options = {};
  options.delimiter = "/";
  auto page = client->list(bucket, options);
  ASSERT_TRUE(page);
  EXPECT_EQ(page->common_prefixes, std::vector<std::string>{"p/"});
  ASSERT_EQ(page->objects.size(), 1u);

  size_t visited = 0;
  ASSERT_TRUE(client->for_each(bucket, "", [&](const ObjectInfo&) { return ++visited < 7; }));
  EXPECT_EQ(visited, 7u);
}

// By HTTP it once was copied for each page.
TEST_P(EveryDoor, AVisitorKeepsItsStateFromPageToPage) {
  constexpr size_t objects = 1100, wanted = 1050;  // a page has 1000
  const auto bytes = pattern(1);
  for (size_t i = 0; i < objects; ++i) {
    ASSERT_TRUE(client->put(bucket, "k" + std::to_string(i), std::span<const std::byte>(bytes)));
  }
  size_t visited = 0;
  ASSERT_TRUE(client->for_each(bucket, "", [&visited, seen = size_t{0}](const ObjectInfo&) mutable {
    ++visited;
    return ++seen < wanted;
  }));
  EXPECT_EQ(visited, wanted);
}

TEST_P(EveryDoor, ManyOperationsInFlight) {
  constexpr int operations = 40;
  std::vector<Buffer> buffers;
  std::vector<std::future<Outcome<PutReply>>> puts;
  for (int i = 0; i < operations; ++i) {
    auto buffer = client->allocate(20'000);
    ASSERT_TRUE(buffer);
    std::ranges::copy(pattern(20'000, static_cast<unsigned>(i)), buffer->data());
    puts.push_back(client->put_async(bucket, "k" + std::to_string(i), *buffer));
    buffers.push_back(*buffer);
  }
  for (auto& put : puts) {
    auto done = put.get();
    ASSERT_TRUE(done) << done.error().message;
  }
  std::atomic<int> landed{0}, good{0};
  std::promise<void> all;
  for (int i = 0; i < operations; ++i) {
    std::ranges::fill(buffers[static_cast<size_t>(i)].bytes(), std::byte{0});
    client->get_async(
        bucket, "k" + std::to_string(i), buffers[static_cast<size_t>(i)], {}, [&, i](Outcome<GetReply> got) {
          if (got && same(buffers[static_cast<size_t>(i)].bytes(), pattern(20'000, static_cast<unsigned>(i)))) ++good;
          if (++landed == operations) all.set_value();
        });
  }
  all.get_future().wait();
  EXPECT_EQ(good, operations);
}

TEST_P(EveryDoor, EightThreadsShareAClient) {
  std::atomic<int> failures{0};
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte> back(70'000);
      for (unsigned i = 0; i < 10; ++i) {
        const auto bytes = pattern(i % 2 == 0 ? 500 : 70'000, t * 100 + i);
        const std::string key = std::to_string(t) + "/" + std::to_string(i % 3);
        auto put = client->put(bucket, key, std::span<const std::byte>(bytes));
        auto got = client->get(bucket, key, std::span<std::byte>(back));
        if (!put || !got || !same(std::span(back).first(got->bytes), bytes)) ++failures;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(failures, 0);
}

INSTANTIATE_TEST_SUITE_P(Doors, EveryDoor,
                         testing::Values(DoorCase{Via::http, "auto"}, DoorCase{Via::token, "tcp"},
                                         DoorCase{Via::native, "local"}, DoorCase{Via::native, "tcp"}),
                         [](const auto& door) {
                           return std::string(to_string(door.param.via)) + "_" + door.param.provider;
                         });

TEST(Client, AnObjectIsTheSameThroughEveryDoor) {
  const auto bytes = pattern(200'000);
  auto http = Client::connect(options_for(shared_server(), Via::http));
  ASSERT_TRUE(http) << http.error().message;
  ASSERT_TRUE(http->make_bucket("same-everywhere"));
  for (DoorCase from :
       {DoorCase{Via::http, "auto"}, {Via::token, "tcp"}, {Via::native, "local"}, {Via::native, "tcp"}}) {
    auto writer = Client::connect(options_for(shared_server(), from.via, from.provider));
    ASSERT_TRUE(writer);
    PutOptions options;
    options.metadata["via"] = std::string(to_string(from.via));
    auto put = writer->put("same-everywhere", "k", std::span<const std::byte>(bytes), options);
    ASSERT_TRUE(put) << put.error().message;
    for (DoorCase to :
         {DoorCase{Via::http, "auto"}, {Via::token, "tcp"}, {Via::native, "local"}, {Via::native, "tcp"}}) {
      auto reader = Client::connect(options_for(shared_server(), to.via, to.provider));
      ASSERT_TRUE(reader);
      std::vector<std::byte> into(bytes.size());
      GetOptions get;
      get.metadata = true;
      auto got = reader->get("same-everywhere", "k", std::span<std::byte>(into), get);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_TRUE(same(into, bytes));
      EXPECT_EQ(got->info.etag, put->etag);
      EXPECT_EQ(got->info.metadata["via"], to_string(from.via));
    }
  }
}

TEST(Client, LargePutsGoInPartsAndComeBackWhole) {
  for (Via via : {Via::http, Via::token}) {
    auto options = options_for(shared_server(), via);
    options.multipart_threshold = 8 * MiB;
    options.part_size = 5 * MiB;
    auto client = Client::connect(options);
    ASSERT_TRUE(client) << client.error().message;
    auto ignored = client->make_bucket("large-puts");
    static_cast<void>(ignored);
    const auto bytes = pattern(17 * MiB + 3);
    auto put = client->put("large-puts", "parts", std::span<const std::byte>(bytes));
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(put->transfer.door, via) << put->transfer.fell_back_reason;
    EXPECT_EQ(put->transfer.bytes, bytes.size());
    std::vector<std::byte> into(bytes.size());
    auto got = client->get("large-puts", "parts", std::span<std::byte>(into));
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_TRUE(same(into, bytes));

    size_t at = 0;
    auto streamed = client->put_stream("large-puts", "stream", [&](std::span<std::byte> wanted) -> Outcome<size_t> {
      const size_t n = std::min(wanted.size(), bytes.size() - at);
      std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), n, wanted.begin());
      at += n;
      return n;
    });
    ASSERT_TRUE(streamed) << streamed.error().message;
    std::ranges::fill(into, std::byte{0});
    got = client->get("large-puts", "stream", std::span<std::byte>(into));
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_TRUE(same(into, bytes));
  }
}

TEST(Client, AFailingReaderLeavesNoObject) {
  auto options = options_for(shared_server(), Via::http);
  options.multipart_threshold = 1 * MiB;
  options.part_size = 5 * MiB;
  auto client = Client::connect(options);
  ASSERT_TRUE(client);
  ASSERT_TRUE(client->make_bucket("failing-reader"));
  int calls = 0;
  auto put = client->put_stream("failing-reader", "k", [&](std::span<std::byte> wanted) -> Outcome<size_t> {
    if (++calls > 3) return std::unexpected(ClientError{ErrorCode::local_error, "disk gone", {}, 0, {}});
    return wanted.size();
  });
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().message, "disk gone");
  EXPECT_FALSE(client->head("failing-reader", "k"));
  EXPECT_TRUE(client->remove_bucket("failing-reader")) << "no upload is left behind";
}

TEST(Client, PrefersNativeAndSaysSo) {
  auto client = Client::connect(options_for(shared_server(), Via::automatic));
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_EQ(client->preferred(), Via::native);
  ASSERT_TRUE(client->make_bucket("prefers-native"));
  const auto bytes = pattern(1000);
  auto put = client->put("prefers-native", "k", std::span<const std::byte>(bytes));
  ASSERT_TRUE(put);
  EXPECT_EQ(put->transfer.door, Via::native);
  EXPECT_EQ(put->transfer.provider, "local");
}

TEST(Client, FallsBackFromNativeToTokenToHttp) {
  auto options = options_for(shared_server(), Via::automatic);
  options.native_endpoint = "127.0.0.1:1";  // no listener there
  options.provider = "tcp";
  options.token_size_min = 1000;
  auto client = Client::connect(options);
  ASSERT_TRUE(client) << client.error().message;
  auto ignored = client->make_bucket("falls-back");
  static_cast<void>(ignored);
  const auto bytes = pattern(100'000);
  auto put = client->put("falls-back", "k", std::span<const std::byte>(bytes));
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->transfer.door, Via::token);
  EXPECT_NE(put->transfer.fell_back_reason.find("native"), std::string::npos);
  std::vector<std::byte> into(bytes.size());
  auto got = client->get("falls-back", "k", std::span<std::byte>(into));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.door, Via::token);
  EXPECT_TRUE(same(into, bytes));
  put = client->put("falls-back", "small", std::span<const std::byte>(bytes).first(10));
  ASSERT_TRUE(put);
  EXPECT_EQ(put->transfer.door, Via::http) << "too small to be worth a token";
}

// Its endpoint listens, and any peer can crash the process through it where libfabric trusts its input.
TEST(Client, OpensNoTcpOfLibfabricsUnasked) {
  auto options = options_for(shared_server(), Via::automatic);
  options.native_endpoint = "127.0.0.1:1";
  options.token_size_min = 1000;
  auto client = Client::connect(options);
  ASSERT_TRUE(client) << client.error().message;
  static_cast<void>(client->make_bucket("unasked"));
  const auto bytes = pattern(100'000);
  const auto put = client->put("unasked", "k", std::span<const std::byte>(bytes));
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_NE(put->transfer.provider, "tcp") << "by " << to_string(put->transfer.door);
}

TEST(Client, WrongKeysAreAccessDenied) {
  for (Via via : {Via::http, Via::native, Via::automatic}) {
    auto options = options_for(shared_server(), via);
    options.secret_key = "wrong";
    auto client = Client::connect(options);
    if (client) {
      auto listed = client->buckets();
      ASSERT_FALSE(listed);
      EXPECT_EQ(listed.error().code, ErrorCode::access_denied) << listed.error().message;
    } else {
      EXPECT_EQ(client.error().code, ErrorCode::access_denied) << client.error().message;
    }
  }
}

TEST(Client, NoticesThatTheServerIsGone) {
  TestServer server;
  ASSERT_TRUE(server.running());
  for (Via via : {Via::automatic, Via::http}) {
    if (!server.running()) server.start();
    auto options = options_for(server, via);
    options.attempts_max = 1;
    options.connect_timeout = std::chrono::milliseconds(500);
    options.operation_timeout = std::chrono::milliseconds(2000);
    auto client = Client::connect(options);
    ASSERT_TRUE(client) << client.error().message;
    ASSERT_TRUE(client->buckets());
    server.stop();
    std::byte memory[10];
    auto got = client->get("b", "k", std::span(memory));
    ASSERT_FALSE(got);
    EXPECT_TRUE(got.error().code == ErrorCode::connection_failed || got.error().code == ErrorCode::outcome_unknown)
        << got.error().message;
  }
}

}  // namespace
}  // namespace verbena
