#include "memory/crc_kernel.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/crc_combine.h"

namespace verbena::memory::cuda {
namespace {

// Bytes of a word, which is as wide as the CRC.
uint64_t word_of(Algorithm algorithm) { return digest_size(algorithm); }
uint64_t ones(Algorithm algorithm) { return ~uint64_t{0} >> (64 - 8 * word_of(algorithm)); }
uint64_t top_bit(Algorithm algorithm) { return ones(algorithm) ^ (ones(algorithm) >> 1); }

// The register after so many zero bytes: a multiplication by x^(8 * bytes).
uint64_t after_zeros(Algorithm algorithm, uint64_t crc, uint64_t bytes) {
  return combine_crcs_of(algorithm, crc, 0, bytes);
}

// x^n modulo the polynomial of degree n is what remains of that polynomial. The top bit stands for x^0.
uint64_t polynomial(Algorithm algorithm) { return after_zeros(algorithm, top_bit(algorithm), word_of(algorithm)); }

// Words of the range, which is aligned to them.
struct Words {
  uint64_t lead = 0;  // bytes of the first word before the range
  uint64_t count = 0;
  uint64_t pad = 0;  // bytes of the last word behind it
};
Words words_of(Algorithm algorithm, uint64_t address, uint64_t size) {
  const uint64_t word = word_of(algorithm);
  Words out{.lead = address % word};
  out.count = (out.lead + size + word - 1) / word;
  out.pad = out.count * word - out.lead - size;
  return out;
}

std::string table(const char* name, uint64_t word, const std::vector<uint64_t>& values) {
  const std::string type = word == 4 ? ".u32 " : ".u64 ";
  std::string out = ".global .align 8 " + type + name + "[" + std::to_string(values.size()) + "] = {";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out += i % 8 == 0 ? ",\n" : ", ";
    out += std::to_string(values[i]) + (word == 8 ? "U" : "");
  }
  return out + "};\n";
}

// $B bits of a word, $W its bytes, $L the binary logarithm of those.
std::string with_width(std::string_view text, uint64_t word) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      out += text[i];
      continue;
    }
    const char what = text[++i];
    out += std::to_string(what == 'B' ? 8 * word : what == 'W' ? word : static_cast<uint64_t>(std::countr_zero(word)));
  }
  return out;
}

// Registers: %r 32 bits, %a 64 bits (addresses, sizes, numbers of words), %w words.
constexpr std::string_view head = R"(.visible .entry verbena_crc(
  .param .u64 p_address,
  .param .u64 p_size,
  .param .u64 p_first)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %a<16>;
  .reg .b$B %w<8>;
  .shared .align 8 .b$B held[crc_tables_size];
  .shared .align 8 .b$B sums[256];

  // The tables into shared memory.
  mov.u32 %r0, %tid.x;
  cvt.u64.u32 %a0, %r0;
  shl.b64 %a1, %a0, $L;
  mov.u64 %a2, crc_tables;
  add.u64 %a2, %a2, %a1;
  shl.b32 %r1, %r0, $L;
  mov.u32 %r2, held;
  add.u32 %r3, %r2, %r1;
)";

constexpr std::string_view places = R"(  bar.sync 0;

  // %a3 the first word's address, %a4 the number of words, %w0 and %w1 what counts of the first and last one.
  ld.param.u64 %a3, [p_address];
  ld.param.u64 %a4, [p_size];
  and.b64 %a5, %a3, ($W-1);
  sub.u64 %a3, %a3, %a5;
  add.u64 %a6, %a4, %a5;
  add.u64 %a4, %a6, ($W-1);
  shr.u64 %a4, %a4, $L;
  shl.b64 %a7, %a4, $L;
  sub.u64 %a7, %a7, %a6;
  mov.b$B %w0, all_ones;
  mov.b$B %w1, all_ones;
  cvt.u32.u64 %r4, %a5;
  shl.b32 %r4, %r4, 3;
  shl.b$B %w0, %w0, %r4;
  cvt.u32.u64 %r4, %a7;
  shl.b32 %r4, %r4, 3;
  shr.u$B %w1, %w1, %r4;

  // %a8 the block's first word, %a9 its words, %a10 this thread's first one (negative: a zero in front of them).
  mov.u32 %r5, %ctaid.x;
  cvt.u64.u32 %a15, %r5;
  mul.lo.u64 %a8, %a15, block_words;
  sub.u64 %a9, %a4, %a8;
  min.u64 %a9, %a9, block_words;
  neg.s64 %a10, %a9;
  and.b64 %a10, %a10, 255;
  sub.s64 %a10, %a0, %a10;

  // %a11 the same in the range, %a12 its address, %a13 the last word in the range.
  add.s64 %a11, %a8, %a10;
  shl.b64 %a12, %a11, $L;
  add.s64 %a12, %a3, %a12;
  sub.u64 %a13, %a4, 1;
  mov.b$B %w2, 0;
  setp.lt.s64 %p0, %a10, 0;
  @%p0 bra NEXT;
