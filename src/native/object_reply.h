// From what S3 says of an object to the reply's fields.
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

// False when it does not fit. `version`: of the session's protocol. `inline_size` bytes are to follow. `said`: what S3
// works out, none where the request did not ask.
bool encode_answer(wire::Writer& out, const store::ObjectInfo& info, const ObjectAnswer& answer, unsigned version,
                   uint32_t inline_size, bool full_headers, const s3::ReplyHeaders& said);

}  // namespace verbena::native
