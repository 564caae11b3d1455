// Targets, and deliveries to them.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>

#include "events/delivery.h"
#include "events/gone_targets.h"
#include "events/make_target.h"
#include "events/network_guard.h"
#include "events/target_settings.h"
#include "store/memory/test_store.h"

namespace verbena::events {
namespace {

namespace fs = std::filesystem;
namespace asio = boost::asio;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "verbena-events-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
}
std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::expected<std::vector<TargetSettings>, std::string> read(std::vector<std::string> targets, std::string secrets = "",
                                                             std::vector<std::string> allow = {}) {
  Config::Events config;
  config.targets = std::move(targets);
  config.secrets = std::move(secrets);
  config.allow_private = std::move(allow);
  return read_targets(config);
}

TEST(TargetSettings, AreReadFromUrls) {
  const auto targets = read({"a=https://example.com:8443/hook?x=1", "b=http://example.com",
                             "c=redis://[::1]:7000/3/list", "d=file:///var/log/events", "e=redis://cache/0/a/b",
                             "f=nats+tls://bus.example.com/objects.eu", "g=nats://bus:4333/o", "h=mqtts://m/a/b",
                             "i=amqp://r/%2F/ex/k.%2a", "j=amqps://r:1/v//queue", "k=kafka+tls://k/a.B_-"},
                            "", {"c"});
  ASSERT_TRUE(targets) << targets.error();
  const auto& t = *targets;
  EXPECT_TRUE(t[0].tls && t[0].type == TargetType::webhook);
  EXPECT_EQ(t[0].host, "example.com");
  EXPECT_EQ(t[0].port, 8443);
  EXPECT_EQ(t[0].path, "/hook?x=1");
  EXPECT_EQ(t[1].port, 80);
  EXPECT_EQ(t[1].path, "/");
  EXPECT_EQ(t[2].host, "::1");
  EXPECT_EQ(t[2].database, 3u);
  EXPECT_EQ(t[2].path, "list");
  EXPECT_TRUE(t[2].allow_private && !t[0].allow_private);
  EXPECT_EQ(t[3].path, "/var/log/events");
  EXPECT_EQ(t[4].port, 6379);
  EXPECT_EQ(t[4].path, "a/b");
  EXPECT_TRUE(t[5].tls && t[5].type == TargetType::nats && !t[6].tls);
  EXPECT_EQ(t[5].path, "objects.eu");
  EXPECT_EQ(t[5].port, 4222);
  EXPECT_EQ(t[6].port, 4333);
  EXPECT_TRUE(t[7].tls && t[7].type == TargetType::mqtt && t[7].port == 8883);
  EXPECT_EQ(t[7].path, "a/b");
  EXPECT_EQ(t[8].vhost, "/");
  EXPECT_EQ(t[8].exchange, "ex");
  EXPECT_EQ(t[8].path, "k.*");
  EXPECT_TRUE(t[9].tls && t[9].exchange.empty() && t[9].port == 1);
  EXPECT_EQ(t[9].path, "queue");
  EXPECT_TRUE(t[10].tls && t[10].type == TargetType::kafka && t[10].path == "a.B_-");
}

TEST(TargetSettings, WhatIsWrongIsSaidWithoutThePassword) {
  for (const char* bad : {"",
                          "a",
                          "=http://x/",
                          "A=http://x/",
                          "a b=http://x/",
                          "a=ftp://x/",
                          "a=http://",
                          "a=http:///p",
                          "a=http://x:0/",
                          "a=http://x:99999/",
                          "a=http://user:hunter2@x/",
                          "a=http://x/ y",
                          "a=redis://x",
                          "a=redis://x/list",
                          "a=redis://x/0/",
                          "a=redis://x/-1/l",
                          "a=file://relative",
                          "a=file:///",
                          "a=file:///dir/",
                          "a=http://[::1/",
                          "a=http://x/#f",
                          "a=nats://x",
                          "a=nats://x/",
                          "a=nats://x/a.*",
                          "a=nats://x/a..b",
                          "a=nats://x/>",
                          "a=nats://user:hunter2@x/a",
                          "a=mqtt://x/",
                          "a=mqtt://x/a/#",
                          "a=mqtt://x/$SYS/a",
                          "a=amqp://x/%2F",
                          "a=amqp://x/%2F/e",
                          "a=amqp://x//e/k",
                          "a=amqp://x/v//",
                          "a=amqp://x/%2/e/k",
                          "a=amqp://x/%00/e/k",
                          "a=amqp://x/v/e/k/l",
                          "a=kafka://x/",
                          "a=kafka://x/..",
                          "a=kafka://x/a/b"}) {
    const auto targets = read({bad});
    ASSERT_FALSE(targets) << bad;
    EXPECT_EQ(targets.error().find("hunter2"), std::string::npos);
  }
  EXPECT_FALSE(read({"a=http://x/", "a=http://y/"})) << "twice";
  EXPECT_FALSE(read({"a=http://x/"}, "", {"b"})) << "no target of that name";
}

TEST(TargetSettings, SecretsComeFromAFileThatIsNotForEverybody) {
  const TemporaryFolder folder;
  const auto file = folder / "secrets";
  write_file(file, "# tokens\na s3cr3t\n\nb user:pass\n");
  const auto targets = read({"a=http://x/", "b=redis://x/0/l"}, file.string());
  ASSERT_TRUE(targets) << targets.error();
  EXPECT_EQ((*targets)[0].secret, "s3cr3t");
  EXPECT_EQ((*targets)[1].secret, "user:pass");
  EXPECT_FALSE(read({"a=http://x/"}, file.string())) << "b is no target";
  ::chmod(file.c_str(), 0644);
  const auto open = read({"a=http://x/", "b=redis://x/0/l"}, file.string());
  ASSERT_FALSE(open);
  EXPECT_NE(open.error().find("chmod"), std::string::npos);
  for (const char* other : {"a=mqtt://x/t", "a=amqp://x/v/e/k", "a=kafka://x/t", "a=file:///x"}) {
    write_file(file, "a hunter2\n");
    const auto refused = read({other}, file.string());
    ASSERT_FALSE(refused) << other;
    EXPECT_EQ(refused.error().find("hunter2"), std::string::npos);
  }
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  const auto pipe = read({"a=http://x/"}, file.string());
  ASSERT_FALSE(pipe) << "and opening it does not wait for a writer";
  EXPECT_NE(pipe.error().find("regular file"), std::string::npos);
  fs::remove(file);
  write_file(file, "a\n");
  const auto torn = read({"a=http://x/"}, file.string());
  ASSERT_FALSE(torn);
  EXPECT_NE(torn.error().find("line 1"), std::string::npos);
  EXPECT_FALSE(read({"a=http://x/"}, (folder / "none").string()));
}

TEST(TargetSettings, KafkasPasswordAndHowItIsShown) {
  const TemporaryFolder folder;
  const auto file = folder / "secrets";
  write_file(file, "a user:hunter2\n");
  const auto with = [&](const char* target) { return read({target}, file.string()); };
  const std::pair<const char*, const char*> mechanisms[] = {{"a=kafka+tls://x/t?sasl=plain", "PLAIN"},
                                                            {"a=kafka+tls://x/t?sasl=scram-sha-256", "SCRAM-SHA-256"},
                                                            {"a=kafka://x/t?sasl=scram-sha-512", "SCRAM-SHA-512"}};
  for (const auto& [target, mechanism] : mechanisms) {
    const auto targets = with(target);
    ASSERT_TRUE(targets) << targets.error();
    EXPECT_EQ(targets->front().sasl, mechanism);
    EXPECT_EQ(targets->front().path, "t");
    EXPECT_FALSE(read({target})) << "without a password";
  }
  for (const char* bad : {"a=kafka+tls://x/t", "a=kafka://x/t?sasl=plain", "a=kafka+tls://x/t?sasl=gssapi",
                          "a=kafka+tls://x/t?sasl=", "a=kafka+tls://x/t?", "a=kafka+tls://x/t?other=1"}) {
    const auto refused = with(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().find("hunter2"), std::string::npos);
  }
  write_file(file, "a :hunter2\n");
  EXPECT_FALSE(with("a=kafka+tls://x/t?sasl=plain")) << "no secret";
}

TEST(NetworkGuard, PrivateAddressesInEveryDress) {
  for (const char* hidden : {"127.0.0.1",
                             "127.9.9.9",
                             "0.0.0.0",
                             "10.1.2.3",
                             "172.16.0.1",
                             "172.31.255.255",
                             "192.168.1.1",
                             "169.254.169.254",
                             "100.64.0.1",
                             "100.127.255.255",
                             "198.18.0.1",
                             "192.0.0.8",
                             "224.0.0.1",
                             "255.255.255.255",
                             "::",
                             "::1",
                             "fe80::1",
                             "fc00::1",
                             "fd12::1",
                             "ff02::1",
                             "::ffff:127.0.0.1",
                             "::ffff:10.0.0.1",
                             "64:ff9b::7f00:1",
                             "64:ff9b::a9fe:a9fe",
                             "2002:7f00:1::",
                             "2002:a00:1::1",
                             "2001::1",
                             "2001:db8::1",
                             "fec0::1",
                             "3fff::1"}) {
    EXPECT_FALSE(is_public(asio::ip::make_address(hidden))) << hidden;
  }
  for (const char* open :
       {"8.8.8.8", "1.1.1.1", "172.15.0.1", "172.32.0.1", "192.169.0.1", "100.63.0.1", "100.128.0.1", "2606:4700::1111",
        "2a00:1450::1", "64:ff9b::808:808", "::ffff:8.8.8.8", "2002:808:808::1"}) {
    EXPECT_TRUE(is_public(asio::ip::make_address(open))) << open;
  }
  TargetSettings settings{.host = "10.0.0.1", .port = 80};
  EXPECT_EQ(target_addresses(settings, net::Stop()).error(), Errc::access_denied);
  settings.allow_private = true;
  EXPECT_TRUE(target_addresses(settings, net::Stop()));
  EXPECT_TRUE(target_addresses({}, "8.8.8.8", 80, net::Stop()));
}

template <class T>
T run(asio::io_context& io, Task<T> task) {
  std::optional<T> result;
  auto done = [&](std::exception_ptr, T value) { result.emplace(std::move(value)); };
  asio::co_spawn(io, std::move(task), done);
  io.restart();
  io.run();
  return std::move(*result);
}

TEST(EventFile, LinesAndWhatACrashLeftOfOne) {
  const TemporaryFolder folder;
  const auto path = folder / "events";
  asio::io_context io;
  const auto file = make_event_file({.name = "f", .path = path.string()});
  size_t delivered = 0;
  const std::vector<std::string> two{"{\"a\":1}", "{\"b\":2}"};
  ASSERT_TRUE(run(io, file->deliver(two, delivered)));
  EXPECT_EQ(delivered, 2u);
  EXPECT_EQ(read_file(path), "{\"a\":1}\n{\"b\":2}\n");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  write_file(path, "{\"a\":1}\n" + std::string(10'000, 'x'));
  ASSERT_TRUE(run(io, file->deliver(two, delivered)));
  EXPECT_EQ(read_file(path), "{\"a\":1}\n{\"a\":1}\n{\"b\":2}\n");
  write_file(path, std::string(10'000, 'x'));
  ASSERT_TRUE(run(io, file->deliver(two, delivered)));
  EXPECT_EQ(read_file(path), "{\"a\":1}\n{\"b\":2}\n");
}

TEST(EventFile, WhatIsNoPlainFileIsRefused) {
  const TemporaryFolder folder;
  asio::io_context io;
  size_t delivered = 0;
  const std::vector<std::string> one{"x"};
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(run(io, make_event_file({.name = "f", .path = (folder / "pipe").string()})->deliver(one, delivered)));
  EXPECT_FALSE(
      run(io, make_event_file({.name = "f", .path = (folder / "no/where").string()})->deliver(one, delivered)));
  EXPECT_FALSE(run(io, make_event_file({.name = "f", .path = "/dev/null"})->deliver(one, delivered)));
  EXPECT_EQ(delivered, 0u);
}

TEST(Webhook, AnAddressOfThisHostIsNotCalled) {
  asio::io_context io;
  asio::ip::tcp::acceptor listener(io, {asio::ip::address_v4::loopback(), 0});
  listener.non_blocking(true);
  TargetSettings settings{.name = "w", .host = "localhost", .port = listener.local_endpoint().port(), .path = "/"};
  const auto hook = make_target(settings);
  ASSERT_TRUE(hook);
  size_t delivered = 0;
  const std::vector<std::string> one{"{}"};
  const auto refused = run(io, (*hook)->deliver(one, delivered));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::access_denied);
  boost::system::error_code ec;
  asio::ip::tcp::socket nobody(io);
  listener.accept(nobody, ec);
  EXPECT_EQ(ec, asio::error::would_block) << "not even a connection";
  settings.type = TargetType::redis;
  const auto redis = make_target(settings);
  EXPECT_EQ(run(io, (*redis)->deliver(one, delivered)).error().code, Errc::access_denied);
}

// A target whose confirmations are scripted.
class ScriptedTarget final : public Target {
 public:
  struct Script {
    std::mutex mutex;
    std::vector<std::string> got;
    std::function<size_t(size_t)> take = [](size_t n) { return n; };  // how many of n it accepts
    std::string refuses{};                                            // a message that it never accepts
    bool refuses_all_beside = false;                                  // nor any in the same batch
    std::string breaks{};                                             // one at which the connection breaks
    std::promise<void> enough;
    size_t wanted = 0;
  };
  explicit ScriptedTarget(Script& script) : script_(script) {}
  std::string said() const override { return "too long"; }
  Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) override {
    const std::lock_guard lock(script_.mutex);
    const bool beside = std::ranges::find(messages, script_.refuses) != messages.end() && script_.refuses_all_beside;
    if (messages.front() == script_.refuses || beside) co_return fail(Errc::invalid_request, "test");
    if (messages.front() == script_.breaks) co_return fail(Errc::connection_failed, "test");
    delivered = std::min(script_.take(messages.size()), messages.size());
    script_.got.insert(script_.got.end(), messages.begin(), messages.begin() + static_cast<ptrdiff_t>(delivered));
    if (script_.got.size() >= script_.wanted && script_.wanted != 0) {
      script_.wanted = 0;
      script_.enough.set_value();
    }
    if (delivered < messages.size()) co_return fail(Errc::connection_failed, "test");
    co_return Result<void>();
  }

 private:
  Script& script_;
};

class Said final : public store::Announcement {
 public:
  Said(s3::EventQueues& queues, std::string text) : queues_(queues), text_(std::move(text)) {}
  Result<std::vector<store::EventRow>> events(const store::Happened&) const override {
    return std::vector<store::EventRow>{{"t", text_}};
  }
  void committed(uint64_t bucket, const std::vector<store::EventRow>& events) const override {
    queues_.added(bucket, "owner", events);
  }

 private:
  s3::EventQueues& queues_;
  const std::string text_;
};

// Records the positions that were read from, and does not read the events of one bucket.
class ReadStore final : public store::in_memory::TestStore {
 public:
  using TestStore::TestStore;
  Task<Result<std::vector<store::QueuedEvent>>> events(std::string_view queue, uint64_t bucket, uint64_t after,
                                                       size_t events_max, size_t bytes_max) override {
    {
      const std::lock_guard lock(mutex);
      read_behind.push_back(after);
    }
    if (bucket == unreadable) return refuse();
    return TestStore::events(queue, bucket, after, events_max, bytes_max);
  }
  std::mutex mutex;
  std::vector<uint64_t> read_behind;
  std::atomic<uint64_t> unreadable{0};

 private:
  static Task<Result<std::vector<store::QueuedEvent>>> refuse() { co_return fail(Errc::io_error, "test"); }
};

class DeliveryTest : public ::testing::Test {
 protected:
  DeliveryTest() : arena_(memory::Arena::create(16 * MiB).value()), store_(*arena_), queues_({{"t", "file"}}, {}) {
    store_.make_bucket("a");
    store_.make_bucket("b");
  }
  void say(const std::string& bucket, const std::string& text) {
    asio::io_context io;
    ASSERT_TRUE(run(io, store_.announce(bucket, std::make_shared<const Said>(queues_, text))));
  }
  std::unique_ptr<Delivery> make(const Delivery::Options& options = {.retry_first = std::chrono::milliseconds(1),
                                                                     .retry_most = std::chrono::milliseconds(4)}) {
    const auto target = [this] { return std::make_unique<ScriptedTarget>(script_); };
    return std::move(*Delivery::make(store_, queues_, "t", target, options));
  }
  static Result<std::string> skip(Delivery& delivery, uint64_t bucket, uint64_t event) {
    const auto asked = std::make_shared<Delivery::Skip>();
    asked->bucket = bucket;
    asked->event = event;
    EXPECT_TRUE(delivery.ask(asked));
    while (asked->state != Delivery::Skip::State::done) std::this_thread::yield();
    return asked->record;
  }
  void wait_for(size_t events, const std::function<void()>& meanwhile) {
    {
      const std::lock_guard lock(script_.mutex);
      script_.enough = {};
      script_.wanted = events;
    }
    auto enough = script_.enough.get_future();
    meanwhile();
    ASSERT_EQ(enough.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  }

  std::unique_ptr<memory::Arena> arena_;
  ReadStore store_;
  s3::EventQueues queues_;
  ScriptedTarget::Script script_;
};

TEST_F(DeliveryTest, WhatWaitedAndWhatComesInOrder) {
  say("a", "1");
  s3::EventQueues fresh({{"t", "file"}}, {});
  auto delivery = make();
  wait_for(3, [&] {
    delivery->start();
    say("a", "2");
    say("a", "3");
  });
  delivery->stop();
  EXPECT_EQ(script_.got, (std::vector<std::string>{"1", "2", "3"}));
  asio::io_context io;
  EXPECT_TRUE(run(io, store_.event_backlog("t"))->empty());
  EXPECT_TRUE(queues_.waiting("t").empty());
}

TEST_F(DeliveryTest, ATargetThatTakesSomeAndFailsGetsTheRestInOrder) {
  size_t calls = 0;
  script_.take = [&](size_t) { return ++calls % 3 == 0 ? 2 : 0; };
  std::vector<std::string> all;
  for (int i = 0; i < 20; ++i) {
    all.push_back(std::to_string(i));
    say("a", all.back());
  }
  auto delivery = make();
  wait_for(20, [&] { delivery->start(); });
  delivery->stop();
  EXPECT_EQ(script_.got, all);
}

TEST_F(DeliveryTest, WhatWasDeliveredIsNotWalkedOverAgain) {
  auto delivery = make();
  delivery->start();
  for (size_t i = 1; i <= 20; ++i) wait_for(i, [&] { say("a", "one at a time"); });
  delivery->stop();
  const std::lock_guard lock(store_.mutex);
  EXPECT_LE(std::ranges::count(store_.read_behind, 0u), 1);
}

TEST_F(DeliveryTest, WhatAnEarlierStartLeftIsCountedAndDelivered) {
  say("a", "1");
  say("b", "2");
  s3::EventQueues next({{"t", "file"}}, {});
  const auto target = [this] { return std::make_unique<ScriptedTarget>(script_); };
  auto delivery = std::move(*Delivery::make(store_, next, "t", target, {}));
  ASSERT_TRUE(delivery->load());
  ASSERT_EQ(next.waiting("t").size(), 2u);
  wait_for(2, [&] { delivery->start(); });
  delivery->stop();
  EXPECT_TRUE(next.waiting("t").empty());
}

TEST_F(DeliveryTest, ADeadTargetHoldsNobodyUp) {
  script_.take = [](size_t) { return size_t{0}; };
  auto delivery = make();
  delivery->start();
  for (int i = 0; i < 200; ++i) say("a", "x");
  EXPECT_EQ(queues_.waiting("t").at(0).events, 200u);
  delivery->stop();
}

TEST_F(DeliveryTest, WhatATargetRefusesHoldsUpItsOwnBucketAlone) {
  script_.refuses = "poison";
  say("a", "poison");
  say("a", "behind it");
  auto delivery = make();
  wait_for(20, [&] {
    delivery->start();
    for (int i = 0; i < 20; ++i) say("b", "b");
  });
  EXPECT_EQ(std::ranges::count(script_.got, "behind it"), 0) << "the order is kept";
  wait_for(22, [&] {
    const std::lock_guard lock(script_.mutex);
    script_.refuses.clear();
  });
  delivery->stop();
  EXPECT_EQ(script_.got.back(), "behind it");
}

TEST_F(DeliveryTest, WhatIsRefusedIsShownAndAnOperatorMayLetGoOfIt) {
  script_.refuses =
      R"({"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"a"},"object":{"key":"k"}}}]})";
  script_.take = [](size_t) { return size_t{1}; };
  say("a", "before");
  say("a", script_.refuses);
  say("a", "behind it");
  auto delivery = make();
  delivery->start();
  while (delivery->stuck().empty() || delivery->stuck().front().tries < 3) std::this_thread::yield();
  const StuckEvent stuck = delivery->stuck().front();
  EXPECT_EQ(stuck.bucket_name + "/" + stuck.key + " " + stuck.happened, "a/k ObjectCreated:Put");
  EXPECT_EQ(stuck.why, "invalid_request: test: too long");
  EXPECT_TRUE(stuck.refused);
  EXPECT_GT(stuck.since_us, 0);
  EXPECT_EQ(parse_stuck_name(name_of_stuck(stuck)), std::pair(stuck.bucket, stuck.event));
  const auto other = skip(*delivery, stuck.bucket, stuck.event + 1);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::not_found) << "only what is stuck";
  wait_for(2, [&] { EXPECT_EQ(skip(*delivery, stuck.bucket, stuck.event).value_or("failed"), script_.refuses); });
  delivery->stop();
  EXPECT_EQ(script_.got, (std::vector<std::string>{"before", "behind it"}));
  EXPECT_TRUE(delivery->stuck().empty());
  EXPECT_TRUE(queues_.waiting("t").empty());
  EXPECT_EQ(queues_.states().front().let_go, 1u);
  asio::io_context io;
  EXPECT_TRUE(run(io, store_.event_backlog("t"))->empty());
}

