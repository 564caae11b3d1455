#include "fabric/sealed/transfer.h"

#include <algorithm>

namespace verbena::fabric::sealed {

Transfer::Transfer(const ConnectionKey& key, const Salt& salt, Direction direction, const WindowDescriptor& window,
                   uint64_t length)
    : cipher_(derive_transfer(key, salt, direction, length)),
      place_{window.key, window.base, static_cast<uint32_t>(length)} {}

void Transfer::seal(Bytes plain, std::byte* out) {
  while (!plain.empty()) {
    const size_t i = sealed_ / record_size_max, into = sealed_ % record_size_max;
    const Place part = part_of(place_, i);
    if (into == 0) cipher_.begin(i, context_of(part));
    const size_t n = std::min<size_t>(plain.size(), part.length - into);
    cipher_.update(plain.first(n), out);
    sealed_ += n;
    plain = plain.subspan(n);
    out += n;
    if (into + n < part.length) continue;
    AeadTag tag;
    cipher_.end(tag);
    std::ranges::copy(tag, tags_.begin() + static_cast<ptrdiff_t>(i * aead_tag_size));
  }
}

bool Transfer::open(size_t i, Bytes sealed, std::byte* out) {
  const Bytes tag = Bytes(tags_).subspan(i * aead_tag_size, aead_tag_size);
  return cipher_.open(i, context_of(part_of(place_, i)), sealed, tag, out);
}

}  // namespace verbena::fabric::sealed
