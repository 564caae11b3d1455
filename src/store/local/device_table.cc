#include "store/local/device_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "store/local/aligned_bytes.h"

namespace verbena::store::local {
namespace {

constexpr uint64_t both_copies[] = {0, 1};

using SuperblockCopies = std::array<Result<Superblock>, 2>;

SuperblockCopies read_superblocks(File& device) {
  AlignedBytes memory(device_block);
  SuperblockCopies found;
  for (const uint64_t copy : both_copies) {
    const auto read = read_fully(device, memory.bytes(), superblock_places[copy]);
    if (read) {
      found[copy] = decode_superblock(memory.bytes());
    } else if (is_missing(read.error())) {
      found[copy] = fail(Errc::not_found, "device: ends before its superblock");
    } else {
      found[copy] = std::unexpected(read.error());
    }
  }
  return found;
}

// Two copies of one number that differ: nothing tells which of them is the newer one.
bool contradict(const SuperblockCopies& found) {
  const auto& [first, second] = found;
  return first && second && first->sequence == second->sequence && encode(*first) != encode(*second);
}
bool contradict(const TablePage& first, const TablePage& second) {
  return first.sequence == second.sequence && (first.changes != second.changes || first.volumes != second.volumes);
}

// A bad copy that cannot be seen may be one ahead of the other one.
uint64_t next_sequence(uint64_t last, const std::array<bool, 2>& bad) { return last + (bad[0] || bad[1] ? 2 : 1); }

std::string how_bad(const Error& why) {
  return why == Errc::io_error ? "cannot be read: " + describe(why) : "is damaged";
}
constexpr std::string_view is_older = "is older than the other copy";

// Of two errors, the one that says more than "there is none".
Result<Superblock> better_of(const SuperblockCopies& found) {
  const auto& [first, second] = found;
  if (contradict(found)) return fail(Errc::corrupt_object, "device: two superblocks of one number");
  for (const auto& copy : found) {
    if (!copy && copy.error() == Errc::unsupported) return copy;  // the other one is older
  }
  if (first && second) return second->sequence > first->sequence ? second : first;
  if (first || second) return first ? first : second;
  return first.error() == Errc::not_found ? second : first;
}

std::string why_no_superblock(const std::string& name, const Error& why) {
  if (why == Errc::not_found) {
    return name + " has no superblock: it was not made ready for volumes, or its begin was overwritten";
  }
  if (why == Errc::corrupt_object) {
    return name +
           ": both copies of the superblock are damaged, or contradict each other. Nothing was changed. Without it the "
           "volumes cannot be found";
  }
  return name + ": " + describe(why);
}

}  // namespace

Result<Superblock> read_superblock(File& device) { return better_of(read_superblocks(device)); }

void DeviceTable::note_defect(const std::string& what, uint64_t place, std::string_view how) {
  defects_.push_back(fmt::format("{}, at byte {}, {}", what, place, how));
}

Result<void> DeviceTable::load(std::string& trouble) {
  VB_TRY(load_superblock(trouble));
  VB_ASSIGN(const FileStat now, device_->file().stat());
  if (now.size < superblock_.device_size) {
    trouble = fmt::format("{} has {} bytes, and had {} when it was formatted: it has become smaller, or is not whole",
                          device_->name(), now.size, superblock_.device_size);
    return fail(Errc::corrupt_object, "device: smaller than it was");
  }
  for (uint64_t number = 0; number < superblock_.pages(); ++number) VB_TRY(load_page(number, trouble));
  return {};
}

Result<void> DeviceTable::load_superblock(std::string& trouble) {
  const SuperblockCopies found = read_superblocks(device_->file());
  const auto chosen = better_of(found);
  if (!chosen) {
    trouble = why_no_superblock(device_->name(), chosen.error());
    return std::unexpected(chosen.error());
  }
  superblock_ = *chosen;
  begin_overwritten_ = !found[0] && found[0].error() == Errc::not_found;
  for (const uint64_t copy : both_copies) {
    bad_superblocks_[copy] = !found[copy] || found[copy]->sequence < superblock_.sequence;
    if (!bad_superblocks_[copy] || (copy == 0 && begin_overwritten_)) continue;
    note_defect(fmt::format("copy {} of the superblock", copy), superblock_places[copy],
                found[copy] ? std::string(is_older) : how_bad(found[copy].error()));
  }
  return {};
}

Result<void> DeviceTable::load_page(uint64_t number, std::string& trouble) {
  AlignedBytes memory(device_block);
  std::array<Result<TablePage>, 2> found;
  for (const uint64_t copy : both_copies) {
    const auto read = read_fully(device_->file(), memory.bytes(), superblock_.page_place(number, copy));
    found[copy] =
        read ? decode_page(memory.bytes(), superblock_.id, number) : Result<TablePage>(std::unexpected(read.error()));
  }
  if (!found[0] && !found[1]) {
    trouble = fmt::format(
        "{}: both copies of page {} of the table of volumes are damaged or cannot be read, at bytes {} and {}. "
        "Nothing was changed",
        device_->name(), number, superblock_.page_place(number, 0), superblock_.page_place(number, 1));
    return fail(Errc::corrupt_object, "device: table of volumes");
  }
  if (found[0] && found[1] && contradict(*found[0], *found[1])) {
    trouble = fmt::format(
        "{}: the copies of page {} of the table of volumes, at bytes {} and {}, have one number and differ, so which "
        "of "
        "them is right cannot be told. Nothing was changed",
        device_->name(), number, superblock_.page_place(number, 0), superblock_.page_place(number, 1));
    return fail(Errc::corrupt_object, "device: table of volumes");
  }
  const uint64_t better = !found[1] || (found[0] && found[0]->sequence >= found[1]->sequence) ? 0 : 1;
  const uint64_t other = 1 - better;
  if (!found[other] || found[other]->sequence < found[better]->sequence) {
    note_defect(fmt::format("copy {} of page {} of the table of volumes", other, number),
                superblock_.page_place(number, other),
                found[other] ? std::string(is_older) : how_bad(found[other].error()));
    bad_pages_[number][other] = true;
  }
  changes_ = std::max(changes_, found[better]->changes);
  sequence_ = std::max(sequence_, found[better]->sequence);
  pages_.push_back(std::move(*found[better]));
  return {};
}

Result<void> DeviceTable::repair() {
  for (const std::string& defect : defects_) {
    log::warn("store: {}: {}; it is written again from the other copy", device_->name(), defect);
  }
  for (const uint64_t copy : both_copies) {
    if (!bad_superblocks_[copy]) continue;
    bad_superblocks_[copy] =
        !put_again(encode(superblock_), fmt::format("copy {} of the superblock", copy), superblock_places[copy]);
  }
  for (auto& [number, bad] : bad_pages_) {
    const DeviceBlock block = encode(pages_[number], superblock_.id);
    for (const uint64_t copy : both_copies) {
      if (!bad[copy]) continue;
      bad[copy] = !put_again(block, fmt::format("copy {} of page {} of the table of volumes", copy, number),
                             superblock_.page_place(number, copy));
    }
    // Else what is there would win as soon as it can be read again, if no change of this page comes before that. (The
    // superblock's number leaps with each start's generation.)
    if (bad[0] || bad[1]) VB_TRY(put_page(pages_[number]));
  }
  VB_TRY(device_->flush());
  defects_.clear();
  begin_overwritten_ = false;
  return {};
}

// It has the contents of the other copy, so a write that failed misleads no later start, whether or not it was done.
bool DeviceTable::put_again(const DeviceBlock& block, const std::string& what, uint64_t place) {
  const auto done = device_->put_copy(block, place);
  if (done) return true;
  log::error(
      "store: {}: {}, at byte {}, cannot be written: {}. The other copy is used alone, and nothing protects it. Copy "
      "what the store has to another one, and replace the device",
      device_->name(), what, place, describe(done.error()));
  return false;
}

// The good copies first: a bad one has no place that could mislead, and what it takes only helps.
Result<void> DeviceTable::put(const DeviceBlock& block, const std::array<uint64_t, 2>& places,
                              std::array<bool, 2>& bad) {
  for (const uint64_t copy : both_copies) {
    if (!bad[copy]) VB_TRY(device_->put_block(block, places[copy]));
  }
  for (const uint64_t copy : both_copies) {
    if (!bad[copy]) continue;
    bad[copy] = !device_->put_copy(block, places[copy]);
    VB_TRY(device_->flush());
  }
  return {};
}

Result<void> DeviceTable::set_owner(const DeviceId& owner, uint64_t generation) {
  VB_TRY(check_still_ours());
  Superblock next = superblock_;
  next.owner = owner;
  next.generation = generation;
  next.sequence = next_sequence(superblock_.sequence, bad_superblocks_);
  VB_TRY(put(encode(next), superblock_places, bad_superblocks_));
  superblock_ = next;
  return check_still_ours();
}

// Locks and exclusive use hold on one machine. A disk that several have attached can be taken by another one all the
// same.
Result<void> DeviceTable::check_still_ours() { return judge(read_superblock(device_->file())); }

Result<void> DeviceTable::look_whether_ours() {
  const auto there = read_superblock(device_->file());
  if (!there && there.error() == Errc::io_error) return std::unexpected(there.error());
  return judge(there);
}

Result<void> DeviceTable::judge(const Result<Superblock>& there) {
  if (!there) {
    device_->give_up("has no superblock that can be read any more: " + describe(there.error()));
    return std::unexpected(there.error());
  }
  if (there->id == superblock_.id && there->owner == superblock_.owner && there->generation == superblock_.generation) {
    return {};
  }
  device_->give_up("was formatted, or taken by another store or machine, while this server uses it");
  return fail(Errc::io_error, "device: has another superblock than was written");
}

Result<void> DeviceTable::set_volume(uint64_t extent, uint64_t volume) {
  VB_TRY(check_still_ours());
  TablePage next = pages_[extent / entries_of_page];
  next.volumes[extent % entries_of_page] = volume;
  next.changes = changes_ + 1;
  return put_page(std::move(next));
}

Result<void> DeviceTable::put_page(TablePage next) {
  next.sequence = next_sequence(sequence_, bad_pages_[next.number]);
  const std::array<uint64_t, 2> places{superblock_.page_place(next.number, 0), superblock_.page_place(next.number, 1)};
  VB_TRY(put(encode(next, superblock_.id), places, bad_pages_[next.number]));
  changes_ = std::max(changes_, next.changes);
  sequence_ = next.sequence;
  pages_[next.number] = std::move(next);
  return {};
}

}  // namespace verbena::store::local
