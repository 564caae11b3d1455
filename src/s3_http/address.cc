#include "s3_http/address.h"

#include <algorithm>

#include "auth/auth.h"

namespace verbena::s3 {
namespace {

// Most names need no decoding.
bool decode_name(std::string_view text, std::string& into) {
  if (text.find('%') == std::string_view::npos) {
    into.assign(text);
    return true;
  }
  auto decoded = auth::uri_decode(text);
  if (decoded) into = std::move(*decoded);
  return decoded.has_value();
}

}  // namespace

Result<Address> resolve_address(std::string_view host, std::string_view raw_path, std::string_view domain) {
  if (raw_path.empty() || raw_path.front() != '/') return fail(Errc::invalid_uri, "path");
  raw_path.remove_prefix(1);
  Address address;
  const std::string_view bucket = auth::virtual_bucket(host, domain);
  if (!bucket.empty()) {
    address.bucket = bucket;
  } else {
    const size_t slash = std::min(raw_path.find('/'), raw_path.size());
    if (!decode_name(raw_path.substr(0, slash), address.bucket)) return fail(Errc::invalid_uri, "path: percent escape");
    raw_path.remove_prefix(std::min(slash + 1, raw_path.size()));
    // "//key" names a key in no bucket.
    if (address.bucket.empty() && !raw_path.empty()) return fail(Errc::invalid_uri, "path: empty bucket");
  }
  if (!decode_name(raw_path, address.key)) return fail(Errc::invalid_uri, "path: percent escape");
  return address;
}

}  // namespace verbena::s3
