#include "s3/address.h"

#include <algorithm>

#include "auth/auth.h"

namespace verbena::s3 {
namespace {

// "photos.s3.example.org" under the domain "s3.example.org" is the bucket "photos"; bucket names may hold periods.
std::string_view bucket_of_host(std::string_view host, std::string_view domain) {
  if (domain.empty() || host.size() < domain.size() + 2) return {};
  if (!host.ends_with(domain) || host[host.size() - domain.size() - 1] != '.') return {};
  return host.substr(0, host.size() - domain.size() - 1);
}

}  // namespace

Result<Address> resolve_address(std::string_view host, std::string_view raw_path, std::string_view domain) {
  if (raw_path.empty() || raw_path.front() != '/') return fail(Errc::invalid_uri, "path");
  raw_path.remove_prefix(1);
  Address address;
  std::string_view bucket = bucket_of_host(host, domain);
  if (bucket.empty()) bucket = bucket_of_host(host, "localhost");
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
