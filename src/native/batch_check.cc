#include "native/batch_check.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/checksum.h"

namespace verbena::native {
namespace {

constexpr uint64_t progress_size = 8;

// A written range of a window.
struct Written {
  uint8_t window;
  uint64_t begin, end;
  bool operator<(const Written& other) const {
    return window != other.window ? window < other.window : begin < other.begin;
  }
};

Result<void> refuse(const char* why) { return fail(Errc::invalid_request, why); }

// True if they name the same memory. Compares unsigned differences, since a base may have any value.
bool overlap(const wire::Descriptor& a, const wire::Descriptor& b) {
  if (a.key != b.key || a.size == 0 || b.size == 0) return false;
  return a.base - b.base < b.size || b.base - a.base < a.size;
}

Result<void> check_head(const wire::BatchHead& head, wire::Type type) {
  for (size_t i = 0; i < head.buckets.count; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (head.buckets[i] == head.buckets[j]) return refuse("batch: a bucket is named twice");
    }
  }
  if (type != wire::Type::get_many) return {};
  for (size_t i = 0; i < head.windows.count; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (overlap(head.windows[i], head.windows[j])) return refuse("batch: windows overlap");
    }
  }
  if (head.progress_window == wire::no_window) return {};
  const wire::Descriptor& window = head.windows[head.progress_window];
  if (window.size < progress_size || head.progress_offset > window.size - progress_size) {
    return refuse("batch: the progress word lies outside its window");
  }
  if ((window.base + head.progress_offset) % progress_size != 0) return refuse("batch: the progress word is unaligned");
  return {};
}

// Most batches fill their windows from front to back: then comparing with the previous place is enough.
class Places {
 public:
  void add(const wire::BatchPlace& place) {
    if (place.window == wire::no_window || place.size == 0) return;
    const Written now{place.window, place.offset, place.offset + place.size};
    if (!all().empty()) {
      const Written& last = all().back();
      if (now.window < last.window || (now.window == last.window && now.begin < last.end)) sorted_ = false;
    }
    all().push_back(now);
  }
  bool overlap() {
    if (sorted_) return false;
    std::sort(all().begin(), all().end());
    for (size_t i = 1; i < all().size(); ++i) {
      if (all()[i].window == all()[i - 1].window && all()[i].begin < all()[i - 1].end) return true;
    }
    return false;
  }
  Places() { all().clear(); }

 private:
  static std::vector<Written>& all() {  // at most one per item and the progress word
    thread_local std::vector<Written> places;
    return places;
  }
  bool sorted_ = true;
};

// Keys by a secret hash: a collision of two different keys is as unlikely as a forged MAC.
class Names {
 public:
  Names() { all().clear(); }
  void add(const wire::BatchItem& item) {
    static const auto secret = [] {
      std::array<std::byte, 16> bytes;
      fill_random(bytes);
      return bytes;
    }();
    std::byte key[16];
    std::ranges::copy(secret, key);
    key[0] ^= std::byte{item.bucket};
    uint64_t hash = siphash24(key, as_bytes(item.key));
    if (!item.version.empty()) {
      key[1] ^= std::byte{1};
      hash = hash * 31 + siphash24(key, as_bytes(item.version));
    }
    all().push_back(hash);
  }
  bool twice() {
    std::ranges::sort(all());
    return std::ranges::adjacent_find(all()) != all().end();
  }

 private:
  static std::vector<uint64_t>& all() {
    thread_local std::vector<uint64_t> hashes;
    return hashes;
  }
};

}  // namespace

Result<void> check_batch(Bytes body, wire::Type type) {
  auto reader = wire::BatchReader::open(body, type);
  if (!reader) return refuse("batch: malformed");
  const wire::BatchHead& head = reader->head();
  VB_TRY(check_head(head, type));
  const bool writes = type == wire::Type::put_many || type == wire::Type::delete_many;
  Places places;
  Names names;
  if (head.progress_window != wire::no_window) places.add({head.progress_window, head.progress_offset, progress_size});
  wire::BatchItem item;
  while (reader->left() != 0) {
    if (!reader->next(item)) return refuse("batch: malformed item");
    if (type == wire::Type::get_many) places.add(item.place);
    if (writes) names.add(item);
  }
  if (!reader->complete()) return refuse("batch: bytes behind the items");
  if (places.overlap()) return refuse("batch: places overlap");
  if (writes && names.twice()) return refuse("batch: a key is written twice");
  return {};
}

}  // namespace verbena::native
