// cuObject's own descriptors, over dynamically connected (DC) queue pairs (docs/dialects.md): no handshake comes before
// a request. Untried on hardware.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/blocking.h"
#include "memory/arena.h"
#include "rdma/dc/device.h"
#include "rdma/dialect.h"
#include "rdma/peer_rule.h"
#include "rdma/rc/first_use.h"
#include "rdma/rc/places.h"
#include "rdma/rc/turns.h"

namespace verbena::rdma::dc {

// Thread-safe.
class Descriptors final : public Dialect {
 public:
  struct Options {
    // Initiators that serve a request, and so how many the device has.
    rc::Places::Limits initiators{.all_max = 64, .account_max = 32, .client_max = 32};
    std::chrono::milliseconds settle = fabric::ofi::Options().settle;  // as Channel's
  };
  // Device::open(), with its `but` and `make_room`.
  using OpenDevice =
      std::function<Result<std::shared_ptr<Device>>(std::string_view but, const Device::MakeRoom& make_room)>;
  // `networks`: as FabricTokenWindows::Options. bad_config: one of them is no network.
  static Result<std::unique_ptr<Descriptors>> create(const std::vector<std::string>& networks, OpenDevice open_device,
                                                     const Options& options);
  ~Descriptors() override;

  bool serves(TokenForm form) const override { return form == TokenForm::cuobject; }
  // Waits for the device's first use, and for the network where its client's port is not known yet.
  Task<Result<std::unique_ptr<fabric::Window>>> open(const Token& token, TokenClient client,
                                                     fabric::Access access) override;

  // Ends the work of its threads, as rc::Endpoint::end_work().
  bool end_work(std::chrono::milliseconds at_most);

 private:
  Descriptors(OpenDevice open_device, const Options& options);
  using DevicePtr = std::shared_ptr<Device>;
  struct Closing;
  struct Close;
  // The device in use, perhaps none, and how many were opened up to it.
  struct Current {
    DevicePtr device;
    uint64_t opened = 0;
  };
  Current current() {
    const std::lock_guard lock(mutex_);
    return current_;
  }
  Task<Result<DevicePtr>> device();
  Task<Result<DevicePtr>> usable(DevicePtr device);
  Result<void> open_another();
  Result<void> end_current();
  Result<Destination> destination(const DcTarget& target, const rc::PortState& port, std::string_view http_peer) const;
  Result<Destination> by_lid(const DcTarget& target, const rc::PortState& port) const;
  Task<Result<Path>> path(DevicePtr device, Destination to, rc::Payer payer);
  Task<Result<std::unique_ptr<Initiator>>> initiator(DevicePtr device);

  static constexpr unsigned threads = 2;
  static constexpr size_t waiting_max = 256;
  static constexpr rc::Turns::Limits turn_limits{};
  OpenDevice open_device_;
  Options options_;
  PeerRule rule_;
  rc::Places places_;
  rc::Turns turns_{turn_limits};
  rc::FirstUse opening_;
  std::weak_ptr<Device> ending_;  // under opening_: the one before, while requests use it
  std::mutex mutex_;
  std::shared_ptr<Closing> closing_;
  Current current_;
  BlockingPool pool_;  // destroyed before the device
  BlockingPool network_pool_;
};

}  // namespace verbena::rdma::dc
