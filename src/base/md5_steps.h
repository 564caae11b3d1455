// The steps of MD5 (RFC 1321) over the words w of a block, for numbers and for vectors of them alike. Macros, because a
// function would not be compiled for the vector unit that its caller is compiled for. Internal to md5.cc and
// running_sha256.cc.
#pragma once

#include <cstdint>

namespace verbena::md5 {

// floor(2^32 * abs(sin(i + 1))), from the RFC.
inline constexpr uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

}  // namespace verbena::md5

#define MD5_TURN(a, b, turn) a = ((a << (turn)) | (a >> (32 - (turn)))) + b;
#define MD5_MIX(value, a, b, i, word, turn)               \
  a += (value) + w[(word) % 16] + verbena::md5::sines[i]; \
  MD5_TURN(a, b, turn)
#define MD5_F(a, b, c, d, i, word, turn) MD5_MIX(d ^ (b & (c ^ d)), a, b, i, word, turn)
#define MD5_H(a, b, c, d, i, word, turn) MD5_MIX(b ^ c ^ d, a, b, i, word, turn)
#define MD5_I(a, b, c, d, i, word, turn) MD5_MIX(c ^ (b | ~d), a, b, i, word, turn)
// Two forms of G. For vectors the one with the fewest operations; for one body the one that has the fewest after b, the
// result of the step before, since the chain of steps is all that takes time.
#define MD5_G_LANES(a, b, c, d, i, word, turn) MD5_MIX(c ^ (d & (b ^ c)), a, b, i, word, turn)
#define MD5_G_ALONE(a, b, c, d, i, word, turn)  \
  a += w[(word) % 16] + verbena::md5::sines[i]; \
  a += c & ~d;                                  \
  a += b & d;                                   \
  MD5_TURN(a, b, turn)

#define MD5_FOUR(STEP, i, by, from, t0, t1, t2, t3)        \
  STEP(a, b, c, d, (i), (by) * (i) + (from), t0)           \
  STEP(d, a, b, c, (i) + 1, (by) * ((i) + 1) + (from), t1) \
  STEP(c, d, a, b, (i) + 2, (by) * ((i) + 2) + (from), t2) \
  STEP(b, c, d, a, (i) + 3, (by) * ((i) + 3) + (from), t3)
// Steps 4 q to 4 q + 3 of each of the four rounds.
#define MD5_FOUR_F(q) MD5_FOUR(MD5_F, 4 * (q), 1, 0, 7, 12, 17, 22)
#define MD5_FOUR_G_LANES(q) MD5_FOUR(MD5_G_LANES, 16 + 4 * (q), 5, 1, 5, 9, 14, 20)
#define MD5_FOUR_G_ALONE(q) MD5_FOUR(MD5_G_ALONE, 16 + 4 * (q), 5, 1, 5, 9, 14, 20)
#define MD5_FOUR_H(q) MD5_FOUR(MD5_H, 32 + 4 * (q), 3, 5, 4, 11, 16, 23)
#define MD5_FOUR_I(q) MD5_FOUR(MD5_I, 48 + 4 * (q), 7, 0, 6, 10, 15, 21)
#define MD5_ROUND(FOUR) \
  FOUR(0)               \
  FOUR(1)               \
  FOUR(2)               \
  FOUR(3)
#define MD5_BLOCK(FOUR_G) \
  MD5_ROUND(MD5_FOUR_F)   \
  MD5_ROUND(FOUR_G)       \
  MD5_ROUND(MD5_FOUR_H)   \
  MD5_ROUND(MD5_FOUR_I)
