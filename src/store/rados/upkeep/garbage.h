// Removes bytes that no row names any more, when no server of the cluster reads them.
//
// Every few seconds every server reports the oldest era that it has readers of. A server with blobs to remove records
// the current era and begins the next one; a reader that may have seen the blobs belongs to that era or an earlier one,
// so they are removed when no server has readers guards the following members eras any more. The change that releases a
// blob writes a row for it in its tablet (layout.h), so that after a crash any server finds it. A server that was
// silent for a while is not waited for: its readers get errors, never other bytes.
//
// Its sign of life is removed then, as a fence: a server that finds its own sign gone begins a new incarnation. Unnamed
// blobs of an earlier incarnation may have been removed by a repair (repair.h), so no change may name them any more.
// The next incarnation begins when its first sign is stored: blobs written before that belong to the earlier one.
//
// Blobs left by other servers are looked for when a process starts, and by the leader every few minutes and when a
// server is gone.
//
// A server that may not run (rows/formats.h) removes nothing and has no sign of life: others wait for no reader here.
//
// What cannot be read or removed, because an OSD is down or a row damaged, is put aside and tried again: it does not
// stop the removal of anything else. Only a swept bucket's own object waits for its tablets, which it names.
//
// Three tasks on the store's own thread: one renews the sign of life, and one looks for what others have left, however
// long the third one's removals take.
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
#include "base/lease_clock.h"
#include "store/blobs.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

// A server's sign of life in the servers' object.
std::string server_row(uint64_t incarnation);
// Declares a server dead that was silent for so long, if its sign is still the one that was seen. Returns whether it
// was.
Task<Result<bool>> forget_server(Registry& registry, std::string row, std::string seen);

class Garbage {
 public:
  static constexpr std::chrono::seconds beat{2};            // between two signs of life
  static constexpr std::chrono::seconds silence_max{30};    // after which a server is declared dead
  static constexpr std::chrono::seconds sign_wait{15};      // wait for a sign that a change depends on
  static constexpr std::chrono::seconds rounds_every{600};  // interval of looking for blobs left by others
  static constexpr std::chrono::seconds aside_for{60};      // a bucket that could not be looked into
  static constexpr size_t failures_max = 4;                 // in one pass, each of which may take a call's time-out

  struct Helpers {
    // Whether this server looks for blobs left by others.
    std::function<bool()> is_leader;
    // Further work in each tablet then; gets the living servers.
    std::function<Task<Result<void>>(BucketPtr bucket, size_t tablet, std::set<uint64_t> living)> look_into_tablet;
    // Saves rows that outlive their tablet, which is being removed.
    std::function<Task<Result<void>>(uint64_t bucket, std::map<std::string, std::string> rows)> rescue;
    // Gets all rows of the servers' object every few seconds, and when the own sign among them was begun.
    std::function<Task<Result<void>>(const std::map<std::string, std::string>& rows, LeaseClock::time_point since)>
        look_at_formats;
    // Called on the leader when a server was declared dead, or has gone.
    std::function<void()> server_gone;
  };
  Garbage(Registry& registry, boost::asio::io_context& io, uint64_t incarnation, Helpers helpers);

  // A hold on the current era: keep it as long as blobs seen meanwhile are read.
  std::shared_ptr<const void> hold();
  // Call after the change. Thread-safe, like all functions here.
  void add(const std::string& tablet, const std::vector<BlobRef>& blobs);
  // Discards a blob that no row ever named and that therefore has no reader.
  void discard(uint64_t blob, uint64_t size);
  // Call after run(): removes what was discarded since.
  Task<> remove_discarded();
  // Removes the tablets of a removed bucket, and the blobs that they name.
  void sweep(uint64_t bucket);

  // Call before the first blob.
  Task<Result<void>> sign_in();
  Task<> sign_out();    // so that others need not wait for this server's silence
  Task<> run_signs();   // until stop(), which removes the sign
  Task<> run();         // likewise
  Task<> run_rounds();  // likewise
  void stop();

  // The current incarnation's number. A blob belongs to the incarnation in which it was begun.
  uint64_t life() const { return life_.load(); }
  // Whether a change may name, for the first time, a blob of that incarnation. `read_at`: when the bucket was read,
  // whose epoch guards the change. Waits for a sign that was begun after that and is stored. A server that declares
  // this one dead does so later and then raises the epoch: either it sees the change, or the change fails. This does
  // not depend on any clock.
  Task<bool> may_name(uint64_t life, Deadline read_at);

