#include "base/siphash_run.h"

#include <algorithm>

#include "base/processor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace verbena {
namespace {

using Begun = SipHash<1, 3>;

#if defined(__x86_64__)
using Four [[gnu::vector_size(32)]] = uint64_t;
using Halves [[gnu::vector_size(32)]] = uint32_t;
using Quarters [[gnu::vector_size(32)]] = uint16_t;

struct States {
  Four v0, v1, v2, v3;
};

// AVX2 has no rotation; one by whole bytes is a shuffle.
template <int bits>
[[gnu::target("avx2"), gnu::always_inline]] inline void rotate(Four& value) {
  if constexpr (bits == 32) {
    const auto halves = reinterpret_cast<Halves>(value);
    value = reinterpret_cast<Four>(__builtin_shufflevector(halves, halves, 1, 0, 3, 2, 5, 4, 7, 6));
  } else if constexpr (bits == 16) {
    const auto quarters = reinterpret_cast<Quarters>(value);
    value = reinterpret_cast<Four>(
        __builtin_shufflevector(quarters, quarters, 3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14));
  } else {
    value = (value << bits) | (value >> (64 - bits));
  }
}

[[gnu::target("avx2"), gnu::always_inline]] inline void add_round(States& s) {
  s.v0 += s.v1, rotate<13>(s.v1), s.v1 ^= s.v0, rotate<32>(s.v0);
  s.v2 += s.v3, rotate<16>(s.v3), s.v3 ^= s.v2;
  s.v0 += s.v3, rotate<21>(s.v3), s.v3 ^= s.v0;
  s.v2 += s.v1, rotate<17>(s.v1), s.v1 ^= s.v2, rotate<32>(s.v2);
}

[[gnu::target("avx2"), gnu::always_inline]] inline void absorb(States& s, const Four& words) {
  s.v3 ^= words;
  add_round(s);
  s.v0 ^= words;
}

inline uint64_t load_one(const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Through registers, and not through an array: a wide load of words that were just stored one by one waits for the
// stores.
[[gnu::target("avx2"), gnu::always_inline]] inline void load(Four& words, const std::byte* at, size_t stride) {
  const __m128i low = _mm_set_epi64x(static_cast<int64_t>(load_one(at + stride)), static_cast<int64_t>(load_one(at)));
  const __m128i high =
      _mm_set_epi64x(static_cast<int64_t>(load_one(at + 3 * stride)), static_cast<int64_t>(load_one(at + 2 * stride)));
  words = reinterpret_cast<Four>(_mm256_set_m128i(high, low));
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

// Eight at once, as above: AVX-512 has rotations.
using Eight [[gnu::vector_size(64)]] = uint64_t;

struct WideStates {
  Eight v0, v1, v2, v3;
};

template <int bits>
[[gnu::target("avx512f"), gnu::always_inline]] inline void rotate(Eight& value) {
  value = (value << bits) | (value >> (64 - bits));
}

[[gnu::target("avx512f"), gnu::always_inline]] inline void add_round(WideStates& s) {
  s.v0 += s.v1, rotate<13>(s.v1), s.v1 ^= s.v0, rotate<32>(s.v0);
  s.v2 += s.v3, rotate<16>(s.v3), s.v3 ^= s.v2;
  s.v0 += s.v3, rotate<21>(s.v3), s.v3 ^= s.v0;
  s.v2 += s.v1, rotate<17>(s.v1), s.v1 ^= s.v2, rotate<32>(s.v2);
}

[[gnu::target("avx512f"), gnu::always_inline]] inline void absorb(WideStates& s, const Eight& words) {
  s.v3 ^= words;
  add_round(s);
  s.v0 ^= words;
}

[[gnu::target("avx512f"), gnu::always_inline]] inline void load(Eight& words, const std::byte* at, size_t stride) {
  words = Eight{load_one(at),
                load_one(at + stride),
                load_one(at + 2 * stride),
                load_one(at + 3 * stride),
                load_one(at + 4 * stride),
                load_one(at + 5 * stride),
                load_one(at + 6 * stride),
                load_one(at + 7 * stride)};
}

[[gnu::target("avx512f")]] void hash_eight(const Begun& begun, const std::byte* texts, size_t size, size_t absorbed,
                                           uint64_t* hashes) {
  const auto state = begun.state();
  WideStates s{Eight{} + state[0], Eight{} + state[1], Eight{} + state[2], Eight{} + state[3]};
  Eight words;
  size_t at = absorbed;
  for (; at + 8 <= size; at += 8) {
    load(words, texts + at, size);
    absorb(s, words);
  }
  Eight last = Eight{} + (static_cast<uint64_t>(size) << 56);
  if (at != size) {
    load(words, texts + size - 8, size);
    last |= words >> (8 * (8 - (size - at)));
  }
  absorb(s, last);
  s.v2 ^= 0xff;
  for (int n = 0; n < 3; ++n) add_round(s);
  const Eight all = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
  std::memcpy(hashes, &all, sizeof all);
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
  if (size - absorbed >= 8 && has_avx512()) {
    for (; done + 8 <= hashes.size(); done += 8) {
      hash_eight(begun, texts.data() + done * size, size, absorbed, &hashes[done]);
    }
  }
  if (size - absorbed >= 8 && has_avx2()) {
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
