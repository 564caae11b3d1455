// The client's end of the same-host transport.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "fabric/device.h"
#include "fabric/local/control.h"
#include "fabric/local/local.h"
#include "fabric/local/pool.h"
#include "fabric/local/shared_region.h"

namespace verbena::fabric::local {

// State that outlives the link while memory is lent: the socket (to notice the server's end), the shared region, and
// the owners of permits.
class Lending {
 public:
  Lending(Fd socket, SharedRegion region);

  int socket() const { return socket_.get(); }
  SharedRegion& region() { return region_; }
  bool server_is_gone() const;

  struct Held {
    uint32_t slot;
    uint32_t generation;
  };
  // slow_down when permits_max windows are lent already.
  Result<Held> permit(Access access);
  // The server begins no operation in the window from now on. One may be in progress: is_used().
  void end_permit(Held held);
  bool is_used(Held held);
  // Returns when the server does not touch the window any more and will not again.
  void withdraw(Held held) { static_cast<void>(withdraw(held, Deadline::max())); }
  // False: at `until` it still may. The permit is then never used again.
  bool withdraw(Held held, Deadline until);

 private:
  Fd socket_;
  SharedRegion region_;
  std::mutex mutex_;
  std::vector<uint32_t> generations_;
  std::vector<uint16_t> free_;
};

class LocalLink final : public Link, public DeviceLink {
 public:
  LocalLink(std::shared_ptr<Lending> lending, Fd server_doorbell, Fd own_doorbell, const Options& options,
            size_t message_size_max);

  std::string_view provider() const override { return "local"; }
  std::string address() const override { return {}; }
  size_t message_size_max() const override { return message_size_max_; }

  Result<void> send(Bytes message) override;
  Result<size_t> poll(const OnMessage& handler) override;
  void wait(Deadline deadline) override;
  void wake() override;

  Result<std::unique_ptr<Lent>> lend(MutableBytes memory, Access access) override;
  Result<std::shared_ptr<MutableBytes>> allocate(size_t size) override { return pool_->allocate(size); }
  Result<std::unique_ptr<Lent>> lend_device(const DeviceLoan& loan, Access access) override;
  Result<uint32_t> hand_over(std::span<const int> descriptors) override;

 private:
  struct SharedSlab {
    std::weak_ptr<Slab> slab;
    uint32_t key;
  };

  bool may_go_on() const;
  bool spin(Deadline deadline) const;
  void sleep(Deadline deadline);
  Result<void> drain_socket(uint32_t request, ControlMessage* reply);
  void take_late(const ControlMessage& reply);
  // The request's number.
  Result<uint32_t> tell(ControlMessage request, std::span<const int> descriptors = {});
  Result<ControlMessage> ask(ControlMessage request, std::span<const int> descriptors = {});
  Result<ControlMessage> await(uint32_t request, Deadline deadline);
  void await_withdrawals(Deadline deadline);
  Result<uint32_t> share(const std::shared_ptr<Slab>& slab);
  void withdraw_freed();

  std::shared_ptr<Lending> lending_;
  Fd server_doorbell_;
  Fd own_doorbell_;
  const std::chrono::microseconds spin_for_;
  const std::chrono::milliseconds reply_timeout_;
  std::set<uint32_t> withdrawn_;  // withdrawals of slabs that are not answered
  const size_t message_size_max_;
  Control& control_;
  Producer requests_;
  Consumer replies_;
  std::shared_ptr<Pool> pool_;
  std::map<uint64_t, SharedSlab> shared_;  // by slab id
  // Slabs whose share was not answered in time, by slab id: each has a place at the server, unless it was refused.
  struct LateSlab {
    std::weak_ptr<Slab> slab;
    uint32_t request;
  };
  std::map<uint64_t, LateSlab> late_;
  uint32_t request_next_ = 1;
  size_t blocked_size_ = 0;  // of the message that found the ring full; 0: none
  size_t idle_polls_ = 0;
  bool closed_ = false;
  std::atomic<bool> woken_{false};
};

}  // namespace verbena::fabric::local
