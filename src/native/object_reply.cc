#include "native/object_reply.h"

namespace verbena::native {

bool encode_answer(wire::Writer& out, const store::ObjectInfo& info, const ObjectAnswer& answer, unsigned version,
                   uint32_t inline_size, bool full_headers, const s3::ReplyHeaders& said) {
  wire::ObjectReply reply;
  reply.partial = answer.partial;
  reply.length = answer.length;
  reply.object_size = info.size;
  reply.modified_us = info.modified_us;
  reply.parts = static_cast<uint32_t>(info.parts.size());
  reply.etag = info.etag;
  reply.version = info.version_id;
  reply.ranges = answer.ranges;
  reply.inline_size = inline_size;
  for (const store::Checksum& sum : info.checksums) {
    if (!wire::is_known_to(version, sum.algorithm)) continue;
    if (!reply.checksums.add({sum.algorithm, sum.parts, sum.value})) return false;
  }
  if (full_headers) {
    for (const auto& [name, value] : info.headers) {
      if (!reply.headers.add({name, value})) return false;
    }
  }
  for (const auto [name, value] : said) {
    if (!reply.headers.add({name, value})) return false;
  }
  return encode(out, reply);
}

}  // namespace verbena::native
