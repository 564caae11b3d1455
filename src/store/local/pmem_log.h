// A log of small objects on persistent memory (persistent_memory.h). An object is durable once append() has returned;
// write_behind brings it into the index afterwards and says so with moved(), and its space is used again.
//
//   0      the mark of a log, its id, its size, and their CRC32C
//   64     the place of the oldest record that counts, with a check of its own: 8 bytes
//   128    a number made of its id while its store has not given it back: 8 bytes
//   4096   a ring of records, each at a multiple of 64 and in one piece
//
// Places count the bytes since the log was made and never repeat; a record's offset is its place modulo the ring's
// size. A record is a header (one line), the key, the object's head and bytes. It counts once its first 8 bytes are
// there, a number made of its place and the log's id, which are stored after all else is durable. So a torn record ends
// the log, and what earlier rounds left there is none. One append is made at a time: no record counts after one that
// does not.
//
// A second number in the header says that the index has the object. A start must not bring such a record back: its key
// may have been changed since. What it brings back of a key is the last record alone.
//
// Damage is told from the log's end, but for one case: if the first 8 bytes of the newest record are overwritten, it is
// a record that was never finished. Of a record whose head or bytes are damaged the header and the key tell which
// object was lost. If those are damaged, nothing tells it.
//
// The records of an older program's log have other headers, but their places and first 8 bytes are as here.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/local/persistent_memory.h"

namespace verbena::store::local {

// Thread-safe, but for recover().
class PmemLog {
 public:
  static constexpr uint64_t bytes_max = 64 * KiB;  // of an object: what one CRC covers, and a core copies in passing
  static constexpr uint64_t head_max = 64 * KiB;   // of its head
  static constexpr uint64_t record_max = bytes_max + head_max + 8 * KiB;  // with its key and header
  static constexpr uint64_t size_min = 1 * MiB;

  struct Record {
    uint64_t bucket = 0;
    int64_t time_us = 0;  // of the object: no two of a key are the same
    std::string_view key, head;
    Bytes bytes;
  };

  explicit PmemLog(std::unique_ptr<PersistentMemory> memory);

  // The id of the log that is there; none: the memory holds no log. corrupt_object: it does, and cannot be used;
  // `trouble` receives why.
  Result<std::optional<uint64_t>> id(std::string& trouble) const;
  // The id of a log of an older program, whose records cannot be read here; none: it is no such log.
  std::optional<uint64_t> older_id() const;
  // Whether nothing counts in it. Before recover() or format().
  bool is_older_empty(uint64_t id);
  // Makes an empty log, which is held. A power cut leaves the old one, this one, or none. io_error.
  Result<void> format(uint64_t id);
  // Whether the store of this log has it, or ended without giving it back. False of older programs' logs.
  bool is_held(uint64_t id) const;
  void hold();       // after recover()
  void give_back();  // its store needs nothing of it any more

  struct Found {
    uint64_t place = 0, bucket = 0;
    int64_t time_us = 0;
    std::string key, head;         // the head is empty if it is damaged
    uint64_t size = 0;             // of the bytes
    std::vector<std::byte> bytes;  // empty if it is lost
    bool lost = false;             // head or bytes are damaged: what was acknowledged cannot be given
  };
  struct Contents {
    std::vector<Found> waiting;       // the index may not have them; the last of each key, in order
    std::vector<std::string> damage;  // sentences: records of which nothing is known, so that any key may miss one
    bool unusable = false;            // must be made anew
  };
  // Reads the log `id`; before the first append(). Changes nothing.
  Contents recover(uint64_t id);
  void free_what_is_over();  // after recover()

  // The record's place, once it is durable; none: no room, or the memory cannot be written.
  // A record that takes an older one's place (`moves`) may use the space that is kept for it: else a full log would
  // stay full.
  std::optional<uint64_t> append(const Record& record, bool moves = false);
  // The index has the record, durably. Before any later change of its key is made.
  void moved(uint64_t place);
  // The log has a later record of the same key.
  void replaced(uint64_t place);

  const PmemPlace& place() const { return memory_->place(); }
  uint64_t size() const { return memory_->size(); }
  bool empty() const;  // nothing waits for the index
  // Whether more than half of the log's space lies behind the record, which keeps all of that in use.
  bool is_old(uint64_t place) const;
  // The memory could not be written: nothing more is appended.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  uint64_t used_bytes() const;

 private:
  struct Header;
  struct Entry {
    uint64_t place = 0, length = 0;
    bool over = false;  // a start needs nothing of it
  };
  struct Seen;  // a record that counts, at the start
  static uint64_t length_of(const Header& header);
  uint64_t word(uint64_t place) const { return (id_ + place) | 1; }
  uint64_t at(uint64_t place) const;
  uint32_t check_of(const Header& header, std::string_view key) const;
  uint32_t check_of(uint64_t place, Bytes bytes) const;
  uint64_t head_word(uint64_t place) const;
  std::optional<uint64_t> load_head() const;
  std::optional<Seen> load_record(uint64_t place) const;
  std::optional<uint64_t> first_word(uint64_t place) const;
  bool counts(uint64_t place) const { return first_word(place) == word(place); }
  uint64_t next_that_counts(uint64_t place) const;
  uint64_t next_record(uint64_t place) const;
  Found load_object(const Seen& seen) const;
  std::string what_is_at(uint64_t place) const;
  std::vector<Seen> walk(Contents& contents);
  bool write(uint64_t place, Header header, const Record& record);
  bool store_durably(uint64_t offset, uint64_t number);
  bool fill_up();
  void end(uint64_t place);
  void move_head();
  void fail();

  const std::unique_ptr<PersistentMemory> memory_;
  const uint64_t ring_;  // bytes
  uint64_t id_ = 0;
  mutable std::mutex mutex_;  // guards what follows
  uint64_t head_ = 0, tail_ = 0;
  std::deque<Entry> entries_;  // by place; from head_ to tail_ without a gap, but for damage
  std::atomic<bool> failed_ = false;
};

}  // namespace verbena::store::local