WORD:
  ld.global.b$B %w3, [%a12];
  setp.eq.u64 %p1, %a11, 0;
  @%p1 and.b$B %w3, %w3, %w0;
  setp.eq.u64 %p1, %a11, %a13;
  @%p1 and.b$B %w3, %w3, %w1;
)";

constexpr std::string_view multiply = R"(  mov.b$B %w2, %w3;
NEXT:
  add.s64 %a10, %a10, 256;
  add.s64 %a11, %a11, 256;
  add.u64 %a12, %a12, round_bytes;
  setp.lt.s64 %p0, %a10, %a9;
  @%p0 bra WORD;

  // To this thread's place: %w4 the power of x, bit by bit, %w5 the product.
  mov.u64 %a14, crc_powers;
  add.u64 %a14, %a14, %a1;
  ld.global.b$B %w4, [%a14];
  mov.b$B %w5, 0;
  mov.u32 %r6, $B;
BIT:
  shr.s$B %w6, %w4, top_place;
  and.b$B %w6, %w6, %w2;
  xor.b$B %w5, %w5, %w6;
  shl.b$B %w4, %w4, 1;
  and.b$B %w6, %w2, 1;
  neg.s$B %w6, %w6;
  and.b$B %w6, %w6, polynomial;
  shr.u$B %w2, %w2, 1;
  xor.b$B %w2, %w2, %w6;
  sub.u32 %r6, %r6, 1;
  setp.ne.u32 %p0, %r6, 0;
  @%p0 bra BIT;

  // The sum of all threads.
  mov.u32 %r7, sums;
  add.u32 %r7, %r7, %r1;
  st.shared.b$B [%r7], %w5;
)";

constexpr std::string_view tail = R"(  bar.sync 0;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 ret;
  ld.shared.b$B %w6, [%r7+$W];
  xor.b$B %w5, %w5, %w6;
  ld.param.u64 %a6, [p_first];
  add.u64 %a6, %a6, %a15;
  shl.b64 %a6, %a6, 3;
  mov.u64 %a7, crc_results;
  add.u64 %a7, %a7, %a6;
)";

// %w3, the word, plus %w2 times x^(256 words).
std::string look_up(uint64_t word) {
  std::string out;
  for (uint64_t byte = 0; byte < word; ++byte) {
    if (byte == 0) {
      out += "  and.b$B %w4, %w2, 255;\n";
    } else {
      out += "  shr.u$B %w4, %w2, " + std::to_string(8 * byte) + ";\n";
      if (byte + 1 < word) out += "  and.b$B %w4, %w4, 255;\n";
    }
    out += word == 4 ? "  mov.b32 %r4, %w4;\n" : "  cvt.u32.u64 %r4, %w4;\n";
    out += "  shl.b32 %r4, %r4, $L;\n  add.u32 %r4, %r4, %r2;\n";
    out += "  ld.shared.b$B %w5, [%r4+" + std::to_string(byte * 256 * word) + "];\n  xor.b$B %w3, %w3, %w5;\n";
  }
  return out;
}

void replace(std::string& text, std::string_view name, const std::string& value) {
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + value.size())) {
    text.replace(at, name.size(), value);
  }
}

