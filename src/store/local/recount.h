// Counts the contents of buckets whose numbers are missing in the index: in a store of an older program, or in one that
// has lost changes. On a thread of its own, beside everything else; until a bucket is done its changes are added up in
// memory alone, so a server that stops before counts it again.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "store/local/index.h"
#include "store/logic/bucket.h"
#include "store/usage.h"

namespace verbena::store::local {

struct Engine;

struct RecountOptions {
  std::chrono::milliseconds again_after{5000};  // an error that may pass: the queue was full, or the disk
  // The usage of a bucket by its id. Empty: it is counted, row by row.
  std::function<Result<Usage>(uint64_t bucket)> count_by{};
};

class Recount {
 public:
  // Of all buckets that are uncounted now: constructed before the first change.
  explicit Recount(Engine& engine, RecountOptions options = {});
  ~Recount() { stop(); }
  void start();
  void stop();

 private:
  void run();
  // False: a read failed in a way that may pass, so the bucket is to be counted again.
  bool count(const std::shared_ptr<const Bucket>& bucket);
  Result<void> commit(const std::shared_ptr<const Bucket>& bucket, const Usage& usage);
  Result<Usage> usage_of(uint64_t bucket);
  bool stopping_within(std::chrono::milliseconds time);

  Engine& engine_;
  const RecountOptions options_;
  std::vector<std::shared_ptr<const Bucket>> buckets_;
  Index::Snapshot snapshot_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace verbena::store::local
