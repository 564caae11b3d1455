// Checksums and digests, one streaming interface for all.
#pragma once

#include <cstdint>
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

enum class Algorithm : uint8_t { crc32 = 1, crc32c = 2, crc64nvme = 3, sha1 = 4, sha256 = 5, md5 = 6 };

// S3's names: "CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256" ("MD5" for completeness). Parsing ignores case.
std::string_view to_string(Algorithm algorithm);
std::optional<Algorithm> parse_algorithm(std::string_view name);
// Bytes of the digest: 4, 4, 8, 20, 32, 16.
size_t digest_size(Algorithm algorithm);

// One running digest. Not thread-safe. CRCs come out big-endian, as S3 base64-encodes them.
class Digest {
 public:
  explicit Digest(Algorithm algorithm);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();

  Algorithm algorithm() const { return algorithm_; }
  void update(Bytes data);
  // Ends the digest; the object may not be used afterwards.
  std::string finish();  // raw bytes
  std::string finish_base64();
  std::string finish_hex();

 private:
  struct Evp;
  Algorithm algorithm_;
  uint64_t crc_ = 0;
  std::unique_ptr<Evp> evp_;
};

// One-shot forms.
std::string sha256(Bytes data);                              // 32 raw bytes
std::string hmac_sha256(Bytes key, Bytes data);              // 32 raw bytes
std::string hmac_sha1(Bytes key, Bytes data);                // 20 raw bytes; for signatures that still use it
uint64_t siphash24(const std::byte (&key)[16], Bytes data);  // SipHash-2-4, 64-bit (Aumasson, Bernstein 2012)

}  // namespace verbena