  // Whether blobs left by others were looked for, and everything added so far is removed or waits for readers of this
  // process. Says nothing of buckets that could not be looked into.
  bool settled() {
    const uint64_t added = added_.load();
    if (rounds_.load() == 0) return false;
    return settled_.load() == added || (blocked_.load() == added && oldest() <= blocked_era_.load());
  }
  bool full() const { return full_.load(std::memory_order_relaxed); }  // a pool or the cluster is full
  uint64_t backlog() const { return backlog_.load(std::memory_order_relaxed); }
  uint64_t incarnation() const { return incarnation_; }
  // Number of looks for blobs left by others; one follows soon after a server was lost.
  uint64_t rounds() const { return rounds_.load(); }

 private:
  struct Entry {
    std::string tablet;  // with the rows for these blobs; empty: no rows
    std::vector<BlobRef> blobs;
    bool whole_tablet = false;
    uint64_t bucket = 0;  // not 0: of a swept bucket; not `whole_tablet`: its last one, which removes its own object
  };
  struct Batch {
    uint64_t era;
    std::vector<Entry> entries;
  };
  struct Sign {
    uint64_t beat;
    SteadyClock::duration silent{};  // for so long it was looked for and not replaced
  };

  void push(Entry entry);
  void note_removed(const Entry& entry);
  bool is_queued(const std::string& tablet);
  bool is_queued(uint64_t swept_bucket);
  uint64_t oldest();
  Task<Result<void>> pass();
  Task<Result<uint64_t>> begin_era();
  Task<Result<void>> sign();
  Task<Result<void>> look_at_signs();
  Task<Result<void>> forget_silent(const std::map<std::string, std::string>& silent, uint64_t& least);
  void note_gone();
  Task<Result<void>> exchange_signs();
  Task<Result<void>> wait_outside();
  Task<Result<void>> remove(const Entry& entry);
  Task<Result<void>> remove_blob(const BlobRef& blob);
  Task<Result<void>> try_discarded();
  Task<Result<void>> remove_due();
  bool waits_for_tablets(const Entry& entry) const;
  Task<bool> try_failed();
  void report_settled(uint64_t added);
  Task<Result<std::set<uint64_t>>> living();
  Task<Result<void>> look_for_leftovers(bool all);
  Task<Result<void>> look_into_named(std::string name, uint64_t bucket, std::set<uint64_t> living);
  Task<Result<void>> look_into(uint64_t bucket, std::set<uint64_t> living);
  Task<Result<void>> remove_joined(BucketPtr state);
  Task<Result<void>> collect_bucket(uint64_t bucket);
  Task<void> probe_space();

  Registry& registry_;
  const uint64_t incarnation_;
  const Helpers helpers_;
  boost::asio::steady_timer timer_, sign_timer_, round_timer_;
  std::atomic<bool> stopping_{false}, full_{false};
  std::atomic<uint64_t> added_{1}, settled_{0}, blocked_{0}, blocked_era_{0}, backlog_{0}, rounds_{0};
  std::atomic<uint64_t> life_{0};
  std::atomic<Deadline::rep> signed_at_{0};  // start of the last sign that was stored
  std::atomic<bool> sign_wanted_{false};

  std::mutex mutex_;  // of these
  uint64_t era_ = 0;
  std::shared_ptr<const uint64_t> token_;
  std::deque<std::pair<uint64_t, std::weak_ptr<const uint64_t>>> tokens_;
  std::vector<Entry> queue_;
  // What is in entries that wait, here or in batches_ or failed_: blobs with a row of their own, and what goes as a
  // whole.
  std::set<uint64_t> queued_blobs_, queued_buckets_;
  std::set<std::string> queued_tablets_;
  std::vector<BlobRef> discarded_;
  std::vector<uint64_t> sweeps_;

  // Used by the three tasks only.
  std::deque<Batch> batches_;
  std::deque<Entry> failed_;  // without readers, and could not be removed yet
  std::map<std::string, Sign> signs_;
  std::string sign_;                     // as stored in the cluster
  LeaseClock::time_point sign_begun_{};  // the last one that was stored
  bool is_living_ = false;               // the sign is stored, as far as known
  uint64_t beats_ = 0;
  uint64_t least_ = 0;  // the oldest era with readers at the last look
  Deadline next_probe_{}, next_round_{}, looked_at_signs_{};
  bool has_gone_ = false;                        // a server, and the leader has not been told of by this one
  std::map<uint64_t, Deadline> aside_;           // buckets that could not be looked into, and when they are again
  std::map<std::string, Deadline> joined_seen_;  // tablets that were joined with others
};

}  // namespace verbena::store::rados
