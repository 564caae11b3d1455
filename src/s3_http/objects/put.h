// Common parts of PutObject, UploadPart and a browser's form over HTTP.
#pragma once

#include "s3/service.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// Bucket, key, checksums and conditions of a PUT or UploadPart. Object headers are read for whole objects only.
// `by_rdma`: its bytes do not come in the body.
Result<PutRequest> read_put_request(const Context& context, bool whole_object, bool by_rdma);

// 200 with ETag and checksums.
void fill_put_response(Context& context, const store::ObjectInfo& info);

}  // namespace verbena::s3
