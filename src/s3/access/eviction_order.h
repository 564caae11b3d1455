// The order in which a bounded bucket evicts its objects. Used under the lock of its owner.
//
// s3-fifo: new objects enter a small queue of a tenth of the bytes; those that were read there go on to the main queue,
// the others are evicted, and their keys remembered: one that comes back enters the main queue. There, an object that
// was read goes around again (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023). lru: the
// object that was not read for longest. ttl: the object whose end is next; of those without an end the oldest, after
// all that have one. Objects that the owner names by the end of their keys are kept by each, as far as there is room
// for such.
//
// No call takes more than a bounded number of steps, however many objects there are: what needs more is called again.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "s3/access/left_keys.h"
#include "s3/access/order_memory.h"

namespace verbena::s3 {

enum class EvictionPolicy : uint8_t { s3_fifo, lru, ttl };

class EvictionOrder {
 public:
  struct Object {
    std::string key;
    uint64_t size = 0;
    int64_t time_us = 0;     // when it was written
    int64_t end_us = 0;      // 0: none
    int64_t renewed_us = 0;  // when its end was put off last; 0: never. Of an object of before a start
  };
  // Objects that are never next: those whose keys end with `suffix` (empty: none), the first that come, up to the
  // limits.
  struct Kept {
    std::string suffix{};
    uint64_t bytes_max = 0, objects_max = 0;
  };
  explicit EvictionOrder(EvictionPolicy policy) : EvictionOrder(policy, Kept{}) {}
  // Its objects are charged to `memory`.
  EvictionOrder(EvictionPolicy policy, Kept kept, OrderShare memory = {});

  // Other settings. What was ordered by another policy or suffix is put into the new order by arrange(), in the order
  // in which it was; until then it is counted, and evicted after all that is in the new order.
  void change(EvictionPolicy policy, Kept kept);
  // Other limits; what is beyond them can be evicted. The suffix stays.
  void limit_kept(uint64_t bytes_max, uint64_t objects_max);
  bool arrange(size_t steps);  // false: all is in the new order
  bool forget(size_t steps);   // empties it; false: it is empty

  uint64_t bytes() const { return bytes_; }
  uint64_t objects() const { return by_key_.size(); }

  void put(const Object& object);  // new, or replaced
  // An object that is older than all others; ignored if the key is there.
  void put_oldest(Object object);
  void change_end(std::string_view key, int64_t end_us);
  void erase(std::string_view key);
  // False: no such object.
  bool read(std::string_view key);
  std::optional<uint64_t> size_of(std::string_view key) const;  // nullopt: no such object
  // Whether an object that comes now is one of those that are never next.
  bool is_kept(std::string_view key, uint64_t size) const;
  // The next object for which `is_pinned` is false. It is counted until erase(), and not returned again before
  // give_back(). Takes at most `steps`, and counts down by those that it took: one for each object that it looked at.
  // Nullopt: if steps are left, all are pinned, or leaving; else the next call goes on. Pinned ones are set aside, and
  // looked at again when nothing else is left, or after look_again().
  std::optional<Object> next(const std::function<bool(std::string_view key)>& is_pinned, size_t& steps);
  void look_again(size_t max);  // puts at most so many that were set aside back into the order
  void give_back(const Object& victim);
  void correct(const Object& real);        // a victim's size or times, before give_back()
  void forget_left(std::string_view key);  // a victim that was there no more

 private:
  struct Queue;
  struct Node {
    Object object;
    Queue* in = nullptr;
    uint8_t reads = 0;
  };
  using Nodes = std::list<Node>;
  using Place = Nodes::iterator;
  struct Queue {
    Nodes nodes{};
    uint64_t bytes = 0;
    bool before = false;  // of earlier settings
    bool empty() const { return nodes.empty(); }
  };
  using QueuePtr = std::unique_ptr<Queue>;  // nodes point to it
  static constexpr uint8_t reads_max = 3;

  bool is_ordered(Place place) const { return place->in == small_.get() || place->in == main_.get(); }
  void move(Place place, Queue& to);
  Object leave(Place place);
  std::optional<Place> look_at();  // the object to look at next; nullopt: none
  // Whether the object at its turn is the next one; else it is moved on.
  bool is_next(Place place, const std::function<bool(std::string_view)>& is_pinned);
  void arrange_one(Place place);
  bool enter(Place place);
  void replace(Place place, const Object& object);
  void remember(std::string_view key);
  bool was_here(std::string_view key) const;
  using ByEnd = std::set<std::pair<int64_t, const Node*>>;
  static std::pair<int64_t, const Node*> end_of(Place place) { return {place->object.end_us, &*place}; }

  EvictionPolicy policy_;
  OrderShare memory_;
  using ByKey = std::unordered_map<std::string_view, Place>;
  ByKey by_key_;  // names lie in the nodes
  // Of objects that went, for those that come: in a full bucket each one that comes needs memory that another one had.
  static constexpr size_t spare_max = 128;
  Nodes spare_;
  std::vector<ByKey::node_type> spare_keys_;
  Kept kept_rule_;
  QueuePtr small_, main_, leaving_, aside_, kept_;
  std::list<QueuePtr> before_;    // of earlier settings, the oldest first
  ByEnd ends_;                    // of ttl: those with an end in the queues small and main
  std::list<ByEnd> ends_before_;  // of earlier settings, to be forgotten
  size_t around_ = 0;             // objects that went around in the main queue since one left
  size_t aside_seen_ = 0;         // objects set aside that were looked at again since one left
  uint64_t bytes_ = 0;            // of all
  LeftKeys left_;                 // of the small queue
};

}  // namespace verbena::s3
