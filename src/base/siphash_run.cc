#include "base/siphash_run.h"

#include <algorithm>

namespace verbena {
namespace {

using Begun = SipHash<1, 3>;

#if defined(__x86_64__)
using Four [[gnu::vector_size(32)]] = uint64_t;

struct States {
  Four v0, v1, v2, v3;
};

[[gnu::target("avx2"), gnu::always_inline]] inline void rotate(Four& value, int bits) {
  value = (value << bits) | (value >> (64 - bits));
}

[[gnu::target("avx2"), gnu::always_inline]] inline void add_round(States& s) {
  s.v0 += s.v1, rotate(s.v1, 13), s.v1 ^= s.v0, rotate(s.v0, 32);
  s.v2 += s.v3, rotate(s.v3, 16), s.v3 ^= s.v2;
  s.v0 += s.v3, rotate(s.v3, 21), s.v3 ^= s.v0;
  s.v2 += s.v1, rotate(s.v1, 17), s.v1 ^= s.v2, rotate(s.v2, 32);
}

[[gnu::target("avx2"), gnu::always_inline]] inline void absorb(States& s, const Four& words) {
  s.v3 ^= words;
  add_round(s);
  s.v0 ^= words;
}

[[gnu::target("avx2"), gnu::always_inline]] inline void load(Four& words, const std::byte* at, size_t stride) {
  uint64_t each[4];
  for (size_t lane = 0; lane < 4; ++lane) std::memcpy(&each[lane], at + lane * stride, 8);
  words = Four{each[0], each[1], each[2], each[3]};
}

// Of four texts, of which the first `absorbed` bytes were absorbed already, and at least eight were not.
[[gnu::target("avx2")]] void hash_four(const Begun& begun, const std::byte* texts, size_t size, size_t absorbed,
                                       uint64_t* hashes) {
  const auto state = begun.state();
  States s{Four{} + state[0], Four{} + state[1], Four{} + state[2], Four{} + state[3]};
  Four words;
  size_t at = absorbed;
  for (; at + 8 <= size; at += 8) {
    load(words, texts + at, size);
    absorb(s, words);
  }
  Four last = Four{} + (static_cast<uint64_t>(size) << 56);
  if (at != size) {
    load(words, texts + size - 8, size);
    last |= words >> (8 * (8 - (size - at)));
  }
  absorb(s, last);
  s.v2 ^= 0xff;
  for (int n = 0; n < 3; ++n) add_round(s);
  const Four all = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
  std::memcpy(hashes, &all, sizeof all);
}

bool has_four() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}
#endif

}  // namespace

void siphash13_run(const std::byte (&key)[16], Bytes texts, size_t size, size_t shared, std::span<uint64_t> hashes) {
  if (hashes.empty()) return;
  Begun begun(key);
  const size_t absorbed = std::min(shared, size) / 8 * 8;
  begun.absorb(texts.first(absorbed));
  size_t done = 0;
#if defined(__x86_64__)
  if (size - absorbed >= 8 && has_four()) {
    for (; done + 4 <= hashes.size(); done += 4) {
      hash_four(begun, texts.data() + done * size, size, absorbed, &hashes[done]);
    }
  }
#endif
  for (; done < hashes.size(); ++done) {
    Begun rest = begun;
    hashes[done] = rest.finish(texts.subspan(done * size + absorbed, size - absorbed), size);
  }
}

}  // namespace verbena
