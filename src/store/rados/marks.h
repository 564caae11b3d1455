// Which buckets are being changed just now, by any server: nothing of those is answered from memory.
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
struct Mark {
  uint64_t change = 0;  // of no two changes the same
  uint64_t bucket = 0;
  // Of the bucket when the change was judged: it cannot be made once there is a later one. 0: it gives the bucket its
  // name.
  uint64_t epoch = 0;
  std::string name{};
  bool operator==(const Mark&) const = default;
};

std::string encode(const std::vector<Mark>& marks);
Result<std::vector<Mark>> decode_marks(std::string_view bytes);  // corrupt_object

// What servers tell each other.
struct Notice {
  enum class Kind : uint8_t {
    changed,  // `bucket` is another one, or one of its documents
    coming,   // the change of the mark is about to be made
    over,     // it was made, or never will be
    asking,   // which marks are there?
  };
  Kind kind = Kind::changed;
  uint64_t bucket = 0;   // of `changed`
  Mark mark{};           // of `coming` and `over`
  bool renames = false;  // of `coming`: objects without a version id get one
};
// `changed` is what servers told each other before there were marks; those read everything at what they do not know.
std::string encode(const Notice& notice);
Notice decode_notice(std::string_view message, uint64_t unknown);  // `unknown`: the bucket of what is not understood

// Thread-safe.
class Marks {
 public:
  static constexpr size_t marks_max = 8192;
  static constexpr size_t of_bucket_max = 16;  // that one server begins

  // Nearly always nothing is marked, and that is one look at a number.
  bool has(std::string_view name) const { return any() && find(name); }
  bool has(uint64_t bucket) const { return any() && find(bucket); }
  bool any() const { return count_.load(std::memory_order_acquire) != 0; }
  size_t of(std::string_view name) const;  // how many

  // One that is there gets this epoch and this time. False: there are too many.
  bool put(const Mark& mark, Deadline until);
  void end(uint64_t change);
  void postpone(uint64_t change, Deadline until);
  // All buckets are as if they were marked, for as long as nobody knows which are.
  void set_all(bool marked);
  std::vector<Mark> list() const;
  std::vector<Mark> over(Deadline now) const;  // whose time has passed
  std::vector<std::string> names() const;
  bool all() const;

  // Who has to read a marked bucket reads for all that wait: who came before a reading has begun needs no other.
  uint64_t next_turn() { return ++turn_; }
  bool was_read(std::string_view name, uint64_t since) const;
  void note_read(const std::string& name, uint64_t begun);

 private:
  static constexpr size_t readings_max = 10'000;
  struct Entry {
    Mark mark;
    Deadline until{};
  };
  bool find(std::string_view name) const;
  bool find(uint64_t bucket) const;
  void count();

  std::atomic<size_t> count_{0};  // with all_ as one
  std::atomic<uint64_t> turn_{0};
  mutable std::shared_mutex mutex_;  // of these
  bool all_ = false;
  std::map<uint64_t, Entry> marks_;  // by change
  std::map<std::string, size_t, std::less<>> names_;
  std::map<uint64_t, size_t> buckets_;
  std::map<std::string, uint64_t, std::less<>> readings_;
};

// How many changes of buckets this server makes at once, so that nobody's are in the way of others': an owner gets no
// more than a quarter of what is left.
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
  Held take(const std::string& owner);  // empty: not now

 private:
  void give_back(const std::string& owner);
  std::mutex mutex_;
  size_t all_ = 0;  // guarded by mutex_, as the next
  std::map<std::string, size_t> of_owner_;
};

}  // namespace verbena::store::rados
