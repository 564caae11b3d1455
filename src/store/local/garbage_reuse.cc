// Garbage's part in the reuse of space: when it may be used again, what an earlier start left, and what goes back to
// the file system.
#include <algorithm>

#include "base/log.h"
#include "store/local/garbage.h"

namespace verbena::store::local {
namespace {

constexpr auto load_every = std::chrono::milliseconds(20), load_slowly_every = std::chrono::milliseconds(1000);
constexpr uint64_t give_back_max = 256 * MiB;  // in a second

}  // namespace

// The removal of the records is in the index, but a group of commits that began before it may still be undone, together
// with rows that it has written since: then the rows of this space would be as they were before the removal.
void Garbage::cool(const std::vector<Extent>& freed) {
  std::vector<Extent> pieces;
  std::set<uint64_t> unknown;
  for (const Extent& x : freed) {
    if (to_load_.contains(x.volume) || to_load_again_.contains(x.volume)) {
      unknown.insert(x.volume);
    } else {
      pieces.push_back(x);
    }
  }
  if (!pieces.empty()) {
    std::lock_guard lock(mutex_);
    cooling_.add({index_.moment(), std::move(pieces)});
  }
  for (const uint64_t id : unknown) load(id);
}

void Garbage::release_cooled(bool again) {
  std::set<uint64_t> touched, punched;
  std::unique_lock lock(mutex_);
  while (auto cooled = cooling_.take([this](const Index::Moment& since) { return index_.is_past(since); })) {
    lock.unlock();
    bool left = false;
    for (const Extent& x : cooled->pieces) {
      touched.insert(x.volume);
      if (volumes_.keep({x.volume, x.offset, x.length})) continue;
      if (!punch(x.volume, x.offset, x.length)) left = true;
      punched.insert(x.volume);
    }
    lock.lock();
    if (left) on_loaded_ = {};  // the next start looks for it again
  }
  tell_unknown_locked();
  // All that could be done was done: drain() does not wait for it.
  if (!again) cooling_.set_aside();
  const bool tells = on_loaded_ != nullptr;
  lock.unlock();
  // That nothing is left is durable some time: the holes must be before it.
  const auto is_lost = [this](uint64_t id) { return !sync_holes(id); };
  if (tells && std::ranges::any_of(punched, is_lost)) {
    lock.lock();
    on_loaded_ = {};
    lock.unlock();
  }
  tidy(std::move(touched), false);
  tell_if_loaded();
}

bool Garbage::is_cooling(uint64_t volume) {
  std::lock_guard lock(mutex_);
  return cooling_.has(volume);
}

// While there is little space for reuse one volume after the other, else one in a second: a large store has many.
void Garbage::load_next() {
  uint64_t id = 0;
  {
    std::lock_guard lock(mutex_);
    if (to_load_.empty()) return;
    const auto now = Clock::now();
    if (drains_ == 0 && now < load_at_) return;
    load_at_ = now + (volumes_.wants_free() ? load_every : load_slowly_every);
    id = *to_load_.begin();
  }
  load(id);
}

// A start that keeps no space is the last one to look, so the holes that it sees must be durable: an earlier one made
// them without a sync, and after a power loss their blocks would be there again, and nothing would find them.
void Garbage::load(uint64_t id) {
  auto found = find_free(id);
  if (found && !volumes_.keeps_any()) {
    if (const auto synced = sync_holes(id); !synced) found = std::unexpected(synced.error());
  }
  std::unique_lock lock(mutex_);
  to_load_.erase(id);
  to_load_again_.erase(id);
  if (!found) {
    log::warn("store: free space of volume {:016x} is not known yet: {}", id, describe(found.error()));
    to_load_again_.insert(id);
    return;
  }
  if (!found->empty()) cooling_.add({index_.moment(), std::move(*found), /*found=*/true});
  tell_unknown_locked();
  lock.unlock();
  tell_if_loaded();
}

// Not before what was found has been kept or given back: a start after a crash would no longer look for it.
void Garbage::tell_if_loaded() {
  std::function<void()> tell;
  {
    std::lock_guard lock(mutex_);
    if (!to_load_.empty() || !to_load_again_.empty() || !cooling_.empty()) return;
    tell = std::exchange(on_loaded_, {});
  }
  if (tell) tell();
}

// Nothing writes to the volume yet: all that the space map does not name is free.
Result<std::vector<Extent>> Garbage::find_free(uint64_t id) {
  std::vector<Extent> found;
  auto volume = volumes_.open(id);
  if (!volume && volume.error() == Errc::not_found) return found;
  if (!volume) return std::unexpected(volume.error());
  File& file = (*volume)->file();
  VB_ASSIGN(const FileStat stat, file.stat());
  std::vector<Extent> gaps;
  uint64_t end = 0, named = 0;
  Cursor cursor = index_.cursor(Family::extents, keys::extent_prefix(id));
  for (; cursor.valid(); cursor.next()) {
    const auto place = keys::parse_extent(cursor.key());
    VB_ASSIGN(const ExtentOwner owner, decode_extent_owner(cursor.value()));
    if (!place) return fail(Errc::corrupt_object, "store: space map");
    if (place->second > end) gaps.push_back({id, end, place->second - end});
    end = std::max(end, place->second + owner.length);
    named += owner.length;
  }
  VB_TRY(cursor.status());
  if (align_down(stat.size) > end) gaps.push_back({id, end, align_down(stat.size) - end});
  if (stat.allocated_bytes <= named) return found;
  for (const Extent& gap : gaps) {
    const uint64_t gap_end = gap.offset + gap.length;
    for (uint64_t at = gap.offset; at < gap_end;) {
      VB_ASSIGN(const auto data, file.data_range(at));
      if (!data) break;
      const uint64_t from = align_up(data->first), to = std::min(align_down(data->second), gap_end);
      if (from >= gap_end) break;
      if (to > from) found.push_back({id, from, to - from});
      at = std::max(data->second, at + disk_alignment);
    }
  }
  return found;
}

void Garbage::give_back() {
  volumes_.tend(give_back_max);
  const auto surplus = volumes_.surplus();
  if (!surplus) return;
  uint64_t rest = std::min(*surplus, give_back_max);
  // First volumes without any bytes.
  while (rest != 0) {
    const auto longest = volumes_.longest_kept();
    const uint64_t before = volumes_.kept_bytes();
    if (!longest) return;
    remove_empty(longest->volume);
    const uint64_t now = volumes_.kept_bytes();
    if (now >= before) break;
    rest -= std::min(rest, before - now);
  }
  volumes_.give_back(rest);
}

}  // namespace verbena::store::local
