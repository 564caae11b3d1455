// CRCs by tables: for what is left behind vectors, and for processors on which an instruction is slower.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"

namespace verbena {

inline constexpr uint32_t crc32_polynomial = 0xedb88320;               // reflected 0x04c11db7
inline constexpr uint32_t crc32c_polynomial = 0x82f63b78;              // reflected 0x1edc6f41
inline constexpr uint64_t crc64_nvme_polynomial = 0x9a6c9329ac4bc9b5;  // reflected 0xad93d23594c93659

// Slicing by 16: sixteen tables, sixteen bytes a step.
template <class U>
using CrcTables = std::array<std::array<U, 256>, 16>;
template <class U, U polynomial>
const CrcTables<U>& crc_tables_of() {
  static const CrcTables<U> tables = [] {
    CrcTables<U> t{};
    for (unsigned i = 0; i < 256; ++i) {
      U crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
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
template <class U, U polynomial>
U crc_by_table(U crc, Bytes data) {
  const CrcTables<U>& t = crc_tables_of<U, polynomial>();
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

}  // namespace verbena