// It waited for the end of a round, which a slow target prolonged.
TEST_F(DeliveryTest, AnOperatorIsHeardInTheMiddleOfARound) {
  script_.refuses = "poison";
  say("a", "poison");
  for (const char* bucket : {"b", "c"}) {
    if (std::string_view(bucket) != "b") store_.make_bucket(bucket);
    say(bucket, bucket);
  }
  std::promise<void> entered, go;
  const auto asked = std::make_shared<Delivery::Skip>();
  size_t calls = 0;
  bool heard = false;
  script_.take = [&, released = go.get_future().share()](size_t n) {
    if (++calls == 1) {
      entered.set_value();
      released.wait();
    } else if (calls == 2) {
      heard = asked->state == Delivery::Skip::State::done;
    }
    return n;
  };
  auto delivery = make();
  wait_for(2, [&] {
    delivery->start();
    entered.get_future().wait();
    const StuckEvent stuck = delivery->stuck().at(0);
    asked->bucket = stuck.bucket;
    asked->event = stuck.event;
    EXPECT_TRUE(delivery->ask(asked));
    go.set_value();
  });
  delivery->stop();
  EXPECT_TRUE(heard) << "before the next bucket's turn";
  EXPECT_EQ(asked->record.value_or("failed"), "poison");
}

