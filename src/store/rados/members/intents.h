// Intents: in-flight changes of buckets, by any server. Nothing of a bucket with an intent is served from memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace verbena::store::rados {

// One change of a bucket or of its documents.
struct Intent {
  uint64_t change = 0;  // unique among all changes
  uint64_t bucket = 0;
  // The bucket's epoch when the change was judged: the change cannot be made after a later one. 0: it gives the bucket
  // its name.
  uint64_t epoch = 0;
  std::string name{};
  bool operator==(const Intent&) const = default;
};

std::string encode(const std::vector<Intent>& intents);
Result<std::vector<Intent>> decode_intents(std::string_view bytes);  // corrupt_object

// Notices between servers.
struct Notice {
  enum class Kind : uint8_t {
    changed,  // `bucket` or one of its documents has changed
    intent,   // a change is about to be made
    over,     // it was made, or never will be
    asking,   // asks for the current intents
  };
  Kind kind = Kind::changed;
  uint64_t bucket = 0;   // for `changed`
  Intent intent{};       // for `intent` and `over`
  bool renames = false;  // for `intent`: objects without a version id get one
};
// `changed` is the notice of servers from before intents, which reload everything at a message that they do not know.
std::string encode(const Notice& notice);
Notice decode_notice(std::string_view message,
                     uint64_t unknown);  // `unknown`: the bucket for messages that are not understood

// Thread-safe.
class Intents {
 public:
  static constexpr size_t intents_max = 8192;
  static constexpr size_t of_bucket_max = 16;  // begun by one server

  // Without any intent, the usual case, this costs one load.
  bool has(std::string_view name) const { return any() && find(name); }
  bool has(uint64_t bucket) const { return any() && find(bucket); }
  bool any() const { return count_.load(std::memory_order_acquire) != 0; }
  size_t of(std::string_view name) const;  // number of intents

  // Adds an intent, or updates its epoch and time. False: there are too many.
  bool put(const Intent& intent, Deadline until);
  void end(uint64_t change);
  void postpone(uint64_t change, Deadline until);
  // While the others' intents are unknown, every bucket counts as having one.
  void set_all(bool doubtful);
  std::vector<Intent> list() const;
  std::vector<Intent> over(Deadline now) const;  // intents whose time has passed
  std::vector<std::string> names() const;
  bool all() const;

  // One reload of a bucket with an intent serves all calls that arrived before it began.
  uint64_t next_turn() { return ++turn_; }
  bool was_read(std::string_view name, uint64_t since) const;
  void note_read(const std::string& name, uint64_t begun);

 private:
  static constexpr size_t readings_max = 10'000;
  struct Entry {
    Intent intent;
    Deadline until{};
  };
  bool find(std::string_view name) const;
  bool find(uint64_t bucket) const;
  void count();

  std::atomic<size_t> count_{0};  // including all_
  std::atomic<uint64_t> turn_{0};
  mutable std::shared_mutex mutex_;  // guards the following members
  bool all_ = false;
  std::map<uint64_t, Entry> intents_;  // by change
  std::map<std::string, size_t, std::less<>> names_;
  std::map<uint64_t, size_t> buckets_;
  std::map<std::string, uint64_t, std::less<>> readings_;
};

// Limits the changes of buckets that this server makes at once. An owner gets at most a quarter of the remainder, so
// that no owner's changes block those of others.
class ChangeCharges {
 public:
  static constexpr size_t all_max = 512;

  class Held {
   public:
    Held() = default;
    Held(ChangeCharges* charges, std::string owner) : charges_(charges), owner_(std::move(owner)) {}
    Held(Held&& other) noexcept : charges_(std::exchange(other.charges_, nullptr)), owner_(std::move(other.owner_)) {}
    Held& operator=(Held&& other) noexcept {
      std::swap(charges_, other.charges_);
      std::swap(owner_, other.owner_);
      return *this;
    }
    ~Held() {
      if (charges_ != nullptr) charges_->give_back(owner_);
    }
    explicit operator bool() const { return charges_ != nullptr; }

   private:
    ChangeCharges* charges_ = nullptr;
    std::string owner_;
  };
  Held take(const std::string& owner);  // empty: the limit is reached

 private:
  void give_back(const std::string& owner);
  std::mutex mutex_;
  size_t all_ = 0;  // guarded by mutex_, as the next
  std::map<std::string, size_t> of_owner_;
};

}  // namespace verbena::store::rados