std::string entry(Algorithm algorithm) {
  const uint64_t word = word_of(algorithm);
  std::string text(head);
  for (uint64_t i = 0; i < word; ++i) {
    const std::string at = std::to_string(i * crc_threads * word);
    text += "  ld.global.b$B %w0, [%a2+" + at + "];\n  st.shared.b$B [%r3+" + at + "], %w0;\n";
  }
  text += places;
  text += look_up(word);
  text += multiply;
  for (unsigned half = crc_threads / 2; half != 1; half /= 2) {
    text += "  bar.sync 0;\n  setp.lt.u32 %p0, %r0, " + std::to_string(half) + ";\n";
    text += "  @%p0 ld.shared.b$B %w6, [%r7+" + std::to_string(half * word) + "];\n";
    text += "  @%p0 xor.b$B %w5, %w5, %w6;\n  @%p0 st.shared.b$B [%r7], %w5;\n";
  }
  text += tail;
  text += word == 4 ? "  cvt.u64.u32 %a8, %w5;\n  st.global.b64 [%a7], %a8;\n" : "  st.global.b64 [%a7], %w5;\n";
  text += "  ret;\n}\n";
  text = with_width(text, word);
  replace(text, "(" + std::to_string(word) + "-1)", std::to_string(word - 1));
  replace(text, "crc_tables_size", std::to_string(256 * word));
  replace(text, "all_ones", word == 4 ? "0xffffffff" : "0xffffffffffffffff");
  replace(text, "block_words", std::to_string(crc_block / word));
  replace(text, "round_bytes", std::to_string(crc_threads * word));
  replace(text, "top_place", std::to_string(8 * word - 1));
  replace(text, "polynomial", std::to_string(polynomial(algorithm)) + (word == 8 ? "U" : ""));
  return text;
}

}  // namespace

bool has_crc_kernel(Algorithm algorithm) {
  return algorithm == Algorithm::crc32c || algorithm == Algorithm::crc32 || algorithm == Algorithm::crc64nvme;
}

std::string crc_kernel(Algorithm algorithm) {
  const uint64_t word = word_of(algorithm);
  std::vector<uint64_t> steps, powers;
  for (uint64_t byte = 0; byte < word; ++byte) {
    for (uint64_t value = 0; value < 256; ++value) {
      steps.push_back(after_zeros(algorithm, value << (8 * byte), crc_threads * word));
    }
  }
  for (uint64_t thread = 0; thread < crc_threads; ++thread) {
    powers.push_back(after_zeros(algorithm, top_bit(algorithm), word * (crc_threads - thread)));
  }
  return ".version 6.0\n.target sm_50\n.address_size 64\n\n" + table("crc_tables", word, steps) +
         table("crc_powers", word, powers) + ".global .align 8 .u64 " + crc_results + "[" +
         std::to_string(crc_results_max) + "];\n\n" + entry(algorithm);
}

size_t crc_blocks(Algorithm algorithm, uint64_t address, uint64_t size) {
  const uint64_t bytes = words_of(algorithm, address, size).count * word_of(algorithm);
  return (bytes + crc_block - 1) / crc_block;
}

uint64_t join_crc(Algorithm algorithm, uint64_t address, uint64_t size, std::span<const uint64_t> registers) {
  const Words words = words_of(algorithm, address, size);
  const uint64_t word = word_of(algorithm), block = crc_block / word;
  uint64_t all = 0;
  for (size_t i = 0; i < registers.size(); ++i) {
    all = combine_crcs_of(algorithm, all, registers[i], word * std::min(block, words.count - i * block));
  }
  // The zeros behind the range taken back: the polynomial's own top bit is set, and so says which steps added it.
  for (uint64_t bit = 0; bit < 8 * words.pad; ++bit) {
    const bool added = (all & top_bit(algorithm)) != 0;
    if (added) all ^= polynomial(algorithm);
    all = (all << 1 | (added ? 1 : 0)) & ones(algorithm);
  }
  return combine_crcs_of(algorithm, ones(algorithm), all, size) ^ ones(algorithm);
}

}  // namespace verbena::memory::cuda
