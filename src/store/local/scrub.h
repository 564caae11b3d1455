// Finds rot before a reader does: a thread that slowly reads all live bytes and checks them against their checksums. It
// logs and counts damage, and changes nothing. Bytes that could not be read are counted apart: a disk error does not
// say what they are, and when descriptors or memory are short the scrub waits and reads again. A place of the index
// that cannot be read counts as one block, and the scrub goes on behind it, unless the disk refuses all that is behind
// it as well: then it waits, too. Its position is saved in the index, so that it continues after a restart. While
// others use the disk it waits, but not for ever: a store that is never idle is scrubbed, too.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "store/local/keys.h"
#include "store/local/local_store.h"
#include "store/local/record.h"

namespace verbena::store::local {

class Scrub {
 public:
  explicit Scrub(Engine& engine) : engine_(engine) {}
  ~Scrub() { stop(); }

  void start();  // does nothing where Options::scrub_rate is 0
  void stop();
  // A whole round from the beginning, at full speed. Blocks.
  Result<ScrubReport> run_once();

 private:
  // In the index's order: large blobs by their segments, then those in the index.
  struct Position {
    bool in_index = false;
    uint64_t blob = 0;
    uint32_t segment = 0;
  };
  struct Pace {
    bool slow = false;
  };
  void loop();
  Position load() const;
  void save(const Position& at);
  enum class Walk : uint8_t { goes_on, is_over };
  // One step on from `at`, until the round is over.
  Result<Walk> step(Position& at, Pace pace, ScrubReport& report);
  Result<Walk> step_segment(Position& at, Pace pace, ScrubReport& report);
  Result<Walk> step_in_index(Position& at, Pace pace, ScrubReport& report);
  // Goes on behind rows that cannot be read. The error, if there is to be another try.
  Result<Walk> pass(Position& at, const Error& why, ScrubReport& report);
  // Whether the rows from there on can be read; why not.
  Result<void> look(Family family, uint64_t from) const;
  Result<void> check_segment(uint64_t blob, uint32_t number, Pace pace, ScrubReport& report);
  // Blocks found wrong.
  struct Wrong {
    uint64_t damaged = 0, unreadable = 0;
  };
  Result<Wrong> check_extent(const Segment& segment, const Extent& extent, uint64_t start, Pace pace,
                             ScrubReport& report);
  Result<void> read(const Extent& extent, uint64_t done, MutableBytes into);
  void tell(uint64_t blob, const Wrong& wrong, ScrubReport& report);
  static void count(const Wrong& wrong, ScrubReport& report);
  struct Named {  // in this round
    std::optional<uint64_t> last;
    size_t blobs = 0;
  };
  void name(uint64_t blob, const char* what, Named& named, std::vector<std::string>& names, ScrubReport& report);
  static void tell_of_unnamed(const ScrubReport& report);
  std::string name_of(uint64_t blob);
  void rest_after(uint64_t bytes, Pace pace);
  bool wait(std::chrono::nanoseconds time);  // false: the store is closing
  void wait_while_busy();
  bool stopping() {
    std::lock_guard lock(mutex_);
    return stopping_;
  }

  Engine& engine_;
  std::vector<std::byte> memory_;
  Named damaged_, unreadable_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  uint64_t operations_seen_ = 0;
  std::thread thread_;
};

}  // namespace verbena::store::local
