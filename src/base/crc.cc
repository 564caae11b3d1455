// CRC32, CRC32C (ISA-L), CRC64NVME (our own: Debian 12's ISA-L has none), and the CRC of concatenations.
#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/checksum.h"
#include "base/crc64_fold.h"
#include "base/crc_combine.h"

namespace verbena {
namespace {

constexpr uint32_t crc32_polynomial = 0xedb88320;               // reflected 0x04c11db7
constexpr uint32_t crc32c_polynomial = 0x82f63b78;              // reflected 0x1edc6f41
constexpr uint64_t crc64_nvme_polynomial = 0x9a6c9329ac4bc9b5;  // reflected 0xad93d23594c93659

// Slicing by 16: sixteen tables, sixteen bytes a step.
using Tables = std::array<std::array<uint64_t, 256>, 16>;
const Tables& crc64_tables() {
  static const Tables tables = [] {
    Tables t{};
    for (unsigned i = 0; i < 256; ++i) {
      uint64_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? crc64_nvme_polynomial : 0);
      t[0][i] = crc;
    }
    for (unsigned i = 0; i < 256; ++i) {
      for (size_t k = 1; k < t.size(); ++k) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xff];
    }
    return t;
  }();
  return tables;
}

// The register's value after `data`.
uint64_t crc64_by_table(uint64_t crc, Bytes data) {
  const Tables& t = crc64_tables();
  const auto* p = reinterpret_cast<const uint8_t*>(data.data());
  size_t n = data.size();
  for (; n >= 16; n -= 16, p += 16) {
    uint64_t a = 0;
    uint64_t b = 0;
    std::memcpy(&a, p, 8);
    std::memcpy(&b, p + 8, 8);
    a ^= crc;
    crc = t[15][a & 0xff] ^ t[14][a >> 8 & 0xff] ^ t[13][a >> 16 & 0xff] ^ t[12][a >> 24 & 0xff] ^
          t[11][a >> 32 & 0xff] ^ t[10][a >> 40 & 0xff] ^ t[9][a >> 48 & 0xff] ^ t[8][a >> 56] ^ t[7][b & 0xff] ^
          t[6][b >> 8 & 0xff] ^ t[5][b >> 16 & 0xff] ^ t[4][b >> 24 & 0xff] ^ t[3][b >> 32 & 0xff] ^
          t[2][b >> 40 & 0xff] ^ t[1][b >> 48 & 0xff] ^ t[0][b >> 56];
  }
  for (; n > 0; --n, ++p) crc = (crc >> 8) ^ t[0][(crc ^ *p) & 0xff];
  return crc;
}

// Polynomials over GF(2) modulo the CRC's, reflected: the top bit stands for x^0.
template <class U>
constexpr U multiply(U a, U b, U polynomial) {
  constexpr int top = sizeof(U) * 8 - 1;
  U product = 0;
  for (int bit = top; bit >= 0; --bit) {  // without a branch: the bits are as good as random
    product ^= b & (U{0} - (a >> bit & 1));
    b = (b >> 1) ^ (polynomial & (U{0} - (b & 1)));
  }
  return product;
}

// x^8, x^16, x^32, ...: squares of squares.
template <class U>
using Powers = std::array<U, 64>;
template <class U>
constexpr Powers<U> make_powers(U polynomial) {
  Powers<U> powers{};
  powers[0] = U{1} << (sizeof(U) * 8 - 1) >> 8;
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = multiply(powers[i - 1], powers[i - 1], polynomial);
  return powers;
}
constexpr auto crc32_powers = make_powers(crc32_polynomial);
constexpr auto crc32c_powers = make_powers(crc32c_polynomial);
constexpr auto crc64_nvme_powers = make_powers(crc64_nvme_polynomial);

// `crc` times x^(8 * bytes): the register after this many zero bytes.
template <class U>
U shift(U crc, uint64_t bytes, const Powers<U>& powers, U polynomial) {
  for (; bytes != 0; bytes &= bytes - 1) {
    crc = multiply(powers[static_cast<size_t>(std::countr_zero(bytes))], crc, polynomial);
  }
  return crc;
}

}  // namespace

// ISA-L's crc32_iscsi works on the raw register; crc32_gzip_refl inverts by itself.
uint32_t crc32c(Bytes data, uint32_t seed) {
  auto* p = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(data.data()));
  uint32_t crc = ~seed;
  for (size_t left = data.size(); left > 0;) {
    const int n = static_cast<int>(std::min<size_t>(left, 1 << 30));
    crc = crc32_iscsi(p, n, crc);
    p += n;
    left -= static_cast<size_t>(n);
  }
  return ~crc;
}

uint32_t crc32(Bytes data, uint32_t seed) {
  return crc32_gzip_refl(seed, reinterpret_cast<const unsigned char*>(data.data()), data.size());
}

uint64_t crc64_nvme(Bytes data, uint64_t seed) {
  uint64_t state = ~seed;
  if (data.size() >= crc64_fold_size_min && crc64_can_fold()) {
    std::byte folded[16];
    data = data.subspan(crc64_fold(state, data, folded));
    state = crc64_by_table(0, folded);
  }
  return ~crc64_by_table(state, data);
}

uint32_t crc32_combine(uint32_t a, uint32_t b, uint64_t b_size) {
  return shift(a, b_size, crc32_powers, crc32_polynomial) ^ b;
}
uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t b_size) {
  return shift(a, b_size, crc32c_powers, crc32c_polynomial) ^ b;
}
uint64_t crc64_nvme_combine(uint64_t a, uint64_t b, uint64_t b_size) {
  return shift(a, b_size, crc64_nvme_powers, crc64_nvme_polynomial) ^ b;
}

uint64_t combine_crcs_of(Algorithm algorithm, uint64_t a, uint64_t b, uint64_t b_size) {
  if (algorithm == Algorithm::crc64nvme) return crc64_nvme_combine(a, b, b_size);
  const auto combine = algorithm == Algorithm::crc32 ? crc32_combine : crc32c_combine;
  return combine(static_cast<uint32_t>(a), static_cast<uint32_t>(b), b_size);
}

}  // namespace verbena
