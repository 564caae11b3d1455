// Observation of the native door's requests, and reports about its sessions.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "auth/limits.h"
#include "call/bucket_traffic.h"
#include "native/test_batches.h"
#include "native/test_door.h"
#include "native/wire/batch.h"
#include "native/wire/list_values.h"
#include "native/wire/trace.h"
#include "native/wire/watch.h"
#include "observe/request_watch.h"

namespace verbena::native {
namespace {

using observe::RequestWatch;

// Takes one POST over HTTP and answers it.
class OneCollector {
 public:
  OneCollector() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { take(); });
  }
  ~OneCollector() {
    ::shutdown(listener_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    ::close(listener_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  nlohmann::json spans() {
    thread_.join();
    const auto document = nlohmann::json::parse(text_.substr(std::min(text_.find("\r\n\r\n"), text_.size() - 4) + 4));
    return document["resourceSpans"][0]["scopeSpans"][0]["spans"];
  }

 private:
  void take() {
    const int peer = ::accept(listener_, nullptr, nullptr);
    if (peer < 0) return;
    char bytes[4096];
    while (!whole()) {
      const ssize_t n = ::read(peer, bytes, sizeof bytes);
      if (n <= 0) break;
      text_.append(bytes, static_cast<size_t>(n));
    }
    constexpr std::string_view answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    EXPECT_EQ(::write(peer, answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
    ::close(peer);
  }
  bool whole() const {
    const size_t head = text_.find("\r\n\r\n");
    const size_t length = text_.find("Content-Length: ");
    return head != std::string::npos && length != std::string::npos &&
           text_.size() - head - 4 >= std::stoul(text_.substr(length + 16));
  }

  const int listener_;
  uint16_t port_ = 0;
  std::string text_;
  std::thread thread_;
};

Options watched(RequestWatch& watch, observe::Tracer* tracer = nullptr) {
  Options options;
  options.watch = &watch;
  options.tracer = tracer;
  return options;
}

struct Observers {
  RequestWatch watch;
  OneCollector collector;
  std::unique_ptr<observe::Tracer> tracer = *observe::Tracer::create({.endpoint = collector.url(),
                                                                      .headers = {},
                                                                      .sample_ratio = 0,
                                                                      .per_second_max = 1000,
                                                                      .gather = std::chrono::milliseconds(10)});
};

wire::Get get_key(std::string_view key) {
  wire::Get get;
  get.bucket = "bucket";
  get.key = key;
  get.inline_max = 4096;
  return get;
}

// The body of `fields`, followed by a trace's context.
template <class T>
std::vector<std::byte> with_context(const T& fields, std::byte flags, std::string_view inline_bytes = {}) {
  std::vector<std::byte> body(4 * KiB);
  wire::Writer out(body);
  EXPECT_TRUE(encode(out, fields));
  out.text(inline_bytes);
  body.resize(out.size());
  for (int i = 0; i < 16; ++i) body.push_back(std::byte{0xaa});
  for (int i = 0; i < 8; ++i) body.push_back(std::byte{0xbb});
  body.push_back(flags);
  return body;
}

std::vector<std::byte> heads(int count, const std::string& prefix) {
  std::vector<std::byte> space(15 * KiB);
  wire::Writer out(space);
  wire::BatchWriter batch(out, wire::Type::head_many);
  wire::BatchHead head;
  head.buckets.add("bucket");
  EXPECT_TRUE(batch.begin(head));
  for (int i = 0; i < count; ++i) {
    const std::string key = prefix + std::to_string(1000 + i);
    wire::BatchItem item;
    item.key = key;
    EXPECT_TRUE(batch.add(item)) << i;
  }
  batch.finish();
  space.resize(out.size());
  return space;
}

class ObservedTest : public DoorTest {
 protected:
  ObservedTest() : ObservedTest(std::make_unique<RequestWatch>()) {}

  std::vector<std::string> keys(const std::string& watcher) {
    std::vector<std::string> found;
    const auto lines = watch_->take_lines(watcher);
    RequestWatch::each_line(*lines, [&](const call::AccessLine& line) {
      EXPECT_EQ(line.door, "native");
      EXPECT_EQ(line.bucket, "bucket");
      EXPECT_EQ(line.request_id.size(), 16u);
      found.emplace_back(line.key);
    });
    return found;
  }

  std::unique_ptr<RequestWatch> watch_;

 private:
  explicit ObservedTest(std::unique_ptr<RequestWatch> watch) : DoorTest(watched(*watch)), watch_(std::move(watch)) {}
};

TEST_F(ObservedTest, OnlyRequestsThatBeganWhileSomebodyWatchedAreTold) {
  FakePeer peer = hello();
  store_.put("bucket", "before", "1");
  store_.put("bucket", "while", "2");
  deliver(peer, peer.seal(wire::Type::get, 2, get_key("before")));
  const auto watcher = watch_->begin({}, RequestWatch::Wanted::lines);
  ASSERT_TRUE(watcher);
  deliver(peer, peer.seal(wire::Type::get, 3, get_key("while")));
  deliver(peer, peer.seal(wire::Type::head, 4, get_key("while")));
  EXPECT_EQ(keys(*watcher), (std::vector<std::string>{"while", "while"}));
  watch_->end(*watcher);
  deliver(peer, peer.seal(wire::Type::get, 5, get_key("before")));
  const auto later = watch_->begin({}, RequestWatch::Wanted::lines);
  EXPECT_TRUE(keys(*later).empty());
  watch_->end(*later);
}

TEST_F(ObservedTest, ARequestThatIsRefusedBeforeItIsReadHasAnId) {
  FakePeer peer = hello();
  const auto watcher = watch_->begin({}, RequestWatch::Wanted::lines);
  credentials_.remove();
  deliver(peer, peer.seal(wire::Type::get, 2, get_key("any")));
  EXPECT_EQ(reply_code(peer), Errc::access_denied);
  const auto lines = watch_->take_lines(*watcher);
  int count = 0;
  RequestWatch::each_line(*lines, [&](const call::AccessLine& line) {
    ++count;
    EXPECT_EQ(line.status, 403);
    EXPECT_EQ(line.request_id.size(), 16u);
  });
  EXPECT_EQ(count, 1);
  watch_->end(*watcher);
}

// An ended session was a request without a name that the server had failed at.
TEST_F(ObservedTest, WhatIsSaidOfTheSessionItselfIsNoRequest) {
  FakePeer peer = hello(1, 4);
  const auto watcher = watch_->begin({}, RequestWatch::Wanted::lines);
  credentials_.remove();
  deliver(peer, peer.seal(wire::Type::watch_next, 2, wire::WatchNext{.watch = 1, .seen = 0, .wait_ms = 0}));
  EXPECT_EQ(reply_code(peer), Errc::access_denied);
  for (int i = 0; i < 1000 && port_.sent.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    run();
  }
  ASSERT_FALSE(port_.sent.empty());
  const auto bye = wire::parse_header(port_.sent.front().second, 16 * KiB);
  EXPECT_EQ(bye->type, static_cast<uint8_t>(wire::Type::bye) | wire::reply_bit);
  port_.sent.clear();
  const auto lines = watch_->take_lines(*watcher);
  int count = 0;
  RequestWatch::each_line(*lines, [&](const call::AccessLine&) { ++count; });
  EXPECT_EQ(count, 0);
  watch_->end(*watcher);
}

// Its line named what the request before it had named, also one of another client.
TEST_F(ObservedTest, AMessageThatCannotBeReadNamesNoObject) {
  FakePeer peer = hello(1, 4);
  wire::Put put;
  put.bucket = "bucket";
  put.key = "of another";
  put.size = 5;
  wire::Rename rename;
  rename.bucket = "bucket";
  rename.from = "of another";
  rename.to = "renamed";
  deliver(peer, peer.seal(wire::Type::put, 2, put, 0, "hello"));
  deliver(peer, peer.seal(wire::Type::get, 3, get_key("of another")));
  deliver(peer, peer.seal(wire::Type::rename, 4, rename));
  port_.sent.clear();
  const auto watcher = watch_->begin({}, RequestWatch::Wanted::lines);
  const std::byte nonsense[] = {std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};
  uint64_t request = 10;
  const std::array types{wire::Type::get,         wire::Type::head,   wire::Type::put,
                         wire::Type::append,      wire::Type::rename, wire::Type::del,
                         wire::Type::list_values, wire::Type::list,   wire::Type::watch};
  for (const wire::Type type : types) {
    deliver(peer, peer.seal(type, ++request, Bytes(nonsense)));
    EXPECT_EQ(reply_code(peer), Errc::invalid_request) << static_cast<int>(type);
    deliver(peer, peer.seal(wire::Type::get, ++request, get_key("of another")));
    port_.sent.clear();
  }
  const auto lines = watch_->take_lines(*watcher);
  size_t refused = 0;
  RequestWatch::each_line(*lines, [&](const call::AccessLine& line) {
    if (line.status != 400) return;
    ++refused;
    EXPECT_EQ(line.bucket, "") << line.action;
    EXPECT_EQ(line.key, "") << line.action;
    EXPECT_EQ(line.source, "") << line.action;
  });
  EXPECT_EQ(refused, types.size());
  watch_->end(*watcher);
}

// They were counted for a bucket that another client's refused request had named.
TEST_F(ObservedTest, AnAnswerToNoRequestForABucketIsCountedForNoBucket) {
  call::show_buckets(1000);  // all that tests of this process name
  const auto counted = [](const std::string& bucket) {
    const std::string series = "verbena_bucket_requests_total{bucket=\"" + bucket + "\"";
    return metrics::exposition().contains(series);
  };
  FakePeer peer = hello(1, 4);
  wire::Put put;
  put.key = "k";
  put.size = 5;
  put.bucket = "invented-1";
  deliver(peer, peer.seal(wire::Type::put, 2, put, 0, "hello"));
  EXPECT_EQ(reply_code(peer), Errc::no_such_bucket);
  hello(2, 4);
  EXPECT_FALSE(counted("invented-1"));

  store_.make_bucket("watched-1");
  deliver(peer, peer.seal(wire::Type::watch, 3, wire::Watch{.bucket = "watched-1", .prefix = {}}));
  const auto body = reply_body(peer);
  const auto started = wire::decode_watch_started(body);
  ASSERT_TRUE(started);
  const wire::WatchNext next{.watch = started->watch, .seen = 0, .wait_ms = 30'000};
  deliver(peer, peer.seal(wire::Type::watch_next, 4, next));
  ASSERT_TRUE(port_.sent.empty()) << "it waits";
  put.bucket = "invented-2";
  deliver(peer, peer.seal(wire::Type::put, 5, put, 0, "hello"));
  EXPECT_EQ(reply_code(peer), Errc::no_such_bucket);
  store_.put("watched-1", "a", "hello");
  run();
  EXPECT_TRUE(wire::decode_watch_news(reply_body(peer)));
  EXPECT_FALSE(counted("invented-2"));
  EXPECT_TRUE(counted("watched-1"));
  call::show_buckets(20);
}

// Who watches for errors of the server saw one, whenever a client lent too little memory.
TEST_F(ObservedTest, MemoryThatIsTooSmallIsAMistakeOfTheClient) {
  FakePeer peer = hello();
  store_.put("bucket", "long", std::string(500, 'x'));
  const auto watcher = watch_->begin({}, RequestWatch::Wanted::lines);
  wire::Get get = get_key("long");
  get.inline_max = 100;
  deliver(peer, peer.seal(wire::Type::get, 2, get));
  EXPECT_EQ(reply_code(peer), Errc::too_large);
  const auto lines = watch_->take_lines(*watcher);
  int count = 0;
  RequestWatch::each_line(*lines, [&](const call::AccessLine& line) {
    ++count;
    EXPECT_EQ(line.status, 400);
    EXPECT_EQ(line.error_code, "InvalidArgument");
  });
  EXPECT_EQ(count, 1);
  watch_->end(*watcher);
}

// A line that named no bucket was missing from a view of the bucket's lines.
TEST_F(ObservedTest, ABatchThatIsRefusedAsAWholeNamesItsBucket) {
  auth::Principal limited = *auth::superuser();
  limited.superuser = false;
  limited.account_limits = auth::make_limits({.requests_per_s = 1});
  credentials_.set({"AKROOT", "secret/root", ""}, std::make_shared<const auth::Principal>(limited));
  FakePeer peer = hello(1, 2);
  deliver(peer, peer.seal(wire::Type::get, 2, get_key("another's")));
  deliver(peer, peer.seal(wire::Type::head_many, 3, Bytes(heads(9, "k"))));
  const auto watcher = watch_->begin({}, RequestWatch::Wanted::lines);
  port_.sent.clear();
  deliver(peer, peer.seal(wire::Type::head_many, 4, Bytes(heads(9, "k"))));
  EXPECT_EQ(reply_code(peer), Errc::slow_down);
  const auto lines = watch_->take_lines(*watcher);
  int count = 0;
  RequestWatch::each_line(*lines, [&](const call::AccessLine& line) {
    ++count;
    EXPECT_EQ(line.error_code, "SlowDown");
    EXPECT_EQ(line.bucket, "bucket");
    EXPECT_EQ(line.key, "");
  });
  EXPECT_EQ(count, 1);
  watch_->end(*watcher);
}

// A line for each item made 600 bytes of audit log for each byte of a batch whose keys share a prefix.
TEST_F(ObservedTest, ItemsOfABatchThatAreRefusedShareALine) {
  auth::Principal who = *auth::superuser();
  who.superuser = false;
  who.account = std::make_shared<const auth::Account>(
      auth::Account{.id = "210987654321", .canonical_id = std::string(64, 'e'), .display_name = "other", .email = ""});
  who.arn = "arn:aws:iam::210987654321:root";
  credentials_.set({"AKROOT", "secret/root", ""}, std::make_shared<const auth::Principal>(std::move(who)));
  FakePeer peer = hello(1, 2);
  const auto watcher = watch_->begin({}, RequestWatch::Wanted::lines);
  const auto space = heads(500, std::string(900, '\x01'));
  deliver(peer, peer.seal(wire::Type::head_many, 2, Bytes(space)));
  const auto lines = watch_->take_lines(*watcher);
  int count = 0;
  RequestWatch::each_line(*lines, [&](const call::AccessLine& line) {
    ++count;
    EXPECT_EQ(line.status, 403);
    EXPECT_EQ(line.items, 500u);
    EXPECT_EQ(line.of_items, 500u);
    EXPECT_EQ(line.action, "HEAD object");
    EXPECT_LE(line.key.size(), 160u);
    EXPECT_TRUE(line.cut);
    EXPECT_TRUE(line.key.starts_with('\x01')) << "the first of them";
  });
  EXPECT_EQ(count, 1);
  watch_->end(*watcher);
}

// They were summed up, and the sum was in no line.
TEST_F(ObservedTest, ValuesOfAListingThatAreRefusedShareALine) {
  TestWindow::State window;
  port_.make_window = [&] { return std::make_unique<TestWindow>(window); };
  for (const char* key : {"a", "b", "c", "d"}) store_.put("bucket", key, "value");
  store_.document("bucket", "policy",
                  R"({"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"s3:GetObject",)"
                  R"("Resource":["arn:aws:s3:::bucket/b","arn:aws:s3:::bucket/c"]}})");
  service_.access->all_changed();
  FakePeer peer = hello(1, 2);
  const auto watcher = watch_->begin({}, RequestWatch::Wanted::lines);
  const wire::ListValues request{
      .window = {0, window.memory.size(), 1}, .value_size_max = 10, .bucket = "bucket", .prefix = {}, .after = {}};
  deliver(peer, peer.seal(wire::Type::list_values, 2, request));
  EXPECT_EQ(reply_code(peer), Errc::ok);
  const auto lines = watch_->take_lines(*watcher);
  int served = 0, refused = 0;
  RequestWatch::each_line(*lines, [&](const call::AccessLine& line) {
    if (line.status != 403) {
      ++served;
      return;
    }
    ++refused;
    EXPECT_EQ(line.action, "GET object");
    EXPECT_EQ(line.key, "b") << "the first of them";
    EXPECT_EQ(line.items, 2u);
    EXPECT_EQ(line.of_items, 4u);
  });
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(served, 3) << "two values and the listing";
  watch_->end(*watcher);
}

TEST_F(ObservedTest, AMessageWithATracesContextIsServedAsOneWithout) {
  FakePeer peer = hello();
  store_.put("bucket", "a", "hello");
  const auto before = dropped("malformed");
  uint64_t request = 1;
  deliver(peer,
          peer.seal(wire::Type::get, ++request, Bytes(with_context(get_key("a"), std::byte{1})), wire::flag_trace));
  auto body = reply_body(peer);
  const auto reply = wire::decode_object_reply(body);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->length, 5u);
  wire::Put put;
  put.bucket = "bucket";
  put.key = "b";
  put.size = 5;
  deliver(peer,
          peer.seal(wire::Type::put, ++request, Bytes(with_context(put, std::byte{0}, "world")), wire::flag_trace));
  body = reply_body(peer);
  EXPECT_TRUE(wire::decode_object_reply(body));
  EXPECT_EQ(dropped("malformed"), before);
  // The same bytes without the flag, and the flag without the bytes.
  deliver(peer, peer.seal(wire::Type::get, ++request, Bytes(with_context(get_key("a"), std::byte{1}))));
  EXPECT_EQ(reply_code(peer), Errc::invalid_request);
  deliver(peer, peer.seal(wire::Type::ping, ++request, Bytes(), wire::flag_trace));
  EXPECT_EQ(reply_code(peer), Errc::ok);
  deliver(peer, peer.seal(wire::Type::get, ++request, Bytes(), wire::flag_trace));
  EXPECT_EQ(reply_code(peer), Errc::invalid_request);
  deliver(peer, peer.seal(wire::Type::get, ++request, get_key("a"), wire::flag_trace));
  EXPECT_TRUE(wire::decode_object_reply(reply_body(peer))) << "a whole body is one, whatever its flag promises";
}

TEST_F(ObservedTest, SessionsAreListedAndEnded) {
  const FakePeer first = hello(1), second = hello(2);
  auto sessions = door_->list_sessions();
  ASSERT_EQ(sessions.size(), 2u);
  for (const auto& session : sessions) {
    EXPECT_TRUE(session.id == first.session || session.id == second.session);
    EXPECT_EQ(session.identity.access_key, "AKROOT");
    EXPECT_EQ(session.providers, "local");
    EXPECT_EQ(session.streams, 1u);
    EXPECT_GT(session.opened_us, 0);
  }
  EXPECT_TRUE(door_->end_session(first.session));
  EXPECT_FALSE(door_->end_session(first.session));
  EXPECT_FALSE(door_->end_session(0));
  sessions = door_->list_sessions();
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions[0].id, second.session);
}

class TracedTest : public DoorTest {
 protected:
  TracedTest() : TracedTest(std::make_unique<Observers>()) {}
  std::unique_ptr<Observers> observers_;

 private:
  explicit TracedTest(std::unique_ptr<Observers> observers)
      : DoorTest(watched(observers->watch, observers->tracer.get())), observers_(std::move(observers)) {}
};

TEST_F(TracedTest, ARequestIsASpanBelowTheOneThatItsMessageNames) {
  FakePeer peer = hello();
  store_.put("bucket", "a", "hello");
  deliver(peer, peer.seal(wire::Type::get, 2, get_key("a")));  // not observed
  ASSERT_FALSE(reply_body(peer).empty());
  deliver(peer, peer.seal(wire::Type::get, 3, Bytes(with_context(get_key("a"), std::byte{0})), wire::flag_trace));
  ASSERT_FALSE(reply_body(peer).empty());
  deliver(peer, peer.seal(wire::Type::get, 4, Bytes(with_context(get_key("a"), std::byte{1})), wire::flag_trace));
  ASSERT_FALSE(reply_body(peer).empty());
  const auto spans = observers_->collector.spans();
  ASSERT_GE(spans.size(), 2u);
  EXPECT_EQ(spans[0]["name"], "GET object");
  EXPECT_EQ(spans[0]["parentSpanId"], "bbbbbbbbbbbbbbbb");
  for (const auto& span : spans) EXPECT_EQ(span["traceId"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
  for (size_t i = 1; i < spans.size(); ++i) EXPECT_EQ(spans[i]["parentSpanId"], spans[0]["spanId"]);
}

}  // namespace
}  // namespace verbena::native
