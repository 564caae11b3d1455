// What a hot tier asks of an engine whose keys other processes change, too.
//
// What was read once may be answered again when the engine says that it is still so, which is a question to others.
// A key that is *kept* needs none: nobody changes it before this process was told and has let it go, or has been silent
// for so long that it knows by its own clock that it may answer nothing any more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/task.h"
#include "store/store.h"

namespace verbena::store {

class SharedKeys {
 public:
  virtual ~SharedKeys() = default;

  // As Store::open() of the current object; null: it is the one that had this stamp (ObjectInfo::stamp).
  virtual Task<Result<std::shared_ptr<ObjectReader>>> open_unless(std::string_view bucket, std::string_view key,
                                                                  uint64_t stamp) = 0;

  // The term in which this process answers for what it keeps; 0: it answers for nothing just now. What was kept in a
  // term may be answered while that is the term. Cheap; for any thread.
  virtual uint64_t term() const = 0;
  // Keeps a key whose object still has this stamp. `kept` is run once it is, on any thread, with the term; it is never
  // run where that cannot be had, for now or at all. Whoever lets go of the object meanwhile has to do so for good:
  // what is found later is another one.
  virtual void keep(std::string_view bucket, std::string_view key, uint64_t stamp,
                    std::function<void(uint64_t term)> kept) = 0;

  // Told on any thread, and others wait for its return: it must not wait itself.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void let_go(std::string_view bucket, std::string_view key) = 0;
    virtual void let_go_of_bucket(std::string_view bucket) = 0;
    virtual void let_go_of_all() = 0;
    // How many objects it answers for in that term: for people.
    virtual uint64_t kept(uint64_t term) const = 0;
  };
  // One, or null: nobody. It is not told any more when the call has returned.
  virtual void listen(Listener* listener) = 0;
};

}  // namespace verbena::store
