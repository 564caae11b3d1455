// The microsecond PUT: objects that are acknowledged before the index has them. Those of `memory` buckets are in memory
// then; those of `sync` buckets, where the store has persistent memory, are in a log there, too (pmem_log.h).
//
// A small object that arrives in one piece, without conditions, for a bucket without versions is acknowledged as soon
// as it is in the table here; in a `sync` bucket, as soon as the log has it, too. A thread takes what has waited for a
// moment, writes the bytes to the volumes and passes the heads to the committer. An overwrite of a key that still waits
// replaces it: an object overwritten in memory never costs a write. Until the index has an object, look-ups find it
// here; it leaves in the same transaction that brings it into the index, so that no reader ever sees an older one after
// a newer one.
//
// What a bucket holds at one moment is this table before the index, for look-ups of a key as for listings (moment()). A
// change that was judged beneath an object of its key is not seen: it counts as made just before that object was
// acknowledged. So no change of a key becomes visible in the index together with an object that is written behind
// (Mutation::written_behind): it would be newer, and the table would hide it until the object has left.
//
// The log and the index agree on the order of a key's changes. The log has the objects of a key in the order in which
// the table got them: one is appended at a time (append_mutex_). A change through the committer was either acknowledged
// before the object, or waits until the object is in the index (settle); then the log's record is marked, durably,
// before the change is judged, because both happen on the thread of the durable queue. A change that was judged beneath
// the object counts as made before it. So a start brings back exactly the records that have no mark, over whatever the
// index has of their keys. To bring one back twice does no harm.
//
// Every other operation on a key or a bucket first waits until everything acknowledged before it is in the index
// (settle), or shuts the table for its bucket while it runs (Early::Shut). Two need not: a listing, which takes what is
// here from here; and the removal of an object that waits, which is committed together with the object's head, so that
// its bytes are never written (write_behind_removal.cc). The table is bounded; when it is full, when the disk refuses
// writes, or when the bucket is shut, put() declines and the PUT goes through the index.
//
// An object that the index refuses for a reason of its own is stuck: one of the log, if a row of its key is damaged or
// cannot be read; one that memory alone has, in the second case only. It is read from here and tried again from time to
// time. Its bucket stays shut until then, and what waits for it is told at once that it takes too long. The other
// objects, and other buckets, do not wait for it (write_behind_stuck.cc).
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/metrics.h"
#include "store/catalogue.h"
#include "store/local/acknowledged_heads.h"
#include "store/local/blob_writer.h"
#include "store/local/pmem_log.h"
#include "store/logic/early.h"

namespace verbena::store::local {

// One acknowledged object. Immutable; shared by the table, the writing thread and readers.
struct Acknowledged {
  std::shared_ptr<const Bucket> bucket;
  std::string key;
  ObjectInfo info;
  memory::Chunk bytes;
  size_t held_bytes = 0;            // bytes of memory
  uint64_t sequence = 0;            // order of the acknowledgements, from 1; a replacement takes over the number
  SteadyClock::time_point since{};  // when that number was assigned
  uint64_t told_after = 0;          // BucketFeed::committed() at its report
  uint64_t after = 0;               // sequence of the key's object before it, which was on its way; 0: none was
  mutable std::optional<uint64_t> place{};  // in the log; changes only while it is stuck, on the thread
  bool brought_back = false;                // from the log, at the start: the index may have it
};

// A reader of the acknowledged memory. The arena outlives it.
std::shared_ptr<ObjectReader> open_acknowledged(AcknowledgedPtr object, memory::Arena& arena);
// These rows with the heads of acknowledged objects before them, as of the same moment.
std::unique_ptr<Moment> with_acknowledged(std::unique_ptr<Moment> rows,
                                          std::shared_ptr<const AcknowledgedHeads::AsOf> heads);

class WriteBehind final : public Early {
 public:
  static constexpr size_t object_size_max = 1 * MiB;  // of `memory` buckets
  static constexpr size_t entries_max = 16'384;
  static constexpr size_t batch_max = 256;                          // objects in one step: a group of the committer
  static constexpr auto try_again_after = std::chrono::seconds(1);  // what disk or index refused

  explicit WriteBehind(Engine& engine);
  ~WriteBehind() override { stop(); }

  // Before start(): objects of the log that the index may not have. Those of buckets that are gone are dropped.
  Result<void> bring_back(std::vector<PmemLog::Found> objects);
  void start();
  // Writes everything that waits, then declines for ever. Logs objects that could not be written.
  void stop();
  // Blocks until everything acknowledged so far is in the index, or could not be written.
  void flush();

