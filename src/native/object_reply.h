// Encodes S3's answer about an object into a reply.
#pragma once

#include "native/wire/bodies.h"
#include "s3/reply_headers.h"
#include "store/store.h"

namespace verbena::native {

struct ObjectAnswer {
  bool partial = false;
  uint64_t length = 0;
  wire::Few<wire::Placed, wire::ranges_max> ranges;
};

// False if it does not fit. `version`: of the session's protocol. `inline_size`: bytes that will follow. `said`: the
// computed headers; none if the request did not ask for them.
bool encode_answer(wire::Writer& out, const store::ObjectInfo& info, const ObjectAnswer& answer, unsigned version,
                   uint32_t inline_size, bool full_headers, const s3::ReplyHeaders& said);

}  // namespace verbena::native
