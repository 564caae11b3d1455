#include "simulator/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checksum.h"

namespace verbena::simulator {

namespace {

std::string make_bytes(uint32_t value, size_t size) {
  std::string bytes(size, '\0');
  uint64_t next = value;
  for (size_t at = 0; at < size; at += 8) {
    std::memcpy(bytes.data() + at, &next, std::min<size_t>(8, size - at));
    next = (next ^ value) * 0x9e3779b97f4a7c15u;
    next ^= next >> 29;
  }
  return bytes;
}

}  // namespace

// A digest takes locks, where another thread may go on and add one, too.
uint32_t Values::add(size_t size, bool of_one_part) {
  const auto value = static_cast<uint32_t>(bytes_.size());
  bytes_.push_back(make_bytes(value, size));
  etags_.emplace_back();
  plain_etags_.emplace_back();
  parts_.emplace_back();
  Digest digest(Algorithm::md5);
  digest.update(as_bytes(bytes(value)));
  std::string etag = digest.finish_hex();
  names_.emplace(etag, value);
  plain_etags_[value] = etag;
  if (of_one_part) {
    Digest of_parts(Algorithm::md5);
    of_parts.update(*from_hex(etag));
    etag = of_parts.finish_hex() + "-1";
    names_.emplace(etag, value);
  }
  etags_[value] = std::move(etag);
  return value;
}

uint32_t Values::join(const std::vector<Part>& parts, bool& is_new) {
  std::string bytes;
  Digest of_parts(Algorithm::md5), of_bytes(Algorithm::md5);
  for (const Part& part : parts) {
    of_parts.update(*from_hex(plain_etag(part.value)));
    bytes += this->bytes(part.value);
  }
  of_bytes.update(as_bytes(bytes));
  std::string etag = fmt::format("{}-{}", of_parts.finish_hex(), parts.size());
  std::string plain = of_bytes.finish_hex();
  const auto [named, is_first] = names_.emplace(etag, static_cast<uint32_t>(bytes_.size()));
  if (is_first) {
    names_.emplace(plain, named->second);
    bytes_.push_back(std::move(bytes));
    etags_.push_back(std::move(etag));
    plain_etags_.push_back(std::move(plain));
    parts_.emplace_back();
  }
  is_new = parts_[named->second].empty();
  parts_[named->second] = parts;
  return named->second;
}

bool Values::may_lack(uint32_t value, int number) const {
  return number != 1 ||
         (!parts(value).empty() && std::ranges::find(parts(value), 1, &Part::number) == parts(value).end());
}

bool Values::recognize(const std::string& etag, std::string_view bytes, uint32_t& value) const {
  value = named(etag);
  return value != 0 && this->bytes(value) == bytes;
}

uint32_t Values::named(const std::string& etag) const {
  const auto found = names_.find(etag);
  return found == names_.end() ? 0 : found->second;
}

bool Values::split(const std::string& bytes, std::vector<uint32_t>& into) const {
  for (size_t at = 0; at < bytes.size();) {
    uint64_t value = 0;
    if (bytes.size() - at < sizeof value) return false;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (value == 0 || value >= bytes_.size()) return false;
    const std::string& wanted = bytes_[value];
    const size_t size = wanted.size();
    if (size == 0 || bytes.size() - at < size || bytes.compare(at, size, wanted) != 0) return false;
    into.push_back(static_cast<uint32_t>(value));
    at += size;
  }
  return true;
}

}  // namespace verbena::simulator
