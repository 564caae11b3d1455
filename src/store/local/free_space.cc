#include "store/local/free_space.h"

#include <algorithm>

namespace verbena::store::local {

void FreeSpace::insert(Volume& volume, uint64_t offset, uint64_t length) {
  volume.by_offset.emplace(offset, length);
  volume.by_length.emplace(length, offset);
  volume.bytes += length;
  bytes_ += length;
  ++pieces_;
}

void FreeSpace::erase(Volume& volume, uint64_t offset, uint64_t length) {
  volume.by_offset.erase(offset);
  volume.by_length.erase({length, offset});
  volume.bytes -= length;
  bytes_ -= length;
  --pieces_;
}

void FreeSpace::enter_order(Volumes::iterator volume) {
  if (volume->second.by_offset.empty()) {
    volumes_.erase(volume);
  } else {
    by_longest_.emplace(volume->second.longest(), volume->first);
  }
}

bool FreeSpace::overlaps(const Volume& volume, const Piece& piece) {
  const auto next = volume.by_offset.lower_bound(piece.offset);
  if (next != volume.by_offset.end() && next->first < piece.offset + piece.length) return true;
  if (next == volume.by_offset.begin()) return false;
  const auto [before, its] = *std::prev(next);
  return before + its > piece.offset;
}

bool FreeSpace::add(const Piece& piece) {
  if (piece.length == 0) return true;
  const auto at = volumes_.try_emplace(piece.volume).first;
  Volume& volume = at->second;
  if (overlaps(volume, piece)) return false;
  leave_order(piece.volume, volume);
  uint64_t offset = piece.offset, length = piece.length;
  auto after = volume.by_offset.lower_bound(offset);
  if (after != volume.by_offset.end() && after->first == offset + length) {
    const auto [next, more] = *after;
    erase(volume, next, more);
    length += more;
    after = volume.by_offset.lower_bound(offset);
  }
  if (after != volume.by_offset.begin()) {
    const auto [before, its] = *std::prev(after);
    if (before + its == offset) {
      erase(volume, before, its);
      offset = before;
      length += its;
    }
  }
  insert(volume, offset, length);
  enter_order(at);
  return true;
}

std::optional<uint64_t> FreeSpace::volume_for(uint64_t want, uint64_t least) const {
  if (by_longest_.empty()) return std::nullopt;
  if (by_longest_.rbegin()->first < want) {
    if (by_longest_.rbegin()->first < least) return std::nullopt;
    return by_longest_.rbegin()->second;
  }
  const auto current = volumes_.find(current_[kind_of(want)]);
  if (current != volumes_.end() && current->second.longest() >= want) return current->first;
  uint64_t best = 0, most = 0;
  for (auto at = by_longest_.lower_bound({want, 0}); at != by_longest_.end(); ++at) {
    const uint64_t free = volumes_.at(at->second).bytes;
    if (free > most) {
      most = free;
      best = at->second;
    }
  }
  return best;
}

std::optional<FreeSpace::Piece> FreeSpace::take(uint64_t id, uint64_t want, uint64_t least, uint64_t unit) {
  const auto at = volumes_.find(id);
  if (at == volumes_.end()) return std::nullopt;
  const auto& by_length = at->second.by_length;
  auto found = by_length.lower_bound({want, 0});
  uint64_t length = want;
  if (found == by_length.end()) {
    found = std::prev(found);
    const uint64_t whole_units = found->first / unit * unit;
    length = whole_units >= std::max(least, unit) ? whole_units : found->first;
    if (length < least) return std::nullopt;
  } else {
    current_[kind_of(want)] = id;
  }
  const Piece taken{id, found->second, length};
  remove(taken);
  return taken;
}

std::optional<FreeSpace::Piece> FreeSpace::longest() const {
  if (by_longest_.empty()) return std::nullopt;
  const auto [length, id] = *by_longest_.rbegin();
  return Piece{id, volumes_.at(id).by_length.rbegin()->second, length};
}

void FreeSpace::remove(const Piece& part) {
  const auto at = volumes_.find(part.volume);
  if (at == volumes_.end()) return;
  Volume& volume = at->second;
  auto holds = volume.by_offset.upper_bound(part.offset);
  if (holds == volume.by_offset.begin()) return;
  const auto [offset, length] = *--holds;
  if (offset + length < part.offset + part.length) return;
  leave_order(part.volume, volume);
  erase(volume, offset, length);
  if (part.offset > offset) insert(volume, offset, part.offset - offset);
  const uint64_t end = part.offset + part.length;
  if (offset + length > end) insert(volume, end, offset + length - end);
  enter_order(at);
}

std::vector<FreeSpace::Piece> FreeSpace::remove(uint64_t id) {
  std::vector<Piece> removed;
  const auto at = volumes_.find(id);
  if (at == volumes_.end()) return removed;
  for (const auto& [offset, length] : at->second.by_offset) removed.push_back({id, offset, length});
  leave_order(id, at->second);
  bytes_ -= at->second.bytes;
  pieces_ -= removed.size();
  volumes_.erase(at);
  return removed;
}

uint64_t FreeSpace::bytes_of(uint64_t id) const {
  const auto at = volumes_.find(id);
  return at == volumes_.end() ? 0 : at->second.bytes;
}

}  // namespace verbena::store::local
