// The bucket and key that a request names: path-style (/bucket/key) or virtual-host (bucket.domain/key).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::s3 {

struct Address {
  std::string bucket;  // empty: the service itself
  std::string key;     // empty: the bucket itself
};

// `host` is lower case without port. The path is percent-decoded once; '+' in it is a plus sign.
// invalid_uri for a path that does not start with '/' or has a broken escape.
Result<Address> resolve_address(std::string_view host, std::string_view raw_path, std::string_view domain);

}  // namespace verbena::s3
