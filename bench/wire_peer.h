// A client of the native door for request_cost over a transport between hosts that costs nothing: messages and windows
// are copied within the process. Plain, or sealed (fabric/sealed); so the difference is the cost of sealing.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "native_peers.h"

namespace verbena::bench {

// The server's end. Messages to the client stay here until the client takes them.
class WirePort final : public fabric::Port {
 public:
  static constexpr size_t message_size = 17 * KiB;
  void on_message(OnMessage handler) override { receive = std::move(handler); }
  void on_gone(OnGone) override {}
  size_t message_size_max() const override { return message_size; }
  std::string address() const override { return "wire"; }
  Result<fabric::PeerId> add_peer(std::string_view) override { return 1; }
  void remove_peer(fabric::PeerId) override {}
  Result<void> send(fabric::PeerId, Bytes message) override;
  Result<std::unique_ptr<fabric::Window>> open_window(fabric::PeerId, const fabric::WindowDescriptor& lent,
                                                      fabric::Access) override;

  OnMessage receive;
  struct Sent {
    size_t size = 0;
    std::array<std::byte, message_size> bytes;
  };
  std::vector<Sent> sent = std::vector<Sent>(16);
  size_t sent_count = 0;
  std::map<uint64_t, MutableBytes> lent;  // by key
};

class WirePeer final : public LinkPeer {
 public:
  // With `key` the connection is sealed. `port` is what the door was given; `wire` is below it, or the same.
  WirePeer(const Place& place, uint16_t endpoint, WirePort& wire, const std::optional<fabric::ConnectionKey>& key);

 private:
  void serve() override;

  WirePort& wire_;
  std::vector<std::vector<std::byte>> to_server_;
};

}  // namespace verbena::bench
