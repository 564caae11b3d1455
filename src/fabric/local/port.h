// The server's end: one Port per core. Polls the rings of the clients heard from last, a bounded number of them: every
// poll of a ring delays the messages in the others. The other clients use their doorbells (doorbells.h), which cost the
// same however many they are.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fabric/device.h"
#include "fabric/local/doorbells.h"
#include "fabric/local/local_listener.h"
#include "fabric/local/window.h"

namespace verbena::fabric::local {

class LocalPort final : public Port, public DevicePort, public Pollable, private ListenerEvents {
 public:
  LocalPort(Core& core, const Options& options)
      : core_(core), options_(options), rung_(core.io()), look_aside_(core.io()), forget_parcels_(core.io()) {}
  Result<void> open(const std::string& socket_path);
  ~LocalPort() override;

  void on_message(OnMessage handler) override { on_message_ = std::move(handler); }
  void on_gone(OnGone handler) override { on_gone_ = std::move(handler); }
  size_t message_size_max() const override { return options_.message_size_max; }
  std::string address() const override { return listener_->path(); }
  bool admit(PeerId peer, uint64_t) override {
    listener_->admit(peer);
    return true;
  }
  Result<PeerId> add_peer(std::string_view address) override;
  void remove_peer(PeerId peer) override;
  Result<void> send(PeerId peer, Bytes message) override { return send_joined(peer, message, {}); }
  Result<void> send_joined(PeerId peer, Bytes first, Bytes second) override;
  Result<std::unique_ptr<Window>> open_window(PeerId peer, const WindowDescriptor& lent, Access access) override;

  Result<HandedOver> take_handed_over(PeerId peer, uint32_t number) override;
  Result<uint64_t> add_device_memory(PeerId peer, std::shared_ptr<memory::cuda::Mapped> memory,
                                     std::shared_ptr<memory::cuda::Devices> devices) override;
  Fence remove_device_memory(PeerId peer, uint64_t number) override;

  size_t poll() override;
  bool busy() const override { return !copies_->empty(); }
  bool arm() override;
  void disarm() override;

 private:
  struct DeviceShare {
    std::shared_ptr<memory::cuda::Mapped> memory;
    std::shared_ptr<memory::cuda::Devices> devices;
  };
  // What a peer has handed over, until it is used.
  struct Waiting {
    std::shared_ptr<const Parcel> parcel;
    Deadline until{};
  };
  struct Peer {
    PeerId id;
    std::shared_ptr<Socket> socket;
    std::shared_ptr<PeerMemory> memory;
    Consumer requests;
    Producer replies;
    std::unordered_map<uint32_t, std::shared_ptr<ClientMemory>> windows;
    std::unordered_map<uint32_t, DeviceShare> devices = {};
    uint32_t device_key_next = device_key_first;
    std::map<uint32_t, Waiting> waiting = {};  // by number
    bool active = true;                        // polled; else its doorbell is watched
    bool heard = true;                         // since the last check for idle peers
    unsigned rings = 0;                        // since its last message
    bool removed = false;
  };

  void joined(PeerId peer, std::shared_ptr<Socket> socket, SharedRegion region, Fd doorbell) override;
  void memory_shared(PeerId peer, uint32_t key, std::shared_ptr<ClientMemory> memory,
                     const ControlMessage& reply) override;
  void memory_withdrawn(PeerId peer, uint32_t key, const ControlMessage& reply) override;
  void handed_over(PeerId peer, uint32_t number, std::shared_ptr<const Parcel> parcel,
                   const ControlMessage& reply) override;
  void gone(PeerId peer) override;

  Peer* find(PeerId peer);
  static Result<void> check_permit(const Peer& peer, const WindowKey& key, Access access);
  size_t serve(Peer& peer);
  void wake(Peer& peer);
  void violated(Peer& peer, const char* what);
  void remove(Peer& peer, bool tell);
  void activate(Peer& peer);
  void make_room();
  void demote_idle();
  void sweep();
  bool falls_asleep(Peer& peer);
  bool wakes_up(Peer& peer);
  void wait_for_doorbells();
  void rung(PeerId peer);
  void look_aside();
  void forget_parcels(Deadline first);

  Core& core_;
  const Options options_;
  OnMessage on_message_;
  OnGone on_gone_;
  Doorbells doorbells_;
  boost::asio::posix::stream_descriptor rung_;  // the doorbells' descriptor
  boost::asio::steady_timer look_aside_;        // for sets of doorbells that are put aside
  bool looks_aside_ = false;
  boost::asio::steady_timer forget_parcels_;
  bool forgets_parcels_ = false;  // the timer runs
  std::unordered_map<PeerId, std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> active_;
  std::vector<std::unique_ptr<Peer>> removed_;  // until they are not in use
  std::vector<std::byte> message_;              // the private copy for on_message
  std::shared_ptr<CopyQueue> copies_ = std::make_shared<CopyQueue>();
  size_t turns_ = 0;
  size_t hand_ = 0;  // of the clock algorithm in make_room(), over active_
  bool polling_ = false;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
  std::unique_ptr<LocalListener> listener_;
};

}  // namespace verbena::fabric::local
