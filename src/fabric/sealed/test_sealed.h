// For tests: a client and a server with a sealed connection on a wire that belongs to an attacker (test_wire.h).
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "fabric/sealed/counters.h"
#include "fabric/sealed/test_wire.h"

namespace verbena::fabric::sealed {

inline ConnectionKey key_of(uint64_t session, Sealing sealing = Sealing::aes_256_gcm) {
  ConnectionKey key;
  key.bytes.fill(std::byte{static_cast<unsigned char>(session * 7 + 1)});
  key.sealing = sealing;
  return key;
}

inline Message pattern(size_t size, unsigned fill) {
  Message bytes(size);
  std::mt19937_64 random(fill);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

inline bool contains(Bytes where, Bytes what) {
  return ::memmem(where.data(), where.size(), what.data(), what.size()) != nullptr;
}

// One core with a sealed port that answers each message with itself. A message "peer" adds the sender.
class SealedTest : public ::testing::Test {
 protected:
  SealedTest() : arena(*memory::Arena::create(64 * MiB)), core(Core::Options{}), below(wire) {}
  ~SealedTest() override {
    client.reset();
    if (!thread_.joinable()) return;
    call_on(core, [this] { port.reset(); });
    core.stop();
    thread_.join();
  }

  void start(PortOptions options = {}) {
    thread_ = std::thread([this] { core.run(); });
    start_over(options);
  }
  // A new port: a session has one connection to a port, for ever.
  void start_over(PortOptions options = {}) {
    call_on(core, [&] {
      port.reset();
      peer = 0;
      wire.arrived.clear();
      port = seal(core, below, *arena, options);
      port->on_connection([](uint64_t session, ConnectionKey* key) {
        if (session == 0 || session > 9) return false;
        if (key != nullptr) *key = key_of(session, session == 9 ? Sealing::chacha20_poly1305 : Sealing::aes_256_gcm);
        return true;
      });
      port->on_message([this](PeerId, Bytes message) {
        sessions_seen.push_back(port->sealed_session());
        if (peer == 0) peer = *port->add_peer("client");
        heard.emplace_back(message.begin(), message.end());
        (void)port->send(peer, message);
      });
      return 0;
    });
  }
  void connect(uint64_t session = 1, unsigned epoch_bits = 24, uint64_t numbers_max = numbers_max_default) {
    client = seal(std::make_unique<WireLink>(wire, core, below), session,
                  key_of(session, session == 9 ? Sealing::chacha20_poly1305 : Sealing::aes_256_gcm), epoch_bits,
                  numbers_max);
  }

  // The answers of the server within a bounded time; the error of a link that broke.
  Result<Message> answer() {
    Message got;
    const Deadline until = deadline_in(limit);
    while (got.empty() && SteadyClock::now() < until) {
      VB_ASSIGN(const size_t events, client->poll([&](Bytes message) { got.assign(message.begin(), message.end()); }));
      if (events == 0) client->wait(until);
    }
    if (got.empty()) return fail(Errc::timed_out, "test");
    return got;
  }
  Result<Message> ask(std::string_view text) {
    VB_TRY(client->send(as_bytes(text)));
    return answer();
  }
  // Polls the client until the server's work is done.
  template <class T>
  T driven(Task<T> task) {
    auto done = spawn_on(core, std::move(task));
    while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      if (!client->poll([](Bytes) {})) break;
      client->wait(deadline_in(std::chrono::milliseconds(1)));
    }
    return done.get();
  }
  std::shared_ptr<Window> window(const Lent& lent, Access access) {
    auto opened = call_on(core, [&] { return port->open_window(peer, lent.descriptor(), access); });
    EXPECT_TRUE(opened);
    return {opened->release(), [this](Window* window) { call_on(core, [window] { delete window; }); }};
  }
  memory::Lease lease(Bytes bytes) {
    auto lease = std::move(*arena->lease(bytes.size()));
    std::ranges::copy(bytes, lease.data());
    return lease;
  }
  // A GET of `bytes` into the client's memory: what is there after the server's answer; the error of either side.
  Result<Message> get(Bytes bytes, uint64_t at = 0) {
    Message into(bytes.size() + at, std::byte{0xaa});
    VB_ASSIGN(const auto lent, client->lend(into, Access::server_writes));
    VB_TRY(ask("a request"));
    const auto source = lease(bytes);
    const auto lands = window(*lent, Access::server_writes);
    VB_TRY(driven(lands->write(source.bytes(), at, deadline_in(limit))));
    VB_TRY(ask("done"));
    return Message(into.begin() + static_cast<ptrdiff_t>(at), into.end());
  }
  // A PUT of `bytes` from the client's memory: what the server has.
  Result<Message> put(Message bytes) {
    VB_ASSIGN(const auto lent, client->lend(bytes, Access::server_reads));
    VB_TRY(ask("a request"));
    auto target = std::move(*arena->lease(bytes.size()));
    const auto from = window(*lent, Access::server_reads);
    VB_TRY(driven(from->read(target.bytes(), 0, deadline_in(limit))));
    return Message(target.bytes().begin(), target.bytes().end());
  }

  Wire wire;
  std::unique_ptr<memory::Arena> arena;
  Core core;
  WirePort below;
  std::unique_ptr<Port> port;
  std::unique_ptr<Link> client;
  std::chrono::milliseconds limit{20'000};
  PeerId peer = 0;
  std::vector<Message> heard;
  std::vector<uint64_t> sessions_seen;

 private:
  std::thread thread_;
};

}  // namespace verbena::fabric::sealed
