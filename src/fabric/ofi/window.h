// Window over the data endpoints of a core.
#pragma once

#include <memory>

#include "fabric/fabric.h"
#include "fabric/ofi/transfer.h"

namespace verbena::fabric::ofi {

class DataPool;

class PoolWindow : public Window {
 public:
  PoolWindow(std::shared_ptr<DataPool*> pool, std::shared_ptr<DataPeer> peer, const WindowDescriptor& lent,
             Access access)
      : pool_(std::move(pool)), peer_(std::move(peer)), lent_(lent), access_(access) {}
  ~PoolWindow() override;

  uint64_t size() const override { return lent_.size; }
  bool by_device() const override;
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline deadline) override;
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline deadline) override;

 private:
  Task<Result<void>> move(Access direction, std::byte* local, uint64_t size, uint64_t at, Deadline deadline);

  std::shared_ptr<DataPool*> pool_;  // *pool_ is null once the pool is gone
  std::shared_ptr<DataPeer> peer_;
  WindowDescriptor lent_;
  Access access_;
};

}  // namespace verbena::fabric::ofi