  size_t size_max(const Bucket& bucket) const override;
  std::optional<ObjectInfo> put(const std::shared_ptr<const Bucket>& bucket, std::string_view key, ObjectInfo& info,
                                memory::Chunk& bytes) override;
  std::shared_ptr<ObjectReader> open(const Bucket& bucket, std::string_view key) const override;
  std::optional<ObjectInfo> stat(const Bucket& bucket, std::string_view key) const override;
  std::unique_ptr<Moment> moment(const Bucket& bucket, View& rows) const override;
  Task<Result<void>> settle(std::shared_ptr<const Bucket> bucket, std::string key) override;
  Task<Result<void>> settle(std::shared_ptr<const Bucket> bucket) override;
  Task<void> thin_out(std::shared_ptr<const Bucket> bucket) override;
  Task<Result<bool>> remove(std::shared_ptr<const Bucket> bucket, std::string key, Judge removal) override;

 private:
  using Clock = SteadyClock;
  using Batch = std::vector<AcknowledgedPtr>;
  // For what a caller waits.
  enum class Until : uint8_t {
    settled,
    settled_or_refused,  // by the disk: would_block then
  };
  struct Waiter {
    uint64_t upto = 0;
    Until until = Until::settled;
    std::shared_ptr<const void> who;
    std::function<void(bool settled)> wake;
  };
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
  };
  using Newest = std::unordered_map<std::string, AcknowledgedPtr, NameHash, std::equal_to<>>;
  struct Written;  // a member of a batch

  // What is being appended to the log: not in the table yet, and waited for like what is.
  struct Appending {
    uint64_t sequence = 0;
    std::string name;
  };

  void shut(const Bucket& bucket, bool is) override;
  bool admits_locked(const Bucket& bucket, const Acknowledged& object);
  bool log_object(Acknowledged& object, std::string name, const memory::Chunk& bytes,
                  std::unique_lock<std::mutex>& lock);
  std::optional<uint64_t> append_to_log(const Acknowledged& object, Bytes bytes, bool moves);
  void end_append_locked(const Bucket& bucket);
  void set_time(Acknowledged& object, const Acknowledged* newest) const;
  AcknowledgedPtr insert_locked(const std::shared_ptr<Acknowledged>& object, std::string name, bool has_time);
  void hurry_locked();
  std::optional<ObjectInfo> find_in_index(const Acknowledged& object) const;
  AcknowledgedPtr find(const Bucket& bucket, std::string_view key) const;
  static std::string name_of(const Bucket& bucket, std::string_view key);
  void loop();
  bool hurried_locked() const { return !waiting_.empty() && waiting_.begin()->first <= hurry_upto_; }
  bool ends_log_locked() const { return log_failed_ && waiting_.empty(); }
  bool due_locked(Clock::time_point now) const;
  // At a stop once more: what memory alone has would be lost.
  bool stuck_due_locked(Clock::time_point now) const {
    return !stuck_.empty() && (stopping_ ? !stuck_tried_last_ : now >= stuck_at_);
  }
  void sleep_locked(std::unique_lock<std::mutex>& lock);
  Clock::time_point due_at_locked() const;  // of the first one waiting
  Batch take_batch_locked();
  Batch take_stuck_locked();
  Batch drop_overwritten_locked();
  void try_stuck(std::unique_lock<std::mutex>& lock);
  bool is_still_refused(const Acknowledged& object) const;
  void move_all_in_log();
  void move_in_log(const AcknowledgedPtr& object);
  // Its entry in newest_; the end if there is a newer one, or none.
  Newest::const_iterator find_as_newest_locked(const Acknowledged& object) const;
  bool is_newest_locked(const Acknowledged& object) const { return find_as_newest_locked(object) != newest_.end(); }
  void write(Batch batch);  // and waits until each is in the index, or was refused
  bool end_failed_log();    // whether it is ended
  Result<WrittenBlob> write_blob(const Acknowledged& object);
  bool index_takes_all() const;
  Result<std::vector<Run>> write_runs(VolumeKind kind, Bytes bytes);
  Result<void> write_run(const Run& run, Bytes bytes);
  BlobRef blob_without_bytes(const Acknowledged& object) const;
  // The removal of an object that waits.
  AcknowledgedPtr take_waiting_locked(std::string_view name);
  Mutation removal_of(AcknowledgedPtr object, Judge removal);
  Result<void> remove_with(Transaction& transaction, const AcknowledgedPtr& object, const Judge& removal);
  bool submit_removal(std::string_view name, Judge removal, boost::asio::any_io_executor executor, Committed& done);
  Task<Result<void>> remove_waiting(std::string name, Judge removal);
  void waits_again(const AcknowledgedPtr& object);
  // On the committer's thread, inside the transaction. `stored`: what the index has; null: the object was removed.
  void in_index(const Acknowledged& object, const ObjectInfo* stored);
  // Queued for another try, stuck, or lost. By the judge: the index has a reason of this object's own.
  void failed(AcknowledgedPtr object, const Error& why, bool by_judge);
  // Whether an object that the index refuses for this reason, which is the object's own, is tried again.
  static bool is_kept(const Acknowledged& object, const Error& why);
  void stick_locked(const AcknowledgedPtr& object, const Error& why);
  void free_locked(const Acknowledged& object);  // if it is stuck
  bool is_stuck(const Bucket& bucket, std::optional<std::string_view> key) const;
  Task<Result<void>> settle_key(std::shared_ptr<const Bucket> bucket, std::string key, Until until);
  void tell_again_locked(const Acknowledged& object, const ObjectInfo& stored) const;
  // It is stuck no longer and takes no memory; removes it from the table, if it is the newest of its key.
  void forget_locked(const Acknowledged& object);
  void tell_log(const Acknowledged& object, void (PmemLog::*what)(uint64_t)) const;
  uint64_t settled_upto_locked() const;
  // `refused`: the disk has refused a write.
  void wake_settled(std::unique_lock<std::mutex> lock, bool refused = false);
  void wait_for_removals(std::unique_lock<std::mutex>& lock);
  void note_failed_log_locked();
  Task<Result<void>> wait_for(uint64_t upto, Until until = Until::settled);

