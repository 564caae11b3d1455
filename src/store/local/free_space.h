// Free pieces of volumes that keep their blocks of the file system, for the next bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace verbena::store::local {

// Not thread-safe.
class FreeSpace {
 public:
  struct Piece {
    uint64_t volume = 0, offset = 0, length = 0;
    bool operator==(const Piece&) const = default;
  };

  // Joins its neighbours. False, and no change: it overlaps a piece that is there, so its owner is in doubt.
  bool add(const Piece& piece);
  // The volume to take `want` bytes from: the last one as long as it has a piece of that length, so that few volumes
  // need a sync; else the one with the most free bytes. If none has such a piece: the one with the longest, if that has
  // `least` bytes.
  std::optional<uint64_t> volume_for(uint64_t want, uint64_t least) const;
  // From the shortest piece of the volume that has `want` bytes; else the longest, if it has `least` bytes, cut to a
  // multiple of `unit` if that leaves as many.
  std::optional<Piece> take(uint64_t volume, uint64_t want, uint64_t least, uint64_t unit);
  std::optional<Piece> longest() const;
  // Removes a part of a piece.
  void remove(const Piece& part);
  // Removes all pieces of the volume.
  std::vector<Piece> remove(uint64_t volume);

  uint64_t bytes() const { return bytes_; }
  size_t pieces() const { return pieces_; }
  uint64_t bytes_of(uint64_t volume) const;

 private:
  struct Volume {
    std::map<uint64_t, uint64_t> by_offset;             // to the length
    std::set<std::pair<uint64_t, uint64_t>> by_length;  // length, offset
    uint64_t bytes = 0;
    uint64_t longest() const { return by_length.empty() ? 0 : by_length.rbegin()->first; }
  };
  static bool overlaps(const Volume& volume, const Piece& piece);
  using Volumes = std::map<uint64_t, Volume>;
  void insert(Volume& volume, uint64_t offset, uint64_t length);
  void erase(Volume& volume, uint64_t offset, uint64_t length);
  // Around a change of the volume.
  void leave_order(uint64_t id, const Volume& volume) { by_longest_.erase({volume.longest(), id}); }
  void enter_order(Volumes::iterator volume);

  static constexpr uint64_t small =
      1 << 20;  // up to this length, pieces come from one volume, longer ones from another
  static size_t kind_of(uint64_t want) { return want <= small ? 0 : 1; }

  Volumes volumes_;
  std::set<std::pair<uint64_t, uint64_t>> by_longest_;  // longest piece, volume
  uint64_t current_[2] = {0, 0};
  uint64_t bytes_ = 0;
  size_t pieces_ = 0;
};

}  // namespace verbena::store::local
