// Tags of objects: one header, one document, per version.
#pragma once

#include "s3_http/context.h"

namespace verbena::s3 {

// x-amz-tagging: "key=value&key2=value2", percent-encoded. No header is no tags. Sorted by key. invalid_argument,
// invalid_tag.
Result<store::Tags> read_tagging_header(const Context& context);

}  // namespace verbena::s3
