// A fabric link that only owns windows. Providers make progress only inside calls, including the server's operations on
// our memory: the thread that waits for the answer to a window's request makes these calls while it waits. Used by one
// thread at a time.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/polite_spin.h"
#include "client/peer_memory.h"
#include "fabric/fabric.h"
#include "fabric/readable.h"
#include "net/meanwhile.h"

namespace verbena::client {

class WindowLink final : public net::Meanwhile {
 public:
  explicit WindowLink(std::unique_ptr<fabric::Link> link)
      : link_(std::move(link)),
        readable_(dynamic_cast<fabric::ReadableLink*>(link_.get())),
        address_(link_->address()) {}

  // Lends memory until the handle is destroyed: afterwards no operation on it begins. If no answer shows that those
  // which had begun have ended, revoke() ends them.
  // `device`: `memory` is a part of that window, else of the host. unsupported: the provider does not reach it.
  Result<std::unique_ptr<fabric::Lent>> lend(MutableBytes memory, fabric::Access access,
                                             const PeerWindow* device = nullptr);
  Sleep run() override;

  bool reaches_devices() const { return client::reaches_devices(*link_); }
  std::string provider() const { return std::string(link_->provider()); }
  const std::string& address() const { return address_; }

 private:
  std::unique_ptr<fabric::Link> link_;
  fabric::ReadableLink* readable_;  // the same; null: it is none
  std::string address_;
  PoliteSpin spin_;
  Deadline last_progress_{};
};

}  // namespace verbena::client
