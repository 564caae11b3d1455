// An RDMA device with dynamically connected (DC) queue pairs, as the server uses it: the registered arena, the ways to
// clients' ports, and initiators that are idle.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "rdma/dc/initiator.h"
#include "rdma/rc/port_reading.h"
#include "rdma/rc/rc_window.h"

namespace verbena::rdma::dc {

// A client's port: by its GID (RoCE), or by its LID, perhaps with a GID (InfiniBand).
struct Destination {
  std::optional<rc::Gid> gid{};
  uint16_t lid = 0;
  uint32_t own_index = 0;  // of the server's GID, in its port's table
  auto operator<=>(const Destination&) const = default;
};

// Thread-safe. What it gave out keeps it.
class Device {
 public:
  // What ends another registration of the arena, so that its memory is not locked twice. An error: it goes on.
  using MakeRoom = std::function<Result<void>()>;
  // Opens the first that the choice names and that has such queue pairs and an active port, and registers the arena
  // with it, without access for peers. unsupported: there is none. `verbs` and `arena` outlive it. `but`: not the
  // device of this name. `make_room` is called when one was found, before the arena is registered with it.
  static Result<std::shared_ptr<Device>> open(const Verbs& verbs, const rc::DeviceChoice& choice, memory::Arena& arena,
                                              std::string_view but = {}, const MakeRoom& make_room = {});

  const std::string& name() const { return name_; }
  rc::PortStatePtr port() const { return origin_.port->state(); }
  // Whether the port was up (unsupported: it was not) when it was read, less than a second ago. nullopt: earlier.
  std::optional<Result<void>> known_port() const { return port_.known(); }
  // In a pool: reads the port again if that was a second ago, and ends idle initiators that were so for long or are of
  // an earlier partition or MTU. unsupported: the port is down.
  Result<void> refresh();
  // The device does not do what it is told: another must be opened. A port that is down is no such device's.
  bool is_lost() const { return lost_; }

  // Null: find_path() has not found it, or it was forgotten.
  Path known_path(const Destination& to);
  // In a pool for work that waits for the network: the kernel asks for the address of the link. rdma_not_supported.
  Result<Path> find_path(const Destination& to);
  // A transfer along it failed: it may have changed.
  void forget_path(const Path& path);

  // Null: none is idle.
  std::unique_ptr<Initiator> take_idle();
  // In a pool. unsupported: none is left.
  Result<std::unique_ptr<Initiator>> make_initiator();
  // No operation of it is in flight.
  void give_back(std::unique_ptr<Initiator> initiator);

  rc::OwnMemory own_memory() { return {arena_, region_->lkey}; }

 private:
  struct Known {
    Path path;
    Deadline used_at{};
  };
  struct Idle {
    std::unique_ptr<Initiator> initiator;
    Deadline since{};
  };
  Device(Origin origin, memory::Arena& arena, std::string name)
      : origin_(std::move(origin)), arena_(arena), name_(std::move(name)), region_(nullptr, origin_.verbs.dereg_mr) {}
  Result<void> begin();
  Result<void> look_at_port();
  void end_old();
  void remember(const Destination& to, Path path);
  void remember_failure(const Destination& to);
  void note(int error);

  static constexpr size_t paths_max = 256, failures_max = 64;
  static constexpr std::chrono::seconds failure_is_kept{1}, idle_for{300};

  Origin origin_;
  memory::Arena& arena_;
  std::string name_;
  std::atomic<bool> lost_ = false;
  rc::PortReading port_;
  std::mutex mutex_;
  Handle<ibv_mr> region_;
  std::map<Destination, Known> paths_;
  // Until when each is not asked for again. Apart from the paths, of which one client's failures would take the room.
  std::map<Destination, Deadline> failures_;
  std::deque<Idle> idle_;  // the one that was used last at the end
};

// Of each device of the machine, for `verbena doctor`.
enum class Support : uint8_t { present, absent, unknown };
struct DeviceSupport {
  std::string device;
  Support support = Support::unknown;
  int error = 0;  // errno of what could not be told; 0: libmlx5 is missing
};
std::vector<DeviceSupport> look_at_devices(const Verbs& verbs);

}  // namespace verbena::rdma::dc
