// The extra elements of an error, which have names and headers of the request in them.
#pragma once

#include "s3/types.h"
#include "s3/xml.h"

namespace verbena::s3 {

// What XML 1.0 cannot carry (control characters, invalid UTF-8) is replaced: clients could not parse the error.
void write_error_fields(XmlWriter& xml, const Headers& fields);

}  // namespace verbena::s3
