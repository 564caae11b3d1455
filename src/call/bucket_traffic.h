// What the buckets with most traffic had: verbena_bucket_requests_total and verbena_bucket_bytes_total. However many
// buckets there are, and whatever tenants call them, memory and series are bounded.
//
// Each thread counts in a table of its own (no lock, no atomic read-modify-write), direct-mapped by the bucket's name.
// Who asks for the metrics moves what was counted into one table for the process, of a few hundred buckets: there a new
// bucket takes the place of the one with the least traffic, and the biggest are shown.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena::call {

enum class Traffic : uint8_t { get, put, other };

// A request for something in `bucket` that succeeded: invented names are not counted. `requests`: so many of them
// together.
void count_traffic(std::string_view bucket, Traffic kind, uint64_t bytes_in, uint64_t bytes_out, uint64_t requests = 1);

// How many buckets are shown; 0: none, and nothing is counted. From any thread.
void show_buckets(unsigned most);

}  // namespace verbena::call