TEST_F(DeliveryTest, WhichOfABatchIsRefusedIsFoundOut) {
  script_.refuses = "poison";
  script_.refuses_all_beside = true;
  for (const char* text : {"1", "2", "3", "poison", "5"}) say("a", text);
  auto delivery = make();
  wait_for(3, [&] { delivery->start(); });
  while (delivery->stuck().empty() || delivery->stuck().front().tries < 3) std::this_thread::yield();
  const StuckEvent stuck = delivery->stuck().front();
  wait_for(4, [&] { EXPECT_EQ(skip(*delivery, stuck.bucket, stuck.event).value_or("failed"), "poison"); });
  delivery->stop();
  EXPECT_EQ(script_.got, (std::vector<std::string>{"1", "2", "3", "5"}));
}

TEST_F(DeliveryTest, ATargetThatIsGoneIsCountedBoundedAndLetGoOf) {
  for (int i = 0; i < 5; ++i) say("a", "12345");
  say("b", "1");
  asio::io_context io;
  // The state after a start without the target.
  s3::EventQueues queues({{"other", "file"}}, {.events_max = 12, .bytes_max = 1 * MiB});
  GoneTargets gone(store_, queues, {});
  ASSERT_TRUE(gone.load());
  ASSERT_EQ(queues.states().size(), 2u);
  const auto state = queues.states().back();
  EXPECT_EQ(state.target.name + state.target.type, "t");
  EXPECT_EQ(state.events, 6u);
  EXPECT_EQ(state.bytes, 26u);
  EXPECT_EQ(state.buckets, 2u);
  for (uint64_t id = 100; queues.admit("t", "owner", 1).has_value(); ++id) queues.added(id, "owner", {{"t", "x"}});
  EXPECT_EQ(queues.states().back().events, 9u) << "a newcomer has half of the free room";
  EXPECT_FALSE(run(io, gone.drop("other", "me", deadline_in(std::chrono::minutes(1))))) << "it is configured";
  EXPECT_EQ(run(io, gone.drop("none", "me", deadline_in(std::chrono::minutes(1)))).error().code, Errc::not_found);
  const auto none = run(io, gone.drop("t", "me", SteadyClock::now()));
  ASSERT_TRUE(none);
  EXPECT_EQ(none->left, 9u) << "there was no time";
  const auto dropped = run(io, gone.drop("t", "me", deadline_in(std::chrono::minutes(1))));
  ASSERT_TRUE(dropped);
  EXPECT_EQ(dropped->events, 6u);
  EXPECT_EQ(dropped->bytes, 26u);
  EXPECT_TRUE(run(io, store_.event_backlog("t"))->empty());
  EXPECT_TRUE(run(io, store_.event_queues())->empty());
}

