// The contents of buckets and accounts in numbers, as counted by the server with every change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/client_flags.h"

namespace verbena::cli {

struct BucketUsage {
  uint64_t objects = 0, bytes = 0, versions = 0, version_bytes = 0, delete_markers = 0, uploads = 0, upload_bytes = 0;
};

// nullopt: not available, for any reason; a listing will report the error.
std::optional<BucketUsage> bucket_usage(const ClientOptions& options, const std::string& bucket);

// `verbena du --account`: a line for each bucket, and one for all. Requires the server's root keys.
int show_account_usage(const ClientFlags& flags, const std::string& account, bool human, bool json);

}  // namespace verbena::cli
