#include "s3/objects/md5_together.h"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace verbena::s3 {
namespace {

// How long a core may compute before it looks at its other work: as for one body that is just too small for a helper.
constexpr size_t bytes_max = 1 * MiB;
// Turns of the loop that a batch waits for another call: a request whose bytes have arrived needs as many, from the
// look at its socket on. A call that was alone makes the next one wait for one turn only: others that are ready come in
// it.
constexpr int turns_without = 3;

using Handler = boost::asio::any_completion_handler<void()>;

// Calls that wait on one thread, for one loop. The loop's job owns it.
class Batch : public std::enable_shared_from_this<Batch> {
 public:
  explicit Batch(boost::asio::any_io_executor loop) : loop_(std::move(loop)) {}

  bool takes_from(const boost::asio::any_io_executor& loop, size_t bytes) const {
    return loop == loop_ && list_.size() < Md5::lanes_max && bytes_ + bytes <= bytes_max;
  }
  void add(Md5::More more, Handler handler) {
    bytes_ += more.bytes.size();
    list_.push_back(more);
    handlers_.push_back(std::move(handler));
  }
  // Once: when it has taken what came together.
  void compute_soon() {
    boost::asio::post(loop_, [batch = shared_from_this()] { batch->turn(); });
  }

 private:
  void turn();
  void compute();

  const boost::asio::any_io_executor loop_;
  std::vector<Md5::More> list_;
  std::vector<Handler> handlers_;  // one for each
  size_t bytes_ = 0;
  size_t had_ = 1;   // calls, at the last turn
  int without_ = 0;  // turns, one behind the other, that brought none
};

struct OfThread {
  std::weak_ptr<Batch> open{};  // it still takes calls
  bool was_alone = true;        // the only call of the last batch
};
OfThread& of_thread() {
  thread_local OfThread mine;
  return mine;
}

void Batch::turn() {
  without_ = std::exchange(had_, list_.size()) == list_.size() ? without_ + 1 : 0;
  const int patience = of_thread().was_alone && list_.size() == 1 ? 1 : turns_without;
  const bool waits = without_ < patience && list_.size() < Md5::lanes_max;
  if (waits) return compute_soon();
  compute();
}

void Batch::compute() {
  if (of_thread().open.lock().get() == this) of_thread().open.reset();
  of_thread().was_alone = list_.size() == 1;
  Md5::update_all(list_);
  for (Handler& handler : std::exchange(handlers_, {})) std::move(handler)();
}

void join(const boost::asio::any_io_executor& loop, Md5::More more, Handler handler) {
  auto batch = of_thread().open.lock();
  if (batch == nullptr || !batch->takes_from(loop, more.bytes.size())) {
    batch = std::make_shared<Batch>(loop);
    of_thread().open = batch;
    batch->compute_soon();
  }
  batch->add(more, std::move(handler));
}

}  // namespace

Task<void> update_md5_together(Md5& md5, Bytes bytes) {
  const boost::asio::any_io_executor loop = co_await boost::asio::this_coro::executor;
  const Md5::More more{&md5, bytes};
  const auto start = [&loop, more](Handler handler) { join(loop, more, std::move(handler)); };
  co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(start, boost::asio::use_awaitable);
}

}  // namespace verbena::s3
