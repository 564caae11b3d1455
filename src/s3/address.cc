#include "s3/address.h"

#include <algorithm>

#include "auth/auth.h"

namespace verbena::s3 {
Result<Address> resolve_address(std::string_view host, std::string_view raw_path, std::string_view domain) {
  if (raw_path.empty() || raw_path.front() != '/') return fail(Errc::invalid_uri, "path");
  raw_path.remove_prefix(1);
  Address address;
  const std::string_view bucket = auth::virtual_bucket(host, domain);
  if (!bucket.empty()) {
    address.bucket = bucket;
  } else {
    const size_t slash = std::min(raw_path.find('/'), raw_path.size());
    auto name = auth::uri_decode(raw_path.substr(0, slash));
    if (!name) return fail(Errc::invalid_uri, "path: percent escape");
    address.bucket = std::move(*name);
    raw_path.remove_prefix(std::min(slash + 1, raw_path.size()));
    // "//key" names a key in no bucket.
    if (address.bucket.empty() && !raw_path.empty()) return fail(Errc::invalid_uri, "path: empty bucket");
  }
  auto key = auth::uri_decode(raw_path);
  if (!key) return fail(Errc::invalid_uri, "path: percent escape");
  address.key = std::move(*key);
  return address;
}

}  // namespace verbena::s3
