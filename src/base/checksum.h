// Checksums and digests, one streaming interface for all.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace verbena {

// Of one buffer; `seed` continues an earlier value. CRC32C guards blocks on disk.
uint32_t crc32c(Bytes data, uint32_t seed = 0);
uint32_t crc32(Bytes data, uint32_t seed = 0);  // ISO-HDLC, as zlib and S3's CRC32
uint64_t crc64_nvme(Bytes data,
                    uint64_t seed = 0);  // S3's CRC64NVME (NVMe NVM command set, reflected 0xad93d23594c93659)

// The CRC of a concatenation from the CRCs of its halves (zlib's crc32_combine, generalised): S3's full-object
// checksum of a multipart upload. `b_size` is the second half's length in bytes.
uint32_t crc32_combine(uint32_t a, uint32_t b, uint64_t b_size);
uint32_t crc32c_combine(uint32_t a, uint32_t b, uint64_t b_size);
uint64_t crc64_nvme_combine(uint64_t a, uint64_t b, uint64_t b_size);

// S3's checksum algorithms. The numbers are on disk and in the native protocol: none may be reassigned.
enum class Algorithm : uint8_t {
  crc32 = 1,
  crc32c = 2,
  crc64nvme = 3,
  sha1 = 4,
  sha256 = 5,
  md5 = 6,
  sha512 = 7,
  xxhash64 = 8,   // XXH64, seed 0
  xxhash3 = 9,    // XXH3 of 64 bits, seed 0
  xxhash128 = 10  // XXH3 of 128 bits, seed 0
};
inline constexpr Algorithm all_algorithms[] = {
    Algorithm::crc32, Algorithm::crc32c, Algorithm::crc64nvme, Algorithm::sha1,    Algorithm::sha256,
    Algorithm::md5,   Algorithm::sha512, Algorithm::xxhash64,  Algorithm::xxhash3, Algorithm::xxhash128};
// Whether an untrusted number is one of them.
constexpr bool is_algorithm(uint8_t number) { return number >= 1 && number <= std::size(all_algorithms); }

// S3's names: "CRC32", "CRC64NVME", "XXHASH3", ... Parsing ignores case.
std::string_view to_string(Algorithm algorithm);
std::optional<Algorithm> parse_algorithm(std::string_view name);
// Bytes of the digest: 4, 4, 8, 20, 32, 16, 64, 8, 8, 16.
size_t digest_size(Algorithm algorithm);

class XxHash;

// One running digest. Not thread-safe. CRCs and XXHASHs come out big-endian, as S3 base64-encodes them.
class Digest {
 public:
  explicit Digest(Algorithm algorithm);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();

  Algorithm algorithm() const { return algorithm_; }
  void update(Bytes data);
  void set_crc(uint64_t crc) { crc_ = crc; }  // of a CRC: the value of all bytes so far, computed elsewhere
  // Ends the digest; the object may not be used afterwards.
  std::string finish();  // raw bytes
  std::string finish_base64();
  std::string finish_hex();

 private:
  struct Evp;
  Algorithm algorithm_;
  uint64_t crc_ = 0;
  std::unique_ptr<Evp> evp_;
  std::unique_ptr<XxHash> xxhash_;
};

// One-shot forms.
std::string sha256(Bytes data);                              // 32 raw bytes
std::string hmac_sha256(Bytes key, Bytes data);              // 32 raw bytes
std::string hmac_sha1(Bytes key, Bytes data);                // 20 raw bytes; for signatures that still use it
uint64_t siphash24(const std::byte (&key)[16], Bytes data);  // SipHash-2-4, 64-bit (Aumasson, Bernstein 2012)

}  // namespace verbena
