// Moves the body of an object or part into the store's writer, and verifies it.
#pragma once

#include <string>
#include <vector>

#include "s3/access/quota.h"
#include "s3/service.h"

namespace verbena::s3 {

struct BucketAccess;
class Seal;

inline constexpr uint64_t put_size_max = 5 * GiB;  // S3: larger objects are uploaded in parts

// A random entity tag, which does not look like an MD5.
std::string random_etag();
// Whether the entity tag of an object of one body is its MD5: not where that would reveal the plain bytes, nor in a
// bucket whose entity tags are no MD5s.
bool has_md5_etag(const BucketAccess& access, const Seal& seal);

// Checks that each expected checksum is among the computed ones: malformed_trailer, bad_digest.
Result<void> verify_checksums(const std::vector<store::Checksum>& expected,
                              const std::vector<store::Checksum>& computed);

// Reads the body to its end into the writer and verifies what the request expects. Returns size, etag and checksums.
// Memory is leased when bytes have arrived, charged to the caller's address; slow_down: there was none for too long.
// `room`: reserved for a body of a declared length; for others it grows with the received bytes (quota_exceeded).
// `charge` (may be null) counts each received byte, whether or not the body is stored.
Task<Result<store::ObjectInfo>> ingest(Service& service, const Call& call, store::ObjectWriter& writer,
                                       const PutRequest& request, memory::Source& body, Reservation& room,
                                       ByteCharge* charge);

}  // namespace verbena::s3
