#include "native/range_fan_out.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <vector>

#include "native/sinks.h"
#include "rdma/token_windows.h"
#include "s3/objects/send.h"

namespace verbena::native {
namespace {

constexpr size_t workers_max = 32;  // ranges in flight at once, per request: as deep as disks like their queues

struct FanOut {
  FanOut(boost::asio::any_io_executor executor, s3::Service& service, const s3::OpenObject& object)
      : service(service), object(object), done(executor) {
    done.expires_at(SteadyClock::time_point::max());
  }
  s3::Service& service;
  s3::OpenObject object;
  std::shared_ptr<fabric::Window> window;
  std::chrono::milliseconds deadline{};
  std::vector<wire::Placed> ranges;
  std::vector<uint64_t> places;  // where in the window each begins
  size_t next = 0;
  size_t running = 0;
  Result<void> outcome;
  boost::asio::steady_timer done;  // cancelled by the last worker
};

// Ends with its coroutine, however that ends.
struct Running {
  explicit Running(std::shared_ptr<FanOut> f) : fan(std::move(f)) {}
  Running(const Running&) = delete;
  ~Running() {
    if (--fan->running == 0) fan->done.cancel();
  }
  std::shared_ptr<FanOut> fan;
};

Task<Result<void>> send_one(FanOut& fan, size_t i) {
  s3::OpenObject part = fan.object;
  part.offset = fan.ranges[i].offset;
  part.length = fan.ranges[i].length;
  rdma::WindowSink sink(std::make_unique<WindowPart>(fan.window, fan.places[i], part.length), fan.deadline);
  co_return co_await send_drained(fan.service, part, sink);
}

Task<void> work(std::shared_ptr<FanOut> fan) {
  Running running(fan);
  while (fan->next < fan->ranges.size() && fan->outcome) {
    auto pushed = co_await send_one(*fan, fan->next++);
    if (!pushed && fan->outcome) fan->outcome = pushed;
  }
}

}  // namespace

Task<Result<void>> send_drained(s3::Service& service, const s3::OpenObject& object, rdma::WindowSink& sink,
                                RequestTrace* trace) {
  auto pushed = co_await s3::send_object(service, object, sink, trace);
  if (!pushed) (void)co_await sink.finish();
  co_return pushed;
}

Task<Result<void>> send_ranges(s3::Service& service, const s3::OpenObject& object,
                               const wire::Few<wire::Placed, wire::ranges_max>& ranges,
                               std::unique_ptr<fabric::Window> window, std::chrono::milliseconds deadline) {
  auto executor = co_await boost::asio::this_coro::executor;
  auto fan = std::make_shared<FanOut>(executor, service, object);
  fan->window = std::move(window);
  fan->deadline = deadline;
  uint64_t place = 0;
  for (const wire::Placed& range : ranges) {
    fan->ranges.push_back(range);
    fan->places.push_back(place);
    place += range.length;
  }
  fan->running = std::min<size_t>(workers_max, fan->ranges.size());
  for (size_t i = fan->running; i > 0; --i) boost::asio::co_spawn(executor, work(fan), boost::asio::detached);
  while (fan->running > 0) co_await fan->done.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  co_return fan->outcome;
}

}  // namespace verbena::native
