// Headers that S3 computes in an answer about an object, for doors without an HTTP response: encryption, number of
// tags, lock and expiration. Stored headers are in ObjectInfo::headers.
#pragma once

#include <string>
#include <string_view>

#include "s3/reply_headers.h"
#include "s3/service.h"

namespace verbena::s3 {

enum class Said : uint8_t {
  of_read,   // GET, HEAD
  of_write,  // PUT: neither tags nor lock
};

// False: nothing was added, because the bucket's record is not cached; add_said_headers() fetches it.
bool add_said_headers_now(const Service& service, Said said, std::string_view bucket, std::string_view key,
                          const store::ObjectInfo& info, ReplyHeaders& out);
// The arguments must outlive it.
Task<> add_said_headers(Service& service, Said said, const std::string& bucket, const std::string& key,
                        const store::ObjectInfo& info, ReplyHeaders& out);

}  // namespace verbena::s3
