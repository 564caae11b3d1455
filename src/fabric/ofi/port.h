// The server's Port over libfabric, and the CoreFabric that owns it together with the core's data endpoints.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "fabric/ofi/data_pool.h"
#include "fabric/ofi/domain.h"
#include "fabric/ofi/message_endpoint.h"
#include "fabric/ofi/ofi.h"
#include "fabric/ofi/waiter.h"

namespace verbena::fabric::ofi {

class OfiCoreFabric final : public CoreFabric, public Port, public Pollable {
 public:
  static Result<std::unique_ptr<OfiCoreFabric>> open(Core& core, memory::Arena& arena, const Options& options);
  ~OfiCoreFabric() override;

  std::string_view provider() const override { return domain_->provider(); }
  std::string_view device() const override { return domain_->device(); }
  Port& port() override { return *this; }
  Result<std::unique_ptr<Window>> open_window(std::string_view endpoint_name, const WindowDescriptor& lent,
                                              Access access) override;
  size_t data_endpoints() const override { return pool_->endpoints(); }

  void on_message(OnMessage handler) override { on_message_ = std::move(handler); }
  // Called only for peers that are disconnected because they do not read. Other sessions expire.
  void on_gone(OnGone handler) override { on_gone_ = std::move(handler); }
  size_t message_size_max() const override { return messages_->message_size_max(); }
  std::string address() const override { return messages_->name(); }
  Result<PeerId> add_peer(std::string_view address) override;
  void remove_peer(PeerId peer) override;
  Result<void> send(PeerId peer, Bytes message) override { return send_joined(peer, message, {}); }
  Result<void> send_joined(PeerId peer, Bytes first, Bytes second) override;
  bool may_send(PeerId peer) const override;
  Result<std::unique_ptr<Window>> open_window(PeerId peer, const WindowDescriptor& lent, Access access) override;

  size_t poll() override;
  bool busy() const override;
  bool arm() override;
  void disarm() override {}

 private:
  struct Peer {
    std::string name;
    fi_addr_t address;
  };
  explicit OfiCoreFabric(Core& core) : core_(core) {}
  Result<void> listen(const Options& options, const Depths& depths, memory::Arena& arena);
  size_t poll_messages();
  void cut(fi_addr_t address);
  Result<std::string> checked_name(std::string_view claimed) const;

  Core& core_;
  std::unique_ptr<Domain> domain_;
  std::vector<memory::Lease> message_memory_;
  std::unique_ptr<MessageEndpoint> messages_;
  std::unique_ptr<Waiter> waiter_;
  std::unique_ptr<DataPool> pool_;
  OnMessage on_message_;
  OnGone on_gone_;
  std::unordered_map<PeerId, Peer> peers_;
  PeerId next_peer_ = 1;
  bool added_ = false;
  bool untouched_ = false;               // the message endpoint, since arm(): what comes to it fires the waiter
  SteadyClock::time_point next_look_{};  // even so
};

}  // namespace verbena::fabric::ofi
