// For tests: a door between a fake HTTP exchange and a fake port, driven step by step on the test's own thread.
#pragma once

#include <gtest/gtest.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <nlohmann/json.hpp>

#include <deque>
#include <map>

#include "base/metrics.h"
#include "http/test_exchange.h"
#include "native/native.h"
#include "native/test_handshake.h"
#include "native/wire/bodies.h"
#include "native/wire/message.h"
#include "store/memory/test_store.h"

namespace verbena::native {

using http::FakeExchange;

class FakePort final : public fabric::Port {
 public:
  void on_message(OnMessage handler) override { receive = std::move(handler); }
  void on_gone(OnGone handler) override { gone = std::move(handler); }
  void on_connection(FindKey find) override { find_key = std::move(find); }
  bool encrypted() const override { return is_encrypted; }
  bool seals() const override { return can_seal; }
  bool takes_plain() const override { return takes_others; }
  uint64_t sealed_session() const override { return sealed_by; }
  size_t message_size_max() const override { return 16 * KiB; }
  std::string address() const override { return "fake"; }
  Result<fabric::PeerId> add_peer(std::string_view) override { return ++peers; }
  bool admit(fabric::PeerId peer, uint64_t session) override {
    admitted.push_back(peer);
    const auto known = session_of.find(peer);
    return known == session_of.end() || known->second == session;
  }
  void remove_peer(fabric::PeerId peer) override { removed.push_back(peer); }
  Result<void> send(fabric::PeerId peer, Bytes message) override {
    ++attempts;
    if (full) return fail(Errc::would_block);
    sent.push_back({peer, {message.begin(), message.end()}});
    return {};
  }
  Result<std::unique_ptr<fabric::Window>> open_window(fabric::PeerId, const fabric::WindowDescriptor&,
                                                      fabric::Access) override {
    if (make_window) return make_window();
    return fail(Errc::rdma_transfer_failed);
  }

  std::map<fabric::PeerId, uint64_t> session_of;  // connections opened with a session's key
  OnMessage receive;
  FindKey find_key;
  bool is_encrypted = false, can_seal = false, takes_others = true;
  uint64_t sealed_by = 0;  // the session whose keys opened the message that comes now
  OnGone gone;
  std::function<std::unique_ptr<fabric::Window>()> make_window;
  bool full = false;
  size_t attempts = 0;  // to send
  fabric::PeerId peers = 100;
  std::vector<fabric::PeerId> admitted, removed;
  std::deque<std::pair<fabric::PeerId, std::vector<std::byte>>> sent;
};

// A client's view of its session on one endpoint.
struct FakePeer {
  uint64_t session = 0;
  wire::MasterKey master;
  wire::StreamKeys keys;
  uint64_t sequence = 0;
  fabric::PeerId id = 1;
  uint32_t timeout_ms = 30'000;  // long, for a busy machine: requests that must time out set less

  std::vector<std::byte> seal(wire::Type type, uint64_t request, Bytes body, uint8_t flags = 0) {
    std::vector<std::byte> message(wire::frame_size + body.size());
    std::ranges::copy(body, message.begin() + wire::header_size);
    const wire::Header header{.type = static_cast<uint8_t>(type),
                              .flags = flags,
                              .session = session,
                              .sequence = ++sequence,
                              .request = request,
                              .body_length = static_cast<uint32_t>(body.size()),
                              .timeout_ms = timeout_ms};
    wire::seal(keys.to_server, header, message);
    return message;
  }
  template <class T>
  std::vector<std::byte> seal(wire::Type type, uint64_t request, const T& fields, uint8_t flags = 0,
                              std::string_view inline_bytes = {}) {
    std::vector<std::byte> body(8 * KiB);
    wire::Writer out(body);
    EXPECT_TRUE(encode(out, fields));
    out.text(inline_bytes);
    EXPECT_TRUE(out.ok());
    return seal(type, request, Bytes(body).first(out.size()), flags);
  }
};

// A store of one key, which a test may change or remove.
class OneKey : public auth::CredentialStore {
 public:
  explicit OneKey(auth::Credentials key) { set(std::move(key)); }
  void set(auth::Credentials key, auth::PrincipalPtr principal = auth::superuser(), int64_t expires_s = 0) {
    key_ = std::make_shared<const auth::AccessKey>(auth::AccessKey{std::move(key), std::move(principal), expires_s});
    changed();
  }
  void remove() {
    key_ = nullptr;
    changed();
  }
  Result<auth::AccessKeyPtr> find(std::string_view access_key, std::string_view, int64_t now_s) const override {
    ++asked;
    if (key_ == nullptr || key_->credentials.access_key != access_key) return fail(Errc::invalid_access_key_id);
    if (key_->expired(now_s)) return fail(Errc::expired_token);
    return key_;
  }
  mutable int asked = 0;

