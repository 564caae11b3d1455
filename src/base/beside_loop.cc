#include "base/beside_loop.h"

#include <boost/asio/execution/context.hpp>
#include <boost/asio/query.hpp>

#include <memory>

namespace verbena {
namespace {

namespace asio = boost::asio;

constexpr size_t waiting_max = 1024;  // each is charged to its client

// All services of a loop are shut down before the first coroutine of it is destroyed.
class ThreadBesideLoop final : public asio::execution_context::service {
 public:
  explicit ThreadBesideLoop(asio::execution_context& loop) : service(loop) {}
  static inline asio::execution_context::id id;
  BlockingPool& pool() {
    if (pool_ == nullptr) pool_ = std::make_unique<BlockingPool>(1, waiting_max);
    return *pool_;
  }

 private:
  void shutdown() override { pool_.reset(); }
  std::unique_ptr<BlockingPool> pool_;
};

}  // namespace

BlockingPool& pool_beside(const asio::any_io_executor& executor) {
  return asio::use_service<ThreadBesideLoop>(asio::query(executor, asio::execution::context)).pool();
}

}  // namespace verbena