TEST_F(DeliveryTest, WhoIsNotOnDutyLetsGoOfNothing) {
  say("a", "1");
  s3::EventQueues queues({}, {});
  GoneTargets gone(store_, queues, {.on_duty = [] { return false; }});
  ASSERT_TRUE(gone.load());
  asio::io_context io;
  const auto refused = run(io, gone.drop("t", "me", deadline_in(std::chrono::minutes(1))));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unsupported);
  EXPECT_EQ(run(io, store_.event_backlog("t"))->size(), 1u);
}

TEST(StuckEvents, AsManyAreKeptAsMayBeTold) {
  StuckEvents stuck;
  for (uint64_t bucket = 0; bucket < 2 * StuckEvents::kept_max; ++bucket)
    stuck.failed(bucket, {7, "no JSON"}, {true, "why"}, 1);
  stuck.failed(0, {7, "no JSON"}, {false, "another why"}, 2);
  ASSERT_EQ(stuck.list().size(), StuckEvents::kept_max);
  EXPECT_EQ(stuck.list().front().tries, 2u);
  EXPECT_EQ(stuck.list().front().why, "another why");
  EXPECT_FALSE(stuck.list().front().refused);
  EXPECT_EQ(stuck.list().front().since_us, 1);
  stuck.failed(0, {8, R"({"Event":"s3:TestEvent","Bucket":"b"})"}, {true, "why"}, 3);
  EXPECT_EQ(stuck.list().front().tries, 1u) << "another event";
  EXPECT_EQ(stuck.list().front().bucket_name + stuck.list().front().happened, "bs3:TestEvent");
  stuck.moved_on(0);
  EXPECT_FALSE(stuck.has(0, 8));
  EXPECT_TRUE(stuck.has(1, 7));
  for (const char* bad : {"", "1", "-", "1-", "-1", "1-2-3", "g-1", "11111111111111111-1"}) {
    EXPECT_FALSE(parse_stuck_name(bad)) << bad;
  }
}

