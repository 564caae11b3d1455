// The microsecond PUT: what `memory` buckets acknowledged from memory and the index does not know yet.
//
// A small object that comes in one piece, without conditions, to a bucket with Durability::memory and without versions
// is acknowledged as soon as it is in here. A thread takes what waited for a moment, writes the bytes to the volumes
// and hands the heads to the committer. An overwrite of a key that still waits replaces it: what was overwritten in
// memory never costs a write. Until the index has an object, look-ups find it here; it leaves in the very transaction
// that brings it into the index, so that nobody ever sees an older one after a newer one.
//
// Everything else that concerns a key or a bucket first waits until what was acknowledged before it is in the index
// (settle), or shuts the way in for as long as it takes (Early::Shut). What is in here is bounded; when it is full,
// when the disk refuses writes, or when the bucket is shut, put() declines and the PUT takes the way through the index.
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
#include "store/local/blob_writer.h"
#include "store/logic/early.h"

namespace verbena::store::local {

// One acknowledged object. Immutable; shared by the table, the writing thread and readers.
struct Acknowledged {
  std::shared_ptr<const Bucket> bucket;
  std::string key;
  ObjectInfo info;
  memory::Chunk bytes;
  size_t held_bytes = 0;  // bytes of memory
  uint64_t sequence = 0;  // in the order of the acknowledgements, from 1; what replaces a waiting one has its number
  SteadyClock::time_point since{};  // when that number was given
  uint64_t told_after = 0;          // BucketFeed::committed() when this was told
};
using AcknowledgedPtr = std::shared_ptr<const Acknowledged>;

// Reads it where it lies.
std::shared_ptr<ObjectReader> open_acknowledged(AcknowledgedPtr object);

class WriteBehind final : public Early {
 public:
  static constexpr size_t entries_max = 16'384;

  explicit WriteBehind(Engine& engine);
  ~WriteBehind() override { stop(); }

  void start();
  // Writes everything that waits, then declines for ever. Logs what could not be written.
  void stop();
  // Blocks until what was acknowledged so far is in the index, or could not be written.
  void flush();

  std::optional<ObjectInfo> put(const std::shared_ptr<const Bucket>& bucket, std::string_view key, ObjectInfo& info,
                                memory::Chunk& bytes) override;
  std::shared_ptr<ObjectReader> open(const Bucket& bucket, std::string_view key) const override;
  std::optional<ObjectInfo> stat(const Bucket& bucket, std::string_view key) const override;
  Task<Result<void>> settle(std::shared_ptr<const Bucket> bucket, std::string key) override;
  Task<Result<void>> settle(std::shared_ptr<const Bucket> bucket) override;

 private:
  using Clock = SteadyClock;
  using Batch = std::vector<AcknowledgedPtr>;
  struct Waiter {
    uint64_t upto = 0;
    std::shared_ptr<const void> who;
    std::function<void()> wake;
  };
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
  };
  struct Written;  // one of a batch, on its way into the index

  void shut(const Bucket& bucket, bool is) override;
  AcknowledgedPtr find(const Bucket& bucket, std::string_view key) const;
  void loop();
  bool hurried_locked() const { return !waiting_.empty() && waiting_.begin()->first <= hurry_upto_; }
  bool due_locked(Clock::time_point now) const;
  Clock::time_point due_at_locked() const;  // of the first that waits
  Batch take_batch_locked();
  void write(Batch batch);
  Result<WrittenBlob> write_blob(const Acknowledged& object);
  Result<Run> write_run(Bytes bytes);
  void in_index(const Acknowledged& object);              // on the committer's thread, inside the transaction
  void failed(AcknowledgedPtr object, const Error& why);  // waits for another try, or is lost
  void tell_again_locked(const Acknowledged& object) const;
  void forget_locked(const Acknowledged& object);  // of the table, if it is the newest of its key
  uint64_t settled_upto_locked() const;
  void wake_settled(std::unique_lock<std::mutex> lock);
  Task<Result<void>> wait_for(uint64_t upto);

  Engine& engine_;
  const size_t bytes_max_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, settled_;
  // The newest of each key, by bucket id and key. All below is guarded by mutex_.
  std::unordered_map<std::string, AcknowledgedPtr, NameHash, std::equal_to<>> newest_;
  std::map<uint64_t, AcknowledgedPtr> waiting_;  // by sequence
  std::map<uint64_t, AcknowledgedPtr> writing_;  // taken by the thread, not yet in the index
  std::deque<Waiter> waiters_;
  size_t bytes_ = 0;
  uint64_t last_sequence_ = 0;
  uint64_t hurry_upto_ = 0;  // somebody waits for these, or they are too many; what comes later has its own time
  bool stopping_ = false, sleeps_ = false;
  bool trouble_ = true;   // the disk refused something of the last batch; until start(), too
  bool refused_ = false;  // it did so in this batch
  std::thread thread_;
  std::unique_ptr<std::byte[]> staging_memory_;  // of the thread
  MutableBytes staging_;

  metrics::Gauge& bytes_gauge_;
  metrics::Counter& taken_;
  metrics::Counter& replaced_;
  metrics::Counter& lost_;
};

}  // namespace verbena::store::local
