// The body of an object or part on its way into the store's writer, and what it is checked against.
#pragma once

#include <string>
#include <vector>

#include "s3/access/quota.h"
#include "s3/service.h"

namespace verbena::s3 {

inline constexpr uint64_t put_size_max = 5 * GiB;  // S3: larger objects are uploaded in parts

// An entity tag that is no MD5 and does not look like one.
std::string random_etag();

// Checks that each expected checksum is among the computed ones: malformed_trailer, bad_digest.
Result<void> verify_checksums(const std::vector<store::Checksum>& expected,
                              const std::vector<store::Checksum>& computed);

// Reads the body to its end into the writer and verifies what the request expects. Returns size, etag and checksums.
// Memory is leased when bytes are there, in the name of the caller's address; slow_down: there was none for too long.
// `room`: what was set aside for a body of a declared length; for another it grows with what comes, and quota_exceeded
// is an error, too. `charge` (may be null) counts each byte that comes, whatever becomes of the body.
Task<Result<store::ObjectInfo>> ingest(Service& service, const Call& call, store::ObjectWriter& writer,
                                       const PutRequest& request, memory::Source& body, Reservation& room,
                                       ByteCharge* charge);

}  // namespace verbena::s3
