// Copies the buckets of one store into another, whichever engines the two have: records as they are (ids and with them
// names of versions, times, tags, locks, attributes), and bytes by readers that verify them on the way. What was
// encrypted stays as it is.
//
// Nothing else changes either store meanwhile, so what is read key by key and page by page is of one moment. A bucket
// that is not all there has the document `unfinished_mark`, and is not copied itself; one that was begun is gone on
// with, key by key: what is there as it should be stays. What users have made of it since is never overwritten: then it
// is refused.
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
  uint64_t keys_there = 0;                                               // that were as they should be
  uint64_t buckets_there = 0;                                            // that an earlier run had finished
  uint64_t id_max = 0;                                                   // of all that was met
};

class Transfer {
 public:
  struct Options {
    // Nobody has used the target yet: buckets that are finished are compared key by key, too, and what is there and
    // should not be is taken away.
    bool look_again = false;
    size_t keys_at_once = 16;
    std::function<void(const std::string& bucket, const TransferCounts&)> tell = [](const auto&, const auto&) {};
  };
  // Both outlive it.
  Transfer(EngineStore& source, EngineStore& target, Options options)
      : source_{source, source.context()}, target_{target, target.context()}, options_(std::move(options)) {}

  // On one executor. bucket_already_exists: the target has one of that name that did not come from here.
  // conditional_conflict: somebody has changed it since an earlier run was broken off, it is not all there itself, or
  // it has parts under an id that another one of the source has, too.
  Task<Result<TransferCounts>> run();
  const std::string& where() const { return where_; }  // the bucket or the key that it failed at

 private:
  struct Side {
    Store& store;
    const std::shared_ptr<Context> context;
  };
  using BucketRef = std::shared_ptr<const Bucket>;
  struct Pair {
    BucketRef source, target;
    std::string done{};  // an earlier run had brought all keys below this one
  };
  Result<void> check_source(const std::vector<BucketInfo>& buckets);
  Result<void> check_target(const std::vector<BucketInfo>& buckets);
  // Null: it was finished earlier.
  Task<Result<std::optional<Pair>>> begin_bucket(BucketInfo info);
  Task<Result<void>> copy_bucket(Pair pair);
  Task<Result<void>> copy_documents(Pair pair);
  Task<Result<void>> copy_document(Pair pair, std::string name);
  Task<Result<void>> copy_keys(Pair pair);
  Task<Result<void>> check_usage(const std::string& bucket);
  // A page of keys that either side has.
  Task<Result<KeyPage>> next_keys(Pair pair, std::string from);

  struct Work;
  Task<> worker(std::shared_ptr<Work> work);
  Result<void> check_keys(const Pair& pair, const std::string& key, const KeyRows& wanted, const KeyRows& there);
  Task<Result<void>> copy_key(Pair pair, std::string key);
  Task<Result<void>> copy_version(Pair pair, std::string key, KeyRows::Version version, bool current, bool null);
  Task<Result<void>> copy_upload(Pair pair, std::string key, KeyRows::Upload upload);
  Task<Result<void>> clear_key(BucketRef bucket, std::string key, KeyRows rows, std::vector<uint64_t> begun);
  // The bytes, with the row that `put` makes of where they are.
  using Put = std::function<Result<void>(Transaction&, const BlobRef&)>;
  Task<Result<BlobRef>> copy_bytes(Pair pair, std::string key, BlobRef from, Put put);
  Task<Result<void>> commit(BucketRef bucket, std::string key, Judge judge, std::shared_ptr<BlobWriter> blob = {});

  const Side source_, target_;
  const Options options_;
  TransferCounts counts_;
  std::unordered_set<uint64_t> with_parts_;  // ids of all that was met
  std::string where_;
};

}  // namespace verbena::store