  Engine& engine_;
  const size_t bytes_max_;
  // Held from before an object is appended to the log until it is in the table. Taken before mutex_.
  std::mutex append_mutex_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, settled_;
  // The newest of each key, by bucket id and key. All below is guarded by mutex_.
  Newest newest_;
  // The same ones in order, for listings: it changes with newest_.
  const std::shared_ptr<AcknowledgedHeads> heads_ = std::make_shared<AcknowledgedHeads>();
  std::map<uint64_t, AcknowledgedPtr> waiting_;    // by sequence
  std::map<uint64_t, AcknowledgedPtr> writing_;    // taken by the thread or a removal, not yet in the index
  std::map<uint64_t, AcknowledgedPtr> stuck_;      // in neither of the two; each shuts its bucket
  std::unordered_map<uint64_t, size_t> stuck_in_;  // how many, by bucket id
  uint64_t stuck_tried_ = 0;                       // the last one
  bool stuck_tried_last_ = false;                  // all of them, at the stop
  Clock::time_point stuck_at_{};                   // the next try
  std::optional<Appending> appending_;
  std::deque<Waiter> waiters_;
  size_t bytes_ = 0;
  uint64_t last_sequence_ = 0;
  uint64_t hurry_upto_ = 0;  // up to here without delay: a caller waits for these, or they are too many
  bool stopping_ = false, sleeps_ = false;
  bool trouble_ = true;      // the disk refused a write of the last batch; also until start()
  bool refused_ = false;     // in this batch
  bool log_failed_ = false;  // the thread ends the log when nothing waits
  bool log_ended_ = false;   // written by the thread alone
  std::thread thread_;
  std::unique_ptr<std::byte[]> staging_memory_;  // of the thread
  MutableBytes staging_;

  metrics::Gauge& bytes_gauge_;
  metrics::Counter& taken_;
  metrics::Counter& replaced_;
  metrics::Counter& lost_;
  metrics::Counter& logged_;
  metrics::Gauge& log_gauge_;
  metrics::Gauge& stuck_gauge(const Acknowledged& object) const {
    return object.place ? stuck_gauge_ : stuck_behind_gauge_;
  }
  metrics::Gauge& stuck_gauge_;
  metrics::Gauge& stuck_behind_gauge_;
};

// Brings an acknowledged object into the index, with the time in its info or, where the key had a later one, after
// that. The blob's own records are the caller's.
Result<ObjectInfo> put_acknowledged(Transaction& transaction, const Acknowledged& object, const BlobRef& blob);

// Whether what the index has of a key is the object that was acknowledged. Its time there may be later.
bool is_acknowledged_one(const ObjectInfo& stored, const ObjectInfo& told);

}  // namespace verbena::store::local
