// The server's end of memory that a client lent for a request.
#pragma once

#include <memory>

#include "fabric/fabric.h"

namespace verbena::fabric::tcp {

class Connection;

class TcpWindow final : public Window {
 public:
  // Sent within the call, and copied if the socket does not take it all.
  static constexpr size_t at_once_max = 256 * KiB;

  TcpWindow(std::shared_ptr<Connection> connection, const WindowDescriptor& lent, Access access)
      : connection_(std::move(connection)), lent_(lent), access_(access) {}

  uint64_t size() const override { return lent_.size; }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline deadline) override;
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline deadline) override;
  size_t immediate_size_max() const override;
  Result<void> write_all_now(std::span<const Write> writes) override;

 private:
  Result<void> check(Access wanted, size_t size, uint64_t at) const;

  std::shared_ptr<Connection> connection_;
  WindowDescriptor lent_;
  Access access_;
};

}  // namespace verbena::fabric::tcp
