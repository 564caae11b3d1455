// A connection to a Ceph cluster: librados's asynchronous calls as tasks. A call may be made on any core and resumes
// there; the number of calls in flight and the duration of each are bounded.
#pragma once

#include <rados/librados.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/lease_clock.h"
#include "base/result.h"
#include "base/task.h"

namespace verbena::store::rados {

using Buffer = librados::bufferlist;

struct ClusterOptions {
  std::string conf;  // ceph.conf; empty: where Ceph looks for it
  std::string user = "admin";
  std::string pool, index_pool;      // for bytes, may be erasure-coded; for rows, must be replicated
  std::string name_space;            // in both pools: one store each; empty: the default one
  std::chrono::seconds timeout{10};  // of one call
};

Buffer to_buffer(std::string_view bytes);
std::string to_text(Buffer& buffer);

// Maps librados's error codes. Failures of the cluster are service_unavailable.
Error to_error(int code, const char* what);

class Cluster {
 public:
  // Below librados's limits of 1,024 calls and 100 MiB, beyond which it blocks its caller.
  static constexpr size_t calls_max = 512;
  static constexpr size_t bytes_max = 64 * MiB;
  static constexpr size_t waiters_max = 16'384;

  // Blocks. The error is a sentence for users.
  static std::expected<std::unique_ptr<Cluster>, std::string> connect(const ClusterOptions& options);
  ~Cluster();  // call after all calls have ended
  Cluster(const Cluster&) = delete;

  enum class Pool : uint8_t { index, data };
  // Both return librados's code: negative is an errno. A write is done wholly or not at all; after -ETIMEDOUT it may
  // still be done later. `reply`: the buffers that `op` writes into, held until librados has released them. `bytes`:
  // the size of the call's payload, beyond rows. Calls without payload do not wait behind calls that wait for room.
  // `version`: a part of `reply`; gets the object's version, which every change of the object raises.
  Task<int> read(Pool pool, std::string object, librados::ObjectReadOperation op, std::shared_ptr<void> reply,
                 size_t bytes = 0, uint64_t* version = nullptr);
  Task<int> write(Pool pool, std::string object, librados::ObjectWriteOperation op, size_t bytes = 0);
  // Whether this server may change anything: it knows the format that the others write, and learned that not too long
  // ago (rows/formats.h). While it may not, write() is refused before it is sent (-EROFS), whatever it is part of.
  void allow_writes_until(LeaseClock::time_point end) {
    may_write_until_.store(end.time_since_epoch().count(), std::memory_order_relaxed);
  }
  bool may_write() const { return may_write(LeaseClock::now()); }
  bool may_write(LeaseClock::time_point now) const {
    return now.time_since_epoch().count() < may_write_until_.load(std::memory_order_relaxed);
  }
  // Likewise, but never refused: for what only takes this server's own signs away.
  Task<int> withdraw(std::string object, librados::ObjectWriteOperation op);

  // Any other call with a completion.
  using Start = std::function<int(librados::AioCompletion*)>;
  Task<int> call(Start start, std::shared_ptr<void> keep, size_t bytes = 0);
  // Likewise for a notify, which librados itself waits for while an OSD is away. -unanswered: it took longer than
  // `most`; the contents of `keep` then belong to librados and must not be read.
  static constexpr int unanswered = ETIME;
  Task<int> call_within(std::chrono::milliseconds most, Start start, std::shared_ptr<void> keep);
  // Blocks until every started call has ended.
  void wait_until_idle();
  // From now on no call waits for its turn; some of those that wait may never resume.
  void close();
  bool is_closing() const { return closing_.load(std::memory_order_relaxed); }

  librados::Rados& handle() { return rados_; }
  librados::IoCtx& context(Pool pool) { return pool == Pool::index ? index_ : data_; }
  const ClusterOptions& options() const { return options_; }
  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }  // so far

 private:
  struct Call;
  explicit Cluster(ClusterOptions options) : options_(std::move(options)) {}
  Task<int> make_call(Start start, std::shared_ptr<void> keep, size_t bytes,
                      std::optional<std::chrono::milliseconds> most, uint64_t* version = nullptr);
  Start start_of(Pool pool, std::string object, librados::ObjectWriteOperation op);
  Task<bool> enter(size_t bytes);
  void leave(size_t bytes);
  void wake();  // the calls that fit; mutex_ is held
  static void completed(librados::completion_t, void* call);

  const ClusterOptions options_;
  librados::Rados rados_;
  librados::IoCtx index_, data_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<LeaseClock::rep> may_write_until_{LeaseClock::time_point::max().time_since_epoch().count()};

  struct Waiter {
    size_t bytes;
    std::function<void()> go;
    uint64_t came;
  };
  bool fits(size_t bytes) const {
    return closing_ || (in_flight_ < calls_max && (bytes_ == 0 || bytes_ + bytes <= bytes_max));
  }
  std::deque<Waiter>& queue_of(size_t bytes) { return bytes == 0 ? row_waiters_ : byte_waiters_; }
  bool may_enter(size_t bytes) { return fits(bytes) && queue_of(bytes).empty(); }
  std::mutex mutex_;                  // guards all members below
  size_t in_flight_ = 0, bytes_ = 0;  // admitted calls
  size_t started_ = 0;                // the started calls among them
  std::atomic<bool> closing_{false};  // set under mutex_
  std::condition_variable idle_;
  std::deque<Waiter> row_waiters_, byte_waiters_;
  uint64_t came_ = 0;
};

}  // namespace verbena::store::rados