 private:
  auth::AccessKeyPtr key_;
};

class ShiftedClock : public WallClock {
 public:
  int64_t now_us() const override { return system_clock().now_us() + shift_s * 1'000'000; }
  int64_t shift_s = 0;
};

class DoorTest : public testing::Test {
 protected:
  explicit DoorTest(Options options = {})
      : arena_(*memory::Arena::create(8 * MiB)),
        store_(*arena_),
        service_{store_, *arena_, clock_},
        credentials_({.access_key = "AKROOT", .secret_key = "secret/root", .session_token = {}}),
        verifier_(credentials_, system_clock(), {}),
        core_(Core::Options{}),
        door_(std::make_unique<NativeDoor>(service_, verifier_, credentials_, told_by(store_, std::move(options)))) {
    EXPECT_TRUE(door_->attach(core_, port_, "local", "/nowhere"));
    store_.make_bucket("bucket");
  }

  static Options told_by(store::ChangeFeeds& feeds, Options options) {
    if (options.feeds == nullptr) options.feeds = &feeds;
    return options;
  }
  // Runs all ready work, spawned coroutines included.
  void run() {
    for (int i = 0; i < 200; ++i) {
      if (core_.io().poll() + door_->poll() == 0) core_.io().restart();
    }
  }
  void serve(http::Exchange& exchange) {
    auto handler = door_->session_handler();
    boost::asio::co_spawn(core_.io(), http::serve_whole(handler, exchange), boost::asio::detached);
    run();
  }
  // The answer to a session's request from client_address_.
  std::unique_ptr<FakeExchange> answer_to(TestHandshake& handshake) {
    const std::string& body = handshake.body();
    auto exchange = std::make_unique<FakeExchange>("POST", "/-/session", body);
    exchange->peer = client_address_;
    sign(*exchange, body);
    serve(*exchange);
    return exchange;
  }
  static void sign(FakeExchange& exchange, std::string_view body, std::string_view secret = "secret/root",
                   std::string_view key = "AKROOT") {
    exchange.request_headers = {{"host", "server"}};
    auth::sign({.access_key = std::string(key), .secret_key = std::string(secret), .session_token = {}}, "us-east-1",
               "s3", system_clock(), exchange.method(), exchange.path(), "", to_hex(as_bytes(sha256(as_bytes(body)))),
               exchange.request_headers);
  }
  // Opens a session from client_address_.
  FakePeer open_session(fabric::PeerId id = 1, unsigned version_max = 1) {
    TestHandshake handshake(version_max);
    handshake.wanted["providers"] = {"local"};
    if (!user_agent_.empty()) handshake.wanted["user_agent"] = user_agent_;
    const auto exchange = answer_to(handshake);
    EXPECT_EQ(exchange->response.status, 200) << exchange->response.body;
    FakePeer peer;
    peer.id = id;
    peer.master = handshake.master("secret/root", exchange->response.body);
    peer.session = handshake.session();
    peer.keys = wire::derive_stream(peer.master, 0);
    return peer;
  }
  FakePeer hello(fabric::PeerId id = 1, unsigned version_max = 1) {
    FakePeer peer = open_session(id, version_max);
    const wire::Hello hello{.message_size_max = 16 * KiB, .address = {}};
    deliver(peer, peer.seal(wire::Type::hello, 1, hello));
    EXPECT_EQ(reply_code(peer), Errc::ok);
    return peer;
  }
  void deliver(const FakePeer& peer, const std::vector<std::byte>& message) {
    port_.receive(peer.id, message);
    run();
  }
  // The next reply, verified; empty when there is none.
  std::vector<std::byte> reply_body(const FakePeer& peer, uint64_t* request = nullptr) {
    if (port_.sent.empty()) return {};
    auto [to, message] = std::move(port_.sent.front());
    port_.sent.pop_front();
    EXPECT_EQ(to, peer.id);
    const auto header = wire::parse_header(message, 16 * KiB);
    EXPECT_TRUE(header && wire::mac_matches(peer.keys.to_client, message));
    if (request != nullptr) *request = header->request;
    const Bytes body = wire::body_of(message);
    return {body.begin(), body.end()};
  }
  std::optional<Errc> reply_code(const FakePeer& peer) { return wire::decode_error(reply_body(peer)); }
  static uint64_t dropped(const char* reason) {
    return metrics::counter("verbena_native_dropped_total", "", {{"reason", reason}}).value();
  }

  std::string client_address_ = "127.0.0.1";
  std::string user_agent_;  // the clients' at session requests; empty: none
  std::unique_ptr<memory::Arena> arena_;
  store::in_memory::TestStore store_;
  ShiftedClock clock_;  // of requests; signatures use the machine's clock
  s3::Service service_;
  OneKey credentials_;
  auth::Verifier verifier_;
  Core core_;
  FakePort port_;
  std::unique_ptr<NativeDoor> door_;
};

}  // namespace verbena::native
