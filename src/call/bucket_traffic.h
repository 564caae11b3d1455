// Traffic of the busiest buckets: verbena_bucket_requests_total and verbena_bucket_bytes_total. Memory and series are
// bounded, however many buckets there are and whatever their names.
//
// Each thread counts in a table of its own (no lock, no atomic read-modify-write), direct-mapped by the bucket's name.
// Reading the metrics moves the counts into one table for the process, with a few hundred buckets: a new bucket
// replaces the one with the least traffic, and the busiest are shown.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena::call {

enum class Traffic : uint8_t { get, put, other };

// Counts a successful request to `bucket`; refused ones are not counted here, because their bucket may be invented.
// `requests`: how many at once.
void count_traffic(std::string_view bucket, Traffic kind, uint64_t bytes_in, uint64_t bytes_out, uint64_t requests = 1);

// Sets how many buckets are shown; 0: none, and nothing is counted. Any thread.
void show_buckets(unsigned most);

}  // namespace verbena::call
