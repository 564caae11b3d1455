// Takes away bytes that no row names any more, when no server of the cluster reads them.
//
// Every server tells the oldest era that it has readers of, every few seconds. Who has blobs to remove takes down the
// era of now and begins the next one; a reader that may have seen them belongs to that era or an earlier one, so they
// go when no server has readers of it any more. What is to go has a row in its tablet (layout.h) from the change on
// that killed it, so that after a crash any server finds it. A server that has not been heard of for a while is not
// waited for: its readers get errors, never other bytes.
//
// Its sign is taken away then, and that is a fence: a server that finds its own sign gone begins another life. What it
// wrote in an earlier one and no row names yet may have been removed by a repair (repair.h), so no change takes it any
// more. The next life begins when its first sign is there: what is written before that is of the earlier one, too.
//
// What others left behind is looked for when a process starts, and by the leader every few minutes and
// when a server has gone.
//
// Two tasks on the store's own thread: one tells that this server lives, however long the other one's removals take.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "store/blobs.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

// A server's sign of life in the servers' object.
std::string server_row(uint64_t incarnation);
// A server that was silent for so long is given up, if its sign is still the one that was seen. Whether it was.
Task<Result<bool>> forget_server(Registry& registry, std::string row, std::string seen);

class Garbage {
 public:
  static constexpr std::chrono::seconds beat{2};            // between two signs of life
  static constexpr std::chrono::seconds silence_max{30};    // of a server that is waited for
  static constexpr std::chrono::seconds sign_wait{15};      // for a sign that a change depends on
  static constexpr std::chrono::seconds rounds_every{600};  // looks for what others left behind

  struct Helpers {
    // Is this the server that looks what others left behind?
    std::function<bool()> is_leader;
    // What else there is to do in each tablet then, with the servers that are alive.
    std::function<Task<Result<void>>(BucketPtr bucket, size_t tablet, std::set<uint64_t> living)> look_into_tablet;
    // Rows that outlive their tablet, as it goes.
    std::function<Task<Result<void>>(uint64_t bucket, std::map<std::string, std::string> rows)> rescue;
    // A server has been silent for so long that it is none any more; said by the leader.
    std::function<void()> server_gone;
  };
  Garbage(Registry& registry, boost::asio::io_context& io, uint64_t incarnation, Helpers helpers);

  // Keep it as long as what was seen meanwhile is read.
  std::shared_ptr<const void> hold();
  // After the change. Thread-safe, as all here.
  void add(const std::string& tablet, const std::vector<BlobRef>& blobs);
  // A blob that no row ever named, so that it has no reader.
  void discard(uint64_t blob, uint64_t size);
  // After run(): what was discarded since.
  Task<> remove_discarded();
  // A bucket that is decided to go: its tablets, and what they name.
  void sweep(uint64_t bucket);

  // Before the first blob.
  Task<Result<void>> sign_in();
  Task<> run_signs();  // until stop(); takes the sign back
  Task<> run();        // likewise
  void stop();

  // How often this process signed in. A blob is of the life that it was begun in.
  uint64_t life() const { return life_.load(); }
  // Whether a change may name, for the first time, a blob of that life. `read_at`: of the bucket, whose epoch the
  // change is guarded by. Waits for a sign that was begun after that and has landed: a server that gives this one up
  // does so later and then raises the epoch: either it finds the change, or the change fails. No clock has to be right
  // for that.
  Task<bool> may_name(uint64_t life, Deadline read_at);

  // It was looked what others left, and all that was added so far has gone, or waits for readers of this process.
  bool settled() {
    const uint64_t added = added_.load();
    return settled_.load() == added || (blocked_.load() == added && oldest() <= blocked_era_.load());
  }
  bool full() const { return full_.load(std::memory_order_relaxed); }  // a pool, or the cluster
  uint64_t backlog() const { return backlog_.load(std::memory_order_relaxed); }
  uint64_t incarnation() const { return incarnation_; }
  // Looks for what others left behind so far; one comes soon after a server was lost.
  uint64_t rounds() const { return rounds_.load(); }

 private:
  struct Entry {
    std::string tablet;  // whose rows say that the blobs go; empty: none do
    std::vector<BlobRef> blobs;
    bool whole_tablet = false;
    uint64_t bucket = 0;  // not 0: the last of a swept bucket's
  };
  struct Batch {
    uint64_t era;
    uint64_t added;  // as `added_` was
    std::vector<Entry> entries;
  };
  struct Sign {
    uint64_t beat;
    Deadline seen;
  };

  void push(Entry entry);
  uint64_t oldest();
  Task<Result<void>> pass();
  Task<Result<uint64_t>> begin_era();
  Task<Result<void>> sign();
  Task<Result<void>> look_at_signs();
  Task<Result<void>> exchange_signs();
  Task<Result<void>> remove(const Entry& entry);
  Task<Result<void>> remove_blob(const BlobRef& blob);
  Task<Result<void>> try_discarded();
  Task<Result<std::set<uint64_t>>> living();
  Task<Result<void>> look_for_leftovers();
  Task<Result<void>> look_into(uint64_t bucket, std::set<uint64_t> living);
  Task<Result<void>> collect_bucket(uint64_t bucket);
  Task<void> probe_space();

  Registry& registry_;
  const uint64_t incarnation_;
  const Helpers helpers_;
  boost::asio::steady_timer timer_, sign_timer_;
  std::atomic<bool> stopping_{false}, full_{false};
  std::atomic<uint64_t> added_{1}, settled_{0}, blocked_{0}, blocked_era_{0}, backlog_{0}, rounds_{0};
  std::atomic<uint64_t> life_{0};
  std::atomic<Deadline::rep> signed_at_{0};  // when the last sign that landed was begun
  std::atomic<bool> sign_wanted_{false};

  std::mutex mutex_;  // of these
  uint64_t era_ = 0;
  std::shared_ptr<const uint64_t> token_;
  std::deque<std::pair<uint64_t, std::weak_ptr<const uint64_t>>> tokens_;
  std::vector<Entry> queue_;
  std::vector<BlobRef> discarded_;
  std::vector<uint64_t> sweeps_;

  // Of the two tasks alone.
  std::deque<Batch> batches_;
  std::map<std::string, Sign> signs_;
  std::string sign_;        // as it was left in the cluster
  bool is_living_ = false;  // with a sign there, as far as is known
  uint64_t beats_ = 0;
  uint64_t least_ = 0;  // the oldest era that anybody reads, as it was at the last look
  Deadline next_probe_{}, next_round_{};
};

}  // namespace verbena::store::rados
