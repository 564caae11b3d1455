// Many reads of one bucket for one caller: rights that hold for all objects of the bucket are checked once, and again
// when the bucket's record or the caller's rights have changed.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "s3/access_generation.h"
#include "s3/service.h"

namespace verbena::s3 {

class Bound;

class HotReads {
 public:
  HotReads() = default;
  // `caller` and `bucket` must outlive it; the caller's value may change meanwhile.
  HotReads(Service& service, const Call& caller, std::string_view bucket)
      : service_(&service), caller_(&caller), bucket_(bucket) {}

  // What is known of a key at once. The object is one that lies in memory as it is sent, where the caller may read all
  // of the bucket: what the first look of an ObjectRead of a request that says nothing but the name would open.
  enum class Answer : uint8_t {
    undecided,  // an ObjectRead has to look
    absent,     // not in memory, and that is what an ObjectRead would find
    present,
  };
  struct Found {
    Answer answer = Answer::undecided;
    std::shared_ptr<store::ObjectReader> object{};
  };
  Found find(std::string_view key);

  // Whether find() of any key would look in memory.
  bool looks_in_memory();

  // Of an object that was found in memory. After looks_in_memory().
  void note_read(std::string_view key, const store::ObjectInfo& seen) const {
    if (bound_ != nullptr) note_bounded_read(key, seen);
  }

 private:
  bool may_read_all();
  void note_bounded_read(std::string_view key, const store::ObjectInfo& seen) const;

  Service* service_ = nullptr;
  const Call* caller_ = nullptr;
  std::string_view bucket_;
  // The last result of may_read_all() and its inputs; empty: none yet.
  bool all_ = false;
  std::shared_ptr<Bound> bound_{};  // of the bucket; null: none
  AccessGeneration::Mark record_{};
  uint64_t credentials_ = 0;
};

}  // namespace verbena::s3
