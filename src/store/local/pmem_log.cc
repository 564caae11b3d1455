#include "store/local/pmem_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>

#include "base/checksum.h"
#include "base/log.h"
#include "store/local/pmem_log_top.h"
#include "store/store.h"

namespace verbena::store::local {
namespace {

static_assert(std::endian::native == std::endian::little, "the log's numbers are in the processor's order");

constexpr uint64_t log_mark = 0x32474f4c4d454250;    // "PBEMLOG2"
constexpr uint64_t older_mark = 0x31474f4c4d454250;  // "PBEMLOG1": its records' headers have no time
constexpr uint64_t head_at = cache_line, held_at = 2 * cache_line, ring_at = 4096;
constexpr uint32_t of_object = 1, of_nothing = 2;  // of_nothing: fills the ring up to its end

// Not 0, whatever the id.
constexpr uint64_t held_word(uint64_t id) { return id | 1; }
constexpr uint64_t lines(uint64_t bytes) { return (bytes + cache_line - 1) / cache_line * cache_line; }

template <class T>
Bytes plain_bytes(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
MutableBytes room_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

struct LogTop {
  uint64_t mark = 0, id = 0, size = 0;
  uint32_t check = 0, unused = 0;
  uint32_t right_check() const { return crc32c(plain_bytes(size), crc32c(plain_bytes(id))); }
};

std::unexpected<Error> unusable_log() { return fail(Errc::corrupt_object, "store: log on persistent memory"); }

}  // namespace

std::optional<PmemLogFacts> look_at_pmem_log(const PersistentMemory& memory, uint64_t offset) {
  LogTop top;
  uint64_t held = 0;
  if (!memory.load(room_of(top), offset) || top.check != top.right_check()) return std::nullopt;
  if (top.mark != log_mark && top.mark != older_mark) return std::nullopt;
  const bool is_read = memory.load(room_of(held), offset + held_at);
  return PmemLogFacts{.size = top.size, .is_held = !is_read || held == held_word(top.id)};
}

struct PmemLog::Header {
  uint64_t published = 0;  // word(place); 0 until then
  uint64_t moved = 0;      // word(place): the index has it
  uint64_t bucket = 0;
  int64_t time_us = 0;
  uint32_t kind = 0, key_size = 0, head_size = 0, bytes_size = 0;
  uint32_t head_check = 0, bytes_check = 0;  // CRC32Cs
  uint32_t check = 0;                        // CRC32C of the fields between `moved` and this one, and of the key
  uint32_t unused = 0;
};

struct PmemLog::Seen {
  uint64_t place = 0;
  Header header;
  std::string key;
};

PmemLog::PmemLog(std::unique_ptr<PersistentMemory> memory)
    : memory_(std::move(memory)),
      ring_(memory_->size() < size_min ? 0 : (memory_->size() - ring_at) / cache_line * cache_line) {
  static_assert(sizeof(Header) == cache_line);
}

uint64_t PmemLog::at(uint64_t place) const { return ring_at + place % ring_; }

uint64_t PmemLog::length_of(const Header& header) {
  return sizeof(Header) + lines(uint64_t(header.key_size) + header.head_size) + lines(header.bytes_size);
}

// The place is part of every check: what an earlier round left at an offset passes none.
uint32_t PmemLog::check_of(const Header& header, std::string_view key) const {
  const Bytes covered =
      plain_bytes(header).subspan(offsetof(Header, bucket), offsetof(Header, check) - offsetof(Header, bucket));
  return crc32c(as_bytes(key), crc32c(covered, static_cast<uint32_t>(header.published >> 6)));
}

uint32_t PmemLog::check_of(uint64_t place, Bytes bytes) const {
  return crc32c(bytes, static_cast<uint32_t>(word(place) >> 6));
}

// --- The top
// -----------------------------------------------------------------------------------------------------

Result<std::optional<uint64_t>> PmemLog::id(std::string& trouble) const {
  if (ring_ == 0) {
    trouble = "the log on persistent memory has shrunk to " + format_size(memory_->size());
    return unusable_log();
  }
  LogTop top;
  if (!memory_->load(room_of(top), 0)) {
    trouble =
        std::string("the log on persistent memory cannot be read at its beginning, which tells whose log it is. ") +
        memory_->place().bad_block_advice();
    return unusable_log();
  }
  if (top.mark == 0) return std::nullopt;
  if (top.mark != log_mark || top.check != top.right_check()) {
    trouble = "the log on persistent memory is damaged at its beginning, or is no log";
    return unusable_log();
  }
  if (top.size != memory_->size()) {  // its records' places are of that size
    trouble =
        fmt::format("the log on persistent memory was made with {} bytes and has {}: {}", top.size, memory_->size(),
                    top.size > memory_->size() ? "the namespace has shrunk" : "it was made longer");
    return unusable_log();
  }
  return top.id;
}

std::optional<uint64_t> PmemLog::older_id() const {
  LogTop top;
  if (ring_ == 0 || !memory_->load(room_of(top), 0)) return std::nullopt;
  if (top.mark != older_mark || top.check != top.right_check() || top.size != memory_->size()) return std::nullopt;
  return top.id;
}

bool PmemLog::is_older_empty(uint64_t id) {
  const std::lock_guard lock(mutex_);
  id_ = id;
  const auto head = load_head();
  if (!head || !first_word(*head)) return false;
  head_ = *head;
  return next_that_counts(head_) == head_ + ring_;
}

bool PmemLog::store_durably(uint64_t offset, uint64_t number) {
  if (!memory_->store_number(offset, number) || !memory_->flush(offset, sizeof number)) return false;
  memory_->fence();
  return true;
}

Result<void> PmemLog::format(uint64_t id) {
  const std::lock_guard lock(mutex_);
  id_ = id & ~(cache_line - 1);
  LogTop top{.mark = 0, .id = id_, .size = memory_->size(), .check = 0, .unused = 0};
  top.check = top.right_check();
  const Bytes rest = plain_bytes(top).subspan(sizeof top.mark);
  const bool written = store_durably(0, 0) && memory_->store(sizeof top.mark, rest) && memory_->flush(0, sizeof top) &&
                       store_durably(head_at, head_word(0)) && store_durably(held_at, held_word(id_)) &&
                       store_durably(0, log_mark);
  if (!written) return verbena::fail(Errc::io_error, "store: persistent memory cannot be written");
  head_ = tail_ = 0;
  entries_.clear();
  return {};
}

bool PmemLog::is_held(uint64_t id) const {
  uint64_t stored = 0;
  return !memory_->load(room_of(stored), held_at) || stored == held_word(id);
}

void PmemLog::hold() {
  const std::lock_guard lock(mutex_);
  if (!store_durably(held_at, held_word(id_))) fail();
}

void PmemLog::give_back() {
  const std::lock_guard lock(mutex_);
  (void)store_durably(held_at, 0);
}

uint64_t PmemLog::head_word(uint64_t place) const {
  const uint64_t of[2] = {place, id_};
  return place / cache_line << 16 | (crc32c(plain_bytes(of)) & 0xffff);
}

std::optional<uint64_t> PmemLog::load_head() const {
  uint64_t stored = 0;
  if (!memory_->load(room_of(stored), head_at)) return std::nullopt;
  const uint64_t place = (stored >> 16) * cache_line;
  if (stored != head_word(place)) return std::nullopt;
  return place;
}

// --- A start
// -----------------------------------------------------------------------------------------------------

// None: the line cannot be read.
std::optional<uint64_t> PmemLog::first_word(uint64_t place) const {
  uint64_t published = 0;
  if (!memory_->load(room_of(published), at(place))) return std::nullopt;
  return published;
}

std::optional<PmemLog::Seen> PmemLog::load_record(uint64_t place) const {
  Seen seen{.place = place, .header = {}, .key = {}};
  Header& header = seen.header;
  if (!memory_->load(room_of(header), at(place)) || header.published != word(place)) return std::nullopt;
  const bool is_object = header.kind == of_object && header.key_size >= 1 && header.bytes_size <= bytes_max;
  const bool is_filler = header.kind == of_nothing && header.key_size == 0;
  if (!is_object && !is_filler) return std::nullopt;
  if (header.moved != 0 && header.moved != header.published) return std::nullopt;  // to guess could undo a change
  if (header.key_size > key_size_max || header.head_size > head_max) return std::nullopt;
  if (is_object && length_of(header) > ring_ - place % ring_) return std::nullopt;
  seen.key.resize(header.key_size);
  if (!memory_->load(std::as_writable_bytes(std::span(seen.key)), at(place) + sizeof header)) return std::nullopt;
  if (header.check != check_of(header, seen.key)) return std::nullopt;
  return seen;
}

// The first place from this one on whose first 8 bytes are those of a record; the end of the ring's round: none.
uint64_t PmemLog::next_that_counts(uint64_t place) const {
  const uint64_t end = head_ + ring_;
  std::array<uint64_t, 4096 / sizeof(uint64_t)> piece;  // read at once
  while (place < end) {
    const uint64_t size = std::min({uint64_t(sizeof piece), end - place, ring_ - place % ring_});
    const bool whole = memory_->load(std::as_writable_bytes(std::span(piece)).first(size), at(place));
    for (uint64_t done = 0; done < size; done += cache_line, place += cache_line) {
      if (whole ? piece[done / sizeof(uint64_t)] == word(place) : counts(place)) return place;
    }
  }
  return end;
}

// The next record after damage; the end of the ring's round: none.
uint64_t PmemLog::next_record(uint64_t place) const {
  const uint64_t end = head_ + ring_;
  do {
    place = next_that_counts(place + cache_line);
  } while (place < end && !load_record(place));
  return place;
}

PmemLog::Found PmemLog::load_object(const Seen& seen) const {
  const Header& header = seen.header;
  Found found;
  found.place = seen.place;
  found.bucket = header.bucket;
  found.time_us = header.time_us;
  found.key = seen.key;
  found.size = header.bytes_size;
  found.head.resize(header.head_size);
  found.bytes.resize(header.bytes_size);
  const uint64_t key_at = at(seen.place) + sizeof header;
  const bool has_head = memory_->load(std::as_writable_bytes(std::span(found.head)), key_at + header.key_size) &&
                        check_of(seen.place, as_bytes(found.head)) == header.head_check;
  const bool has_bytes = memory_->load(found.bytes, key_at + lines(uint64_t(header.key_size) + header.head_size)) &&
                         check_of(seen.place, found.bytes) == header.bytes_check;
  found.lost = !has_head || !has_bytes;
  if (!has_head) found.head.clear();
  if (found.lost) found.bytes.clear();
  return found;
}

// For the operator: what can be read where the key of a record begins whose header or key is damaged. No byte of what
// follows the key, which is a user's.
std::string PmemLog::what_is_at(uint64_t place) const {
  Header header;
  if (at(place) + 2 * cache_line > ring_at + ring_ || !memory_->load(room_of(header), at(place))) return {};
  if (header.kind != of_object || header.key_size < 1 || header.key_size > key_size_max) return {};
  std::string key(std::min<uint64_t>(header.key_size, cache_line), '\0');
  if (!memory_->load(std::as_writable_bytes(std::span(key)), at(place) + cache_line)) return {};
  const auto end = std::ranges::find_if(key, [](char c) { return c < ' ' || c > '~'; });
  key.erase(end, key.end());
  return key.empty() ? "" : fmt::format(", but it may begin with \"{}\"", key);
}

std::vector<PmemLog::Seen> PmemLog::walk(Contents& contents) {
  std::vector<Seen> all;
  for (uint64_t place = head_; place < head_ + ring_;) {
    auto seen = load_record(place);
    if (!seen) {
      // Nothing counts after a record that does not. If something does, this one was damaged; what cannot be read may
      // have been one.
      const auto first = first_word(place);
      const bool may_be_the_end = first && *first != word(place);
      const uint64_t next = next_record(place);
      if (may_be_the_end && next == head_ + ring_) break;
      contents.damage.push_back(fmt::format(
          "the log on persistent memory is damaged at byte {}: the header of a record, or its key, cannot be "
          "read or fails its checksum. Of which key it was is not known{}",
          at(place), what_is_at(place)));
      place = next;
      continue;
    }
    const bool filler = seen->header.kind == of_nothing;
    const uint64_t length = filler ? ring_ - place % ring_ : length_of(seen->header);
    entries_.push_back({.place = place, .length = length, .over = filler || seen->header.moved == word(place)});
    all.push_back(std::move(*seen));
    place = tail_ = place + length;
  }
  return all;
}

PmemLog::Contents PmemLog::recover(uint64_t id) {
  const std::lock_guard lock(mutex_);
  Contents contents;
  id_ = id;
  const auto head = load_head();
  if (!head) {
    contents.damage.emplace_back("the log on persistent memory does not tell where it begins");
    contents.unusable = true;
    return contents;
  }
  head_ = tail_ = *head;
  const std::vector<Seen> all = walk(contents);
  std::map<std::pair<uint64_t, std::string_view>, uint64_t> last;  // places
  for (const Seen& seen : all) last[{seen.header.bucket, seen.key}] = seen.place;
  for (size_t i = 0; i < all.size(); ++i) {
    if (entries_[i].over) continue;
    if (last[{all[i].header.bucket, all[i].key}] == all[i].place) {
      contents.waiting.push_back(load_object(all[i]));
    } else {
      entries_[i].over = true;
    }
  }
  return contents;
}

// --- Records in and out
// ------------------------------------------------------------------------------------------

// All of the record first, then the number that makes it count: each made durable before the next step.
bool PmemLog::write(uint64_t place, Header header, const Record& record) {
  const uint64_t header_at = at(place), key_at = header_at + sizeof header;
  const uint64_t bytes_at = key_at + lines(record.key.size() + record.head.size());
  header.published = word(place);
  header.check = check_of(header, record.key);
  header.published = 0;
  // Damage alone leaves this number where no record is: it must be gone before anything else of the record is there.
  if (counts(place) && !store_durably(header_at, 0)) return false;
  const bool written = memory_->store(header_at, plain_bytes(header)) && memory_->store(key_at, as_bytes(record.key)) &&
                       memory_->store(key_at + record.key.size(), as_bytes(record.head)) &&
                       memory_->store(bytes_at, record.bytes) &&
                       memory_->flush(header_at, bytes_at - header_at + record.bytes.size());
  if (!written) return false;
  memory_->fence();
  return store_durably(header_at, word(place));
}

// A record is in one piece: what is left at the ring's end is skipped.
bool PmemLog::fill_up() {
  const uint64_t left = ring_ - tail_ % ring_;
  Header header;
  header.kind = of_nothing;
  if (!write(tail_, header, {})) return false;
  entries_.push_back({.place = tail_, .length = left, .over = true});
  tail_ += left;
  return true;
}

std::optional<uint64_t> PmemLog::append(const Record& record, bool moves) {
  if (record.key.empty() || record.key.size() > key_size_max || record.head.size() > head_max ||
      record.bytes.size() > bytes_max) {
    return std::nullopt;
  }
  Header header;
  header.bucket = record.bucket;
  header.time_us = record.time_us;
  header.kind = of_object;
  header.key_size = static_cast<uint32_t>(record.key.size());
  header.head_size = static_cast<uint32_t>(record.head.size());
  header.bytes_size = static_cast<uint32_t>(record.bytes.size());
  const uint64_t length = length_of(header);
  const std::lock_guard lock(mutex_);
  if (failed()) return std::nullopt;
  const uint64_t left = ring_ - tail_ % ring_;
  const uint64_t skipped = length > left ? left : 0;
  // Room for the largest record, which may have to skip as much at the ring's end.
  const uint64_t kept = moves ? 0 : std::min<uint64_t>(ring_ / 8, 2 * record_max);
  if (tail_ + skipped + length + kept - head_ > ring_) return std::nullopt;
  const bool ready = skipped == 0 || fill_up();
  const uint64_t place = tail_;
  header.head_check = check_of(place, as_bytes(record.head));
  header.bytes_check = check_of(place, record.bytes);
  if (!ready || !write(place, header, record)) {
    fail();
    return std::nullopt;
  }
  entries_.push_back({.place = place, .length = length});
  tail_ += length;
  return place;
}

void PmemLog::fail() {
  if (failed_.exchange(true)) return;
  log::error(
      "store: persistent memory cannot be written: PUTs go to the disk from here on, and the log's objects are moved "
      "there. Replace the module, or clear its bad blocks (ndctl clear-errors)");
}

// Frees the space of the oldest records that are over. The new beginning is durable before the space is used again.
void PmemLog::move_head() {
  while (!entries_.empty() && entries_.front().over) entries_.pop_front();
  const uint64_t before = std::exchange(head_, entries_.empty() ? tail_ : entries_.front().place);
  if (head_ != before && !store_durably(head_at, head_word(head_))) fail();
}

void PmemLog::end(uint64_t place) {
  const auto entry = std::ranges::lower_bound(entries_, place, {}, &Entry::place);
  if (entry == entries_.end() || entry->place != place) return;
  entry->over = true;
  move_head();
}

void PmemLog::free_what_is_over() {
  const std::lock_guard lock(mutex_);
  move_head();
}

// If the mark cannot be stored, a start cannot read its line either, and refuses: the record does not come back
// unnoticed.
void PmemLog::moved(uint64_t place) {
  const std::lock_guard lock(mutex_);
  if (!store_durably(at(place) + offsetof(Header, moved), word(place))) fail();
  end(place);
}

void PmemLog::replaced(uint64_t place) {
  const std::lock_guard lock(mutex_);
  end(place);
}

bool PmemLog::empty() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(entries_, &Entry::over);
}

bool PmemLog::is_old(uint64_t place) const {
  const std::lock_guard lock(mutex_);
  return tail_ - place > ring_ / 2;
}

uint64_t PmemLog::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return tail_ - head_;
}

}  // namespace verbena::store::local
