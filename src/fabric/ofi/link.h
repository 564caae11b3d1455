// The client's end: one endpoint for messages, windows registered one by one.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "fabric/ofi/domain.h"
#include "fabric/ofi/message_endpoint.h"
#include "fabric/ofi/ofi.h"
#include "fabric/readable.h"

namespace verbena::fabric::ofi {

// Shared by the Link and the memory it lent, so that either may be destroyed first. The lock lets a Lent end on another
// thread than the one that polls (its owner's progress thread).
struct LinkState {
  std::recursive_mutex mutex;
  std::unique_ptr<Domain> domain;
  std::shared_ptr<MutableBytes> memory;
  std::unique_ptr<MessageEndpoint> messages;  // null once the Link is gone
};

class OfiLink final : public Link, public PeerLink, public ReadableLink {
 public:
  static Result<std::unique_ptr<OfiLink>> open(const Options& options, std::string_view server_address);
  ~OfiLink() override;

  std::string_view provider() const override { return state_->domain->provider(); }
  std::string address() const override { return name_; }
  size_t message_size_max() const override { return message_size_max_; }
  Result<void> send(Bytes message) override;
  Result<size_t> poll(const OnMessage& handler) override;
  void wait(Deadline deadline) override;
  int sleep_fd() override;
  Result<std::unique_ptr<Lent>> lend(MutableBytes memory, Access access) override;
  Result<std::shared_ptr<MutableBytes>> allocate(size_t size) override;
  bool reaches_devices() const override { return state_->domain->reaches_devices(); }
  Result<std::unique_ptr<Lent>> lend_peer(const PeerLoan& loan, Access access) override;

 private:
  OfiLink() = default;
  Result<void> check_open() const;

  std::shared_ptr<LinkState> state_ = std::make_shared<LinkState>();
  std::string name_;
  size_t message_size_max_ = 0;
  std::optional<fi_addr_t> server_;
};

}  // namespace verbena::fabric::ofi
