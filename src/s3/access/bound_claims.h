// Room of a bounded bucket that writes have claimed, or wait for. Used under the lock of its Bound.
//
// A claim names its key: an overwrite takes only what it has more than the object that it replaces, and that object is
// not evicted to make room for it. The account follows the object: once it has the new size, the claim takes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::s3 {

struct BoundRoom {
  uint64_t bytes = 0, objects = 0;
  bool operator==(const BoundRoom&) const = default;
};

// Of one write. Stays where it is while it waits.
struct BoundWish {
  std::string key;
  uint64_t bytes = 0;
  bool appends = false;  // `bytes` are added to the object
  enum class State : uint8_t { fresh, waits, claimed };
  State state = State::fresh;
  uint64_t refused_at = 0;  // the worker's looks that had begun then
};

class BoundClaims {
 public:
  using Held = std::optional<uint64_t>;  // the size of the key's object; nullopt: none

  const BoundRoom& taken() const { return taken_; }  // by claims, beyond what their objects have
  // What the claim would take more.
  BoundRoom needs(const BoundWish& wish, Held held) const;
  void wait(BoundWish& wish);
  void claim(BoundWish& wish, Held held);
  void end(BoundWish& wish);
  void held_changed(std::string_view key, Held held);
  void count_again(const std::function<Held(std::string_view key)>& held_of);

  bool has(std::string_view key) const { return by_key_.contains(key); }  // claimed, or waited for
  bool is_claimed(std::string_view key) const;
  // In the order of their first refusals.
  const std::list<BoundWish*>& waiting() const { return waiting_; }

 private:
  struct OfKey {
    size_t wishes = 0, claims = 0;
    uint64_t whole = 0, added = 0;  // of claims: the largest new object, and the bytes of appends
    BoundRoom taken{};
    Held held{};  // of the object, if there are claims
  };
  static void add(OfKey& of, const BoundWish& wish);
  static BoundRoom room_of(const OfKey& of, Held held);
  void count(OfKey& of);
  OfKey& of_key(const std::string& key);

  using ByKey = std::map<std::string, OfKey, std::less<>>;
  ByKey by_key_;
  static constexpr size_t spare_max = 128;
  std::vector<ByKey::node_type> spare_;  // memory of claims that ended, for those that come
  std::list<BoundWish*> waiting_;
  BoundRoom taken_;
};

}  // namespace verbena::s3