TEST_F(DeliveryTest, WhatATargetBreaksOffAtHoldsUpItsOwnBucketAlone) {
  script_.breaks = "poison";
  say("a", "poison");
  auto delivery = make();
  wait_for(20, [&] {
    delivery->start();
    for (int i = 0; i < 20; ++i) say("b", "b");
  });
  wait_for(21, [&] {
    const std::lock_guard lock(script_.mutex);
    script_.breaks.clear();
  });
  delivery->stop();
  EXPECT_EQ(script_.got.back(), "poison");
}

// The queue slept after one batch of each other bucket, and its target counted as one that takes nothing.
TEST_F(DeliveryTest, EventsThatCannotBeReadHoldUpTheirOwnBucketAlone) {
  say("a", "a");
  store_.unreadable = queues_.waiting("t").front().bucket;
  for (int i = 0; i < 1000; ++i) say("b", "b");
  auto delivery = make({.retry_first = std::chrono::hours(1), .retry_most = std::chrono::hours(1)});
  wait_for(1000, [&] { delivery->start(); });
  delivery->stop();
  EXPECT_TRUE(queues_.states().front().up) << "nothing is wrong with it";
  EXPECT_EQ(std::ranges::count(script_.got, "a"), 0);
  store_.unreadable = 0;
  delivery = make();
  wait_for(1001, [&] { delivery->start(); });
  delivery->stop();
  EXPECT_EQ(script_.got.back(), "a");
  EXPECT_TRUE(queues_.waiting("t").empty());
}

TEST_F(DeliveryTest, EventsOfAGoneTargetThatCannotBeReadKeepNoOthers) {
  say("a", "a");
  store_.unreadable = queues_.waiting("t").front().bucket;
  say("b", "b");
  s3::EventQueues queues({}, {});
  GoneTargets gone(store_, queues, {});
  ASSERT_TRUE(gone.load());
  asio::io_context io;
  EXPECT_FALSE(run(io, gone.drop("t", "me", deadline_in(std::chrono::minutes(1)))));
  ASSERT_EQ(queues.waiting("t").size(), 1u);
  EXPECT_EQ(queues.waiting("t").front().bucket, store_.unreadable);
}

TEST_F(DeliveryTest, OneBucketsEventsDoNotWaitForAllOfAnothers) {
  for (int i = 0; i < 500; ++i) say("a", "a");
  say("b", "b");
  auto delivery = make();
  wait_for(501, [&] { delivery->start(); });
  delivery->stop();
  const auto at = std::ranges::find(script_.got, "b") - script_.got.begin();
  EXPECT_LE(at, 64);
}

}  // namespace
}  // namespace verbena::events
