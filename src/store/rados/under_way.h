// Changes of buckets while they are made. Before one is committed every server hears that it is coming and marks the
// bucket: from then on it answers nothing of it from memory, but reads it in the cluster, where all see the same. When
// it is over every server reads the bucket once more and keeps it again. README.md says why there is no gap.
#pragma once

#include <boost/asio/io_context.hpp>

#include <functional>
#include <memory>
#include <string>

#include "store/rados/key_locks.h"
#include "store/rados/marks.h"
#include "store/rados/registry.h"

namespace verbena::store::rados {

class UnderWay final : public std::enable_shared_from_this<UnderWay> {
 public:
  struct Helpers {
    std::function<Task<Result<void>>(Notice)> tell;            // returns when every server has heard
    std::function<Task<Result<void>>(std::string name)> read;  // the bucket of that name into memory, as it is now
    std::function<Task<Result<void>>()> read_all;              // likewise all of them
    std::function<void(std::string_view name)> forget_kept;    // its objects that are answered from memory
    std::function<void()> on_change;                           // what others keep of buckets is old
    std::function<bool()> fresh;
  };
  UnderWay(Registry& registry, boost::asio::io_context& io, std::chrono::milliseconds mark_lasts, Helpers helpers)
      : registry_(registry), io_(io), mark_lasts_(mark_lasts), helpers_(std::move(helpers)) {}

  // A change that this server makes: for one call of those below after the other.
  struct Making {
    Mark mark{};
    bool told = false;    // others may have marked the bucket
    bool unsure = false;  // it was sent to the cluster, which did not say what became of it
    ChangeCharges::Held charge{};
  };
  // Returns when no server answers for the bucket from memory. To be called again when the change is judged anew.
  // service_unavailable: a server did not take note, and nothing may be changed; slow_down.
  struct Coming {
    uint64_t bucket = 0, epoch = 0;  // Mark's
    std::string name{}, owner{};
    bool renames = false;
  };
  Task<Result<void>> before(Making& making, Coming coming);
  // `done`: what became of it. Returns when every server answers with that, and what is to be answered.
  Task<Result<void>> after(Making& making, Result<void> done);

  // What others tell. limit_exceeded: there are too many marks.
  Task<Result<void>> hear(Notice notice);
  std::string told() const { return encode(marks_.list()); }  // for who begins to watch
  bool take(const std::vector<Mark>& marks);                  // false: there are too many
  void set_all(bool marked) { marks_.set_all(marked); }

  // What is known of the bucket may be answered and kept.
  bool is_sure(std::string_view name) const { return !marks_.has(name); }
  bool is_marked(uint64_t bucket) const { return marks_.has(bucket); }
  // What is known of a marked bucket is, when this returns, what it was after the call.
  Task<Result<void>> settle(std::string name);
  Task<Result<void>> settle_all();  // likewise of all buckets
  const Marks& marks() const { return marks_; }

  // To be called all the time, on the thread of `io`: ends marks whose end nobody tells.
  void look();
  void stop() { stopping_ = true; }
  // Nobody is woken any more who waits for another's reading: when the engine's calls have ended.
  void close() { readings_.close(); }

 private:
  Task<Result<void>> read_once(std::string name);  // empty: all of them
  Task<> end_old();
  Task<Result<void>> end_one(Mark mark);
  Task<Result<void>> forbid(Mark mark);

  Registry& registry_;
  boost::asio::io_context& io_;
  const std::chrono::milliseconds mark_lasts_;
  const Helpers helpers_;
  Marks marks_;
  ChangeCharges charges_;
  KeyLocks readings_;
  std::atomic<bool> stopping_{false};
  bool ending_ = false;  // on the thread of `io` alone
};

}  // namespace verbena::store::rados
