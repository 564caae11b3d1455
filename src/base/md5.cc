#include "base/md5.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/md5_steps.h"
#include "base/processor.h"

namespace verbena {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

using State = std::array<uint32_t, 4>;

void add_blocks(State& state, const std::byte* from, size_t blocks) {
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  for (; blocks > 0; --blocks, from += Md5::block_size) {
    uint32_t w[16];
    std::memcpy(w, from, sizeof w);
    const State before{a, b, c, d};
    MD5_BLOCK(MD5_FOUR_G_ALONE)
    a += before[0], b += before[1], c += before[2], d += before[3];
  }
  state = {a, b, c, d};
}

// Transposes each lane's next 16 bytes, so that a vector holds the same word of all lanes.
using V4 [[gnu::vector_size(16)]] = uint32_t;
using V8 [[gnu::vector_size(32)]] = uint32_t;

#define MD5_TRANSPOSE_4(r, w, q)                                   \
  {                                                                \
    const V4 t0 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5); \
    const V4 t1 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7); \
    const V4 t2 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5); \
    const V4 t3 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7); \
    w[q] = __builtin_shufflevector(t0, t2, 0, 1, 4, 5);            \
    w[q + 1] = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);        \
    w[q + 2] = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);        \
    w[q + 3] = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);        \
  }

void add_blocks_of_4(State* const* states, const std::byte* const* from, size_t blocks) {
  V4 s[4];
  for (int i = 0; i < 4; ++i) s[i] = V4{(*states[0])[i], (*states[1])[i], (*states[2])[i], (*states[3])[i]};
  V4 a = s[0], b = s[1], c = s[2], d = s[3];
  for (size_t at = 0; at < blocks * Md5::block_size; at += Md5::block_size) {
    V4 w[16];
    for (int q = 0; q < 16; q += 4) {
      V4 r[4];
      for (int lane = 0; lane < 4; ++lane) std::memcpy(&r[lane], from[lane] + at + q * 4, 16);
      MD5_TRANSPOSE_4(r, w, q)
    }
    MD5_BLOCK(MD5_FOUR_G_LANES)
    a += s[0], b += s[1], c += s[2], d += s[3];
    s[0] = a, s[1] = b, s[2] = c, s[3] = d;
  }
  for (int lane = 0; lane < 4; ++lane) *states[lane] = {s[0][lane], s[1][lane], s[2][lane], s[3][lane]};
}

#if defined(__x86_64__)
// Within halves of four lanes each, as above.
#define MD5_TRANSPOSE_8(r, w, q)                                                   \
  {                                                                                \
    const V8 t0 = __builtin_shufflevector(r[0], r[1], 0, 8, 1, 9, 4, 12, 5, 13);   \
    const V8 t1 = __builtin_shufflevector(r[0], r[1], 2, 10, 3, 11, 6, 14, 7, 15); \
    const V8 t2 = __builtin_shufflevector(r[2], r[3], 0, 8, 1, 9, 4, 12, 5, 13);   \
    const V8 t3 = __builtin_shufflevector(r[2], r[3], 2, 10, 3, 11, 6, 14, 7, 15); \
    w[q] = __builtin_shufflevector(t0, t2, 0, 1, 8, 9, 4, 5, 12, 13);              \
    w[q + 1] = __builtin_shufflevector(t0, t2, 2, 3, 10, 11, 6, 7, 14, 15);        \
    w[q + 2] = __builtin_shufflevector(t1, t3, 0, 1, 8, 9, 4, 5, 12, 13);          \
    w[q + 3] = __builtin_shufflevector(t1, t3, 2, 3, 10, 11, 6, 7, 14, 15);        \
  }

// Compiled twice: AVX-512's vectors are as long here, but rotate and mix in one instruction each.
#define MD5_ADD_BLOCKS_OF_8(name)                                                                          \
  void name(State* const* states, const std::byte* const* from, size_t blocks) {                           \
    V8 s[4];                                                                                               \
    for (int i = 0; i < 4; ++i) {                                                                          \
      for (int lane = 0; lane < 8; ++lane) s[i][lane] = (*states[lane])[i];                                \
    }                                                                                                      \
    V8 a = s[0], b = s[1], c = s[2], d = s[3];                                                             \
    for (size_t at = 0; at < blocks * Md5::block_size; at += Md5::block_size) {                            \
      V8 w[16];                                                                                            \
      _Pragma("GCC unroll 4") for (int q = 0; q < 16; q += 4) {                                            \
        V8 r[4];                                                                                           \
        _Pragma("GCC unroll 4") for (int lane = 0; lane < 4; ++lane) {                                     \
          V4 low, high;                                                                                    \
          std::memcpy(&low, from[lane] + at + q * 4, 16);                                                  \
          std::memcpy(&high, from[lane + 4] + at + q * 4, 16);                                             \
          r[lane] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);                            \
        }                                                                                                  \
        MD5_TRANSPOSE_8(r, w, q)                                                                           \
      }                                                                                                    \
      MD5_BLOCK(MD5_FOUR_G_LANES)                                                                          \
      a += s[0], b += s[1], c += s[2], d += s[3];                                                          \
      s[0] = a, s[1] = b, s[2] = c, s[3] = d;                                                              \
    }                                                                                                      \
    for (int lane = 0; lane < 8; ++lane) *states[lane] = {s[0][lane], s[1][lane], s[2][lane], s[3][lane]}; \
  }
