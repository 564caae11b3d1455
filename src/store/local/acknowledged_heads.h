// The newest acknowledged object of each key in the order of keys, as of now and as of every moment that a listing
// still reads. To take a moment copies nothing, and a page passes the objects that it shows, however many others wait.
// An object that leaves, or is replaced, is kept as long as such a moment has it. Thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace verbena::store::local {

struct Acknowledged;
using AcknowledgedPtr = std::shared_ptr<const Acknowledged>;

class AcknowledgedHeads : public std::enable_shared_from_this<AcknowledgedHeads> {
 public:
  // One bucket as of one moment.
  class AsOf {
   public:
    AsOf(std::shared_ptr<AcknowledgedHeads> heads, uint64_t bucket, uint64_t moment)
        : heads_(std::move(heads)), bucket_(bucket), moment_(moment) {}
    AsOf(const AsOf&) = delete;
    ~AsOf() { heads_->end(bucket_, moment_); }

    uint64_t bucket() const { return bucket_; }
    AcknowledgedPtr find(std::string_view key) const;
    // The first ones whose keys are not before `from`, in order. Fewer than `most`: there are no more.
    std::vector<AcknowledgedPtr> first(std::string_view from, size_t most) const;

   private:
    const std::shared_ptr<AcknowledgedHeads> heads_;
    const uint64_t bucket_, moment_;
  };

  // The object is the newest of its key from now on.
  void set(const AcknowledgedPtr& object);
  // Its key has none from now on.
  void erase(const Acknowledged& object);
  std::shared_ptr<const AsOf> now(uint64_t bucket);

  // How many keys readers have passed so far, and how many objects are kept for moments alone.
  uint64_t passed() const;
  size_t kept() const;

 private:
  static constexpr uint64_t for_ever = std::numeric_limits<uint64_t>::max();
  static constexpr size_t passed_at_once = 256;  // with the mutex held

  // Seen by the moments from `from` on, up to and without `until`.
  struct Version {
    AcknowledgedPtr object;
    uint64_t from = 0, until = for_ever;
  };
  struct Head {
    Version newest;              // without an object: it has left
    std::vector<Version> older;  // kept for moments
    const Version* as_of(uint64_t moment) const;
  };
  using Heads = std::map<std::string, Head, std::less<>>;
  struct OfBucket {
    Heads heads;
    std::map<uint64_t, size_t> moments;    // readers of each
    std::vector<Heads::iterator> changed;  // those with older ones
    bool empty() const { return heads.empty() && moments.empty(); }
    bool is_seen(const Version& version) const;
  };
  using Freed = std::vector<AcknowledgedPtr>;  // destroyed when the mutex is free

  void retire(OfBucket& bucket, Heads::iterator head, Freed& freed);
  void end(uint64_t bucket, uint64_t moment);
  // Adds what the moment has of some keys from `from` on. False: there are no more; else `from` is where to go on.
  bool read(uint64_t bucket, uint64_t moment, std::string& from, size_t most, std::vector<AcknowledgedPtr>& found);

  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, OfBucket> buckets_;  // by id
  uint64_t changes_ = 0;                            // so far: the number of this moment
  uint64_t passed_ = 0;
};

}  // namespace verbena::store::local
