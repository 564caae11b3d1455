// PUT's inner parts, shared with parts of uploads and copies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "s3/access/quota.h"
#include "s3/context.h"
#include "s3/objects/body_digests.h"
#include "s3/service.h"

namespace verbena::s3 {

// An entity tag that is no MD5 and does not look like one.
std::string random_etag();

// Whether each that is expected is among those that were computed: malformed_trailer, bad_digest.
Result<void> verify_checksums(const std::vector<store::Checksum>& expected,
                              const std::vector<store::Checksum>& computed);

// Reads the body to its end into the writer and verifies what the request expects. Returns size, etag and checksums.
// Memory is leased when bytes are there, in the name of the caller's address; slow_down: there was none for too long.
// `room`: what was set aside for a body of a declared length; for another it grows with what comes, and quota_exceeded
// is an error, too. `charge` (may be null) is told of each byte that comes, whatever becomes of the body.
Task<Result<store::ObjectInfo>> ingest(Service& service, const Call& caller, store::ObjectWriter& writer,
                                       const PutRequest& request, memory::Source& body, Reservation& room,
                                       ByteCharge* charge);

// Bucket, key, checksums and conditions of a PUT or UploadPart. Object headers are read for whole objects only.
Result<PutRequest> read_put_request(const Context& context, bool whole_object);

// 200 with ETag and checksums.
void fill_put_response(Context& context, const store::ObjectInfo& info);

}  // namespace verbena::s3
