// Copies the buckets of one store into another, whichever engines the two have: records as they are (ids and with them
// names of versions, times, tags, locks, attributes), and bytes by readers that verify them on the way. Encrypted
// objects stay encrypted as they are.
//
// Neither store is changed by others meanwhile, so rows read key by key and page by page are of one moment. An
// incomplete bucket has the document `unfinished_mark`, and is refused as a source. A later run continues an incomplete
// copy, key by key: keys that are right already stay. Changes that users made since are never overwritten: the copy is
// refused.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "store/logic/engine_store.h"
#include "store/logic/key_rows.h"

namespace verbena::store {

inline constexpr std::string_view unfinished_mark = "unfinished-copy";

struct TransferCounts {
  uint64_t buckets = 0, keys = 0, versions = 0, uploads = 0, bytes = 0;  // copied
  uint64_t keys_there = 0;                                               // were right already
  uint64_t buckets_there = 0;                                            // were complete by an earlier run
  uint64_t id_max = 0;                                                   // of all records read
};

class Transfer {
 public:
  struct Options {
    // The target is unused so far: completed buckets are compared key by key, too, and rows that should not be there
    // are removed.
    bool look_again = false;
    // Servers over the target evict from bounded buckets. False: a bucket with a bound is refused.
    bool keeps_bounds = true;
    size_t keys_at_once = 16;
    std::function<void(const std::string& bucket, const TransferCounts&)> tell = [](const auto&, const auto&) {};
  };
  // Both outlive it.
  Transfer(EngineStore& source, EngineStore& target, Options options)
      : source_{source, source.context()}, target_{target, target.context()}, options_(std::move(options)) {}

  // On one executor. bucket_already_exists: the target has one of that name that was not copied from here.
  // conditional_conflict: the copy was changed since an earlier run was interrupted, or the source is incomplete
  // itself, or it has parts under an id that another of its objects has, too. not_implemented: the target does not keep
  // a bucket's bound, or the end of an object or of what an upload will be.
  Task<Result<TransferCounts>> run();
  const std::string& where() const { return where_; }  // the bucket or the key at which it failed

 private:
  struct Side {
    Store& store;
    const std::shared_ptr<Context> context;
  };
  using BucketRef = std::shared_ptr<const Bucket>;
  struct Pair {
    BucketRef source, target;
    std::string done{};  // an earlier run copied all keys below this one
  };
  Result<void> check_source(const std::vector<BucketInfo>& buckets);
  Result<void> check_target(const std::vector<BucketInfo>& buckets);
  enum class BucketState : uint8_t { completed_earlier, to_copy };
  // `pair`: set where there is something to copy.
  Task<Result<BucketState>> begin_bucket(BucketInfo info, Pair& pair);
  Task<Result<void>> copy_bucket(Pair pair);
  Task<Result<void>> copy_documents(Pair pair);
  Task<Result<void>> copy_document(Pair pair, std::string name);
  Task<Result<void>> copy_keys(Pair pair);
  Task<Result<void>> check_usage(const std::string& bucket);
  // A page of keys that exist on either side.
  Task<Result<KeyPage>> next_keys(Pair pair, std::string from);

  struct Work;
  Task<> worker(std::shared_ptr<Work> work);
  Result<void> check_keys(const Pair& pair, const std::string& key, const KeyRows& wanted, const KeyRows& there);
  Task<Result<void>> copy_key(Pair pair, std::string key);
  Task<Result<void>> copy_version(Pair pair, std::string key, KeyRows::Version version, bool current, bool null);
  Task<Result<void>> copy_upload(Pair pair, std::string key, KeyRows::Upload upload);
  Task<Result<void>> clear_key(BucketRef bucket, std::string key, KeyRows rows, std::vector<uint64_t> begun);
  // Copies the bytes, and commits them with the row that `put` makes of their location.
  using Put = std::function<Result<void>(Transaction&, const BlobRef&)>;
  Task<Result<BlobRef>> copy_bytes(Pair pair, std::string key, BlobRef from, Put put);
  Task<Result<void>> commit(BucketRef bucket, std::string key, Judge judge, std::shared_ptr<BlobWriter> blob = {});

  const Side source_, target_;
  const Options options_;
  TransferCounts counts_;
  std::unordered_set<uint64_t> with_parts_;  // ids of all records read
  std::string where_;
};

}  // namespace verbena::store