[[gnu::target("avx2")]] MD5_ADD_BLOCKS_OF_8(add_blocks_by_avx2)
    [[gnu::target("avx2,avx512f,avx512vl")]] MD5_ADD_BLOCKS_OF_8(add_blocks_by_avx512)
#endif

        using SideBySide = void(*)(State* const*, const std::byte* const*, size_t blocks);

SideBySide side_by_side(Md5::Lanes lanes) {
  switch (lanes) {
#if defined(__x86_64__)
    case Md5::Lanes::eight_of_avx512:
      return add_blocks_by_avx512;
    case Md5::Lanes::eight:
      return add_blocks_by_avx2;
#endif
    default:
      return add_blocks_of_4;
  }
}

}  // namespace

// Processes whole blocks of several bodies; a finished body is replaced by the next.
class Md5Lanes {
 public:
  explicit Md5Lanes(Md5::Lanes lanes) : lanes_(lanes == Md5::Lanes::four ? 4 : 8), add_blocks_(side_by_side(lanes)) {}

  void add(const Md5::More& one) {
    const Bytes rest = one.digest->complete_block(one.bytes);
    const size_t blocks = rest.size() / Md5::block_size;
    if (blocks != 0) waiting_.push_back({&one.digest->state_, rest.data(), blocks});
    one.digest->keep(rest.subspan(blocks * Md5::block_size));
  }
  void run() {
    // The longest first, so that few lanes are empty at the end.
    std::ranges::sort(waiting_, std::ranges::greater(), &Body::blocks);
    size_t next = 0;
    std::vector<Body> running;
    for (;;) {
      while (running.size() < lanes_ && next < waiting_.size()) running.push_back(waiting_[next++]);
      if (running.size() < worthwhile) break;
      turn(running);
      std::erase_if(running, [](const Body& body) { return body.blocks == 0; });
    }
    for (const Body& body : running) add_blocks(*body.state, body.from, body.blocks);
  }

 private:
  struct Body {
    State* state;
    const std::byte* from;
    size_t blocks;
  };

  // Processes as many blocks as all of them have. Lanes without a body repeat the first one's, for nothing.
  void turn(std::vector<Body>& running) const {
    State unused{};
    State* states[8];
    const std::byte* from[8];
    for (size_t lane = 0; lane < 8; ++lane) {
      states[lane] = lane < running.size() ? running[lane].state : &unused;
      from[lane] = running[lane < running.size() ? lane : 0].from;
    }
    const size_t blocks = std::ranges::min(running, {}, &Body::blocks).blocks;
    add_blocks_(states, from, blocks);
    for (Body& body : running) {
      body.from += blocks * Md5::block_size;
      body.blocks -= blocks;
    }
  }

  // Fewer bodies are quicker one after the other: a step for all lanes takes more than twice as long as one alone.
  static constexpr size_t worthwhile = 3;

  const size_t lanes_;
  const SideBySide add_blocks_;
  std::vector<Body> waiting_;
};

Md5::Lanes Md5::lanes_here() {
#if defined(__x86_64__)
  static const bool has_avx512 = __builtin_cpu_supports("avx512vl");
  if (has_avx2()) return has_avx512 ? Lanes::eight_of_avx512 : Lanes::eight;
#endif
  return Lanes::four;
}

void Md5::update_all(std::span<const More> list, Lanes lanes) {
  if (lanes == Lanes::one || list.size() == 1) {
    for (const More& one : list) one.digest->update(one.bytes);
    return;
  }
  Md5Lanes bodies(lanes);
  for (const More& one : list) bodies.add(one);
  bodies.run();
}

void Md5::update(Bytes bytes) {
  const Bytes rest = complete_block(bytes);
  const size_t blocks = rest.size() / block_size;
  add_blocks(state_, rest.data(), blocks);
  keep(rest.subspan(blocks * block_size));
}

Bytes Md5::complete_block(Bytes bytes) {
  const size_t begun = size_ % block_size;
  size_ += bytes.size();
  if (begun == 0) return bytes;
  const size_t missing = std::min(block_size - begun, bytes.size());
  std::ranges::copy(bytes.first(missing), kept_.begin() + begun);
  if (begun + missing == block_size) add_blocks(state_, kept_.data(), 1);
  return bytes.subspan(missing);
}

void Md5::keep(Bytes rest) { std::ranges::copy(rest, kept_.begin()); }

std::array<std::byte, Md5::digest_size> Md5::finish() {
  const uint64_t bits = size_ * 8;
  static constexpr std::array<std::byte, block_size> padding{std::byte{0x80}};
  const size_t begun = size_ % block_size;
  update(Bytes(padding).first(begun < 56 ? 56 - begun : 120 - begun));
  update(std::as_bytes(std::span(&bits, 1)));
  return std::bit_cast<std::array<std::byte, digest_size>>(state_);
}

}  // namespace verbena
