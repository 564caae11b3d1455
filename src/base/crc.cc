// CRC32, CRC32C (ISA-L), CRC64NVME (our own: Debian 12's ISA-L has none), and the CRC of concatenations.
#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/checksum.h"
#include "base/crc64_fold.h"
#include "base/crc_combine.h"
#include "base/crc_tables.h"
#include "base/processor.h"

namespace verbena {
namespace {

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
  if (is_emulated()) return ~crc_by_table<uint32_t, crc32c_polynomial>(~seed, data);
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
  if (is_emulated()) return ~crc_by_table<uint32_t, crc32_polynomial>(~seed, data);
  return crc32_gzip_refl(seed, reinterpret_cast<const unsigned char*>(data.data()), data.size());
}

uint64_t crc64_nvme(Bytes data, uint64_t seed) {
  uint64_t state = ~seed;
  if (data.size() >= crc64_fold_size_min && crc64_can_fold()) {
    std::byte folded[16];
    data = data.subspan(crc64_fold(state, data, folded));
    state = crc_by_table<uint64_t, crc64_nvme_polynomial>(0, folded);
  }
  return ~crc_by_table<uint64_t, crc64_nvme_polynomial>(state, data);
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
