// The headers that S3 works out when it answers about an object, for doors that have no HTTP answer to write them to:
// how it is encrypted, how many tags it has, its lock, and when it will expire. What is stored with an object is in its
// ObjectInfo::headers.
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

// False, and nothing was added: the bucket's record is not at hand, and add_said_headers() fetches it.
bool add_said_headers_now(const Service& service, Said said, std::string_view bucket, std::string_view key,
                          const store::ObjectInfo& info, ReplyHeaders& out);
// Arguments outlive it.
Task<> add_said_headers(Service& service, Said said, const std::string& bucket, const std::string& key,
                        const store::ObjectInfo& info, ReplyHeaders& out);

}  // namespace verbena::s3
