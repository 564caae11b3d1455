// Clients of the native door for request_cost: one with a transport that only copies, so that only the door is counted,
// and one over TCP on loopback. Both run on the serving thread, and their own work is not counted.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/core.h"
#include "fabric/fabric.h"
#include "native/native.h"
#include "native/wire/bodies.h"
#include "native/wire/message.h"

namespace verbena::bench {

// The port of a client on the same host: shared memory and messages, as the server sees fabric/local.
class BarePort final : public fabric::Port {
 public:
  static constexpr size_t message_size = 16 * KiB;
  void on_message(OnMessage handler) override { receive = std::move(handler); }
  void on_gone(OnGone) override {}
  size_t message_size_max() const override { return message_size; }
  std::string address() const override { return "bench"; }
  Result<fabric::PeerId> add_peer(std::string_view) override { return fail(Errc::unsupported, "bench"); }
  void remove_peer(fabric::PeerId) override {}
  Result<void> send(fabric::PeerId, Bytes message) override;
  Result<std::unique_ptr<fabric::Window>> open_window(fabric::PeerId, const fabric::WindowDescriptor& lent,
                                                      fabric::Access) override;

  OnMessage receive;
  struct alignas(4 * KiB) Page {
    std::byte bytes[4 * KiB];
  };
  std::vector<Page> memory = std::vector<Page>(512);  // lent memory starts at a page
  std::array<std::byte, message_size> reply{};
  size_t reply_size = 0, replies = 0;
};

// The server's side of a session, for a peer.
struct Place {
  Core& core;
  native::NativeDoor& door;
  uint64_t session;
  native::wire::MasterKey master;
};

class Peer {
 public:
  virtual ~Peer() = default;
  Peer(const Place& place, uint16_t endpoint, bool sealed = false);

  // Encodes a request of this client: numbered and authenticated.
  std::vector<std::byte> seal(native::wire::Type type, Bytes body, uint8_t flags);
  virtual native::wire::Descriptor lend(size_t size) = 0;
  // Sends the message and serves it: `count` is called with the server's part, in one piece or several.
  using Count = std::function<void(const std::function<void()>& serve)>;
  virtual Bytes exchange(Bytes message, const Count& count) = 0;
  // Proves that it has the session's keys.
  void hello();

 protected:
  Place place_;

 private:
  native::wire::StreamKeys keys_;
  uint64_t sequence_ = 0;
};

class BarePeer final : public Peer {
 public:
  BarePeer(const Place& place, uint16_t endpoint, BarePort& port) : Peer(place, endpoint), port_(port) {}
  native::wire::Descriptor lend(size_t size) override { return {0, size, 1}; }
  Bytes exchange(Bytes message, const Count& count) override;

 private:
  BarePort& port_;
};

// Over a link.
class LinkPeer : public Peer {
 public:
  using Peer::Peer;
  native::wire::Descriptor lend(size_t size) override;
  Bytes exchange(Bytes message, const Count& count) override;

 protected:
  virtual void serve() = 0;  // the server's part
  std::unique_ptr<fabric::Link> link_;

 private:
  std::shared_ptr<MutableBytes> memory_;
  std::unique_ptr<fabric::Lent> lent_;
  std::vector<std::byte> reply_;
};

class TcpPeer final : public LinkPeer {
 public:
  // Connects; `port` is the server's, of place.core, attached as `endpoint`.
  TcpPeer(const Place& place, uint16_t endpoint, fabric::Port& port);

 private:
  void serve() override;

  fabric::Port& port_;
};

}  // namespace verbena::bench
