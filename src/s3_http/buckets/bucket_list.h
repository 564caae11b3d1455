// Lists of buckets: ListBuckets and ListDirectoryBuckets.
#pragma once

#include <string>
#include <vector>

#include "s3/xml.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// Writes <Buckets>. Charges the answer, and yields: there may be 10,000 of them.
Task<Result<void>> write_buckets(Context& context, XmlWriter& xml, const std::vector<store::BucketInfo>& buckets);

}  // namespace verbena::s3
