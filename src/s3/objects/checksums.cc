#include "s3/objects/checksums.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/crc_combine.h"
#include "base/decimal.h"
#include "base/text.h"

namespace verbena::s3 {
namespace {

uint64_t big_endian(std::string_view raw) {
  uint64_t value = 0;
  for (const char c : raw) value = value << 8 | static_cast<uint8_t>(c);
  return value;
}

std::string to_big_endian(uint64_t value, size_t size) {
  std::string raw(size, '\0');
  for (size_t i = size; i-- > 0; value >>= 8) raw[i] = static_cast<char>(value & 0xff);
  return raw;
}

}  // namespace

std::string digest_text(Algorithm algorithm, std::string_view text) {
  Digest digest(algorithm);
  digest.update(as_bytes(text));
  return digest.finish();
}

bool can_be_combined(Algorithm algorithm) {
  return algorithm == Algorithm::crc32 || algorithm == Algorithm::crc32c || algorithm == Algorithm::crc64nvme;
}

std::string checksum_header(Algorithm algorithm) {
  return std::string(checksum_header_prefix) + lower(to_string(algorithm));
}

std::string checksum_element(Algorithm algorithm) { return "Checksum" + std::string(to_string(algorithm)); }

std::string format_checksum(const store::Checksum& checksum) {
  std::string text = to_base64(as_bytes(checksum.value));
  if (checksum.parts != 0) text += "-" + std::to_string(checksum.parts);
  return text;
}

Result<store::Checksum> parse_checksum(Algorithm algorithm, std::string_view text) {
  store::Checksum checksum{algorithm, {}, 0};
  // '-' is not in base64's alphabet.
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto parts = parse_decimal(text.substr(dash + 1));
    if (!parts || *parts < 1 || *parts > store::part_number_max) return fail(Errc::invalid_checksum, "checksum parts");
    checksum.parts = static_cast<uint16_t>(*parts);
    text = text.substr(0, dash);
  }
  const auto raw = from_base64(text);
  if (!raw || raw->size() != digest_size(algorithm)) return fail(Errc::invalid_checksum, "checksum value");
  checksum.value = as_text(*raw);
  return checksum;
}

std::string_view checksum_type(const std::vector<store::Checksum>& checksums) {
  return checksum_type(!checksums.empty() && checksums.front().parts != 0);
}
std::string_view checksum_type(bool composite) { return composite ? "COMPOSITE" : "FULL_OBJECT"; }

void add_default_checksum(PutRequest& put) {
  if (put.md5_etag && put.expected.empty() && !put.compute) put.compute = default_checksum;
}

std::optional<store::Checksum> combine_checksums(Algorithm algorithm, bool full_object,
                                                 const std::vector<store::PartInfo>& parts) {
  if (full_object && !can_be_combined(algorithm)) return std::nullopt;
  std::string values;
  uint64_t crc = 0;
  bool first = true;
  for (const auto& part : parts) {
    const auto has = [&](const store::Checksum& c) { return c.algorithm == algorithm && c.parts == 0; };
    const auto found = std::ranges::find_if(part.checksums, has);
    if (found == part.checksums.end()) return std::nullopt;
    if (!full_object) {
      values += found->value;
      continue;
    }
    crc = first ? big_endian(found->value) : combine_crcs_of(algorithm, crc, big_endian(found->value), part.size);
    first = false;
  }
  if (full_object) return store::Checksum{algorithm, to_big_endian(crc, digest_size(algorithm)), 0};
  return store::Checksum{algorithm, digest_text(algorithm, values), static_cast<uint16_t>(parts.size())};
}

}  // namespace verbena::s3
