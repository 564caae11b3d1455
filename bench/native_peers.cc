#include "native_peers.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <thread>

#include "fabric/tcp/port.h"
#include "fabric/tcp/tcp.h"
#include "give_up.h"

namespace verbena::bench {
namespace {

namespace wire = native::wire;

class BareWindow final : public fabric::Window {
 public:
  explicit BareWindow(MutableBytes memory) : memory_(memory) {}
  uint64_t size() const override { return memory_.size(); }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline) override { co_return write_now(from, at); }
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline) override { co_return read_now(into, at); }
  size_t immediate_size_max() const override { return 256 * KiB; }
  Result<void> write_all_now(std::span<const Write> writes) override {
    for (const auto& [from, at] : writes) std::memcpy(memory_.data() + at, from.data(), from.size());
    return {};
  }
  Result<void> read_now(MutableBytes into, uint64_t at) override {
    std::memcpy(into.data(), memory_.data() + at, into.size());
    return {};
  }

 private:
  MutableBytes memory_;
};

// The core normally does this; here it has no thread.
Pollable& pollable(fabric::Port& port) {
  return (Pollable&)dynamic_cast<fabric::tcp::TcpPort&>(port);  // NOLINT: a private base
}

}  // namespace

Result<void> BarePort::send(fabric::PeerId, Bytes message) {
  replies += 1;
  reply_size = std::min(message.size(), reply.size());
  std::memcpy(reply.data(), message.data(), reply_size);
  return {};
}

Result<std::unique_ptr<fabric::Window>> BarePort::open_window(fabric::PeerId, const fabric::WindowDescriptor& lent,
                                                              fabric::Access) {
  return std::make_unique<BareWindow>(MutableBytes(memory[0].bytes, lent.size));
}

Peer::Peer(const Place& place, uint16_t endpoint, bool sealed)
    : place_(place), keys_(wire::derive_stream(place.master, endpoint, sealed)) {}

std::vector<std::byte> Peer::seal(wire::Type type, Bytes body, uint8_t flags) {
  std::vector<std::byte> message(wire::frame_size + body.size());
  std::ranges::copy(body, message.begin() + wire::header_size);
  const wire::Header header{.type = static_cast<uint8_t>(type),
                            .flags = flags,
                            .session = place_.session,
                            .sequence = ++sequence_,
                            .request = sequence_,
                            .body_length = static_cast<uint32_t>(body.size()),
                            .timeout_ms = 1000};
  wire::seal(keys_.to_server, header, message);
  return message;
}

void Peer::hello() {
  std::vector<std::byte> body(1024);
  wire::Writer out(body);
  encode(out, wire::Hello{.message_size_max = BarePort::message_size, .address = {}});
  const auto message = seal(wire::Type::hello, Bytes(body).first(out.size()), 0);
  if (exchange(message, [](const auto& serve) { serve(); }).empty()) give_up("no answer to HELLO");
}

Bytes BarePeer::exchange(Bytes message, const Count& count) {
  const size_t before = port_.replies;
  count([&] {
    port_.receive(1, message);
    while (port_.replies == before) {
      place_.core.io().restart();
      place_.core.io().poll();
      place_.door.poll();
    }
  });
  return Bytes(port_.reply).first(port_.reply_size);
}

TcpPeer::TcpPeer(const Place& place, uint16_t endpoint, fabric::Port& port) : LinkPeer(place, endpoint), port_(port) {
  fabric::tcp::Dial dial;
  dial.address = port.address();
  dial.session = place.session;
  dial.key.bytes = wire::derive_connection(place.master, endpoint);
  dial.encrypt = port.encrypted();
  auto connecting = std::async(std::launch::async, [dial] { return fabric::tcp::connect(dial); });
  while (connecting.wait_for(std::chrono::seconds(0)) != std::future_status::ready) serve();
  link_ = must(connecting.get(), "connect");
}

wire::Descriptor LinkPeer::lend(size_t size) {
  memory_ = must(link_->allocate(size), "memory");
  lent_ = must(link_->lend(memory_->first(size), fabric::Access::server_writes), "lend");
  const fabric::WindowDescriptor& lent = lent_->descriptor();
  return {lent.base, lent.size, lent.key};
}

void TcpPeer::serve() {
  place_.core.io().restart();
  while (pollable(port_).poll() + place_.core.io().poll() + place_.door.poll() != 0) {
  }
}

Bytes LinkPeer::exchange(Bytes message, const Count& count) {
  must(link_->send(message), "send");
  bool replied = false;
  while (!replied) {
    count([this] { serve(); });
    must(link_->poll([&](Bytes reply) {
      reply_.assign(reply.begin(), reply.end());
      replied = true;
    }),
         "poll");
  }
  return reply_;
}

}  // namespace verbena::bench
