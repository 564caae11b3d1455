// Keys with a row of the index that is damaged (store/logic/damage.h), as passes over buckets meet them. Each costs a
// pass that key alone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::s3 {

inline constexpr size_t told_keys_max = 4096;

// Counts the key and writes it to the log, unless that was done since the start of the server. Beyond told_keys_max
// keys no more are. Thread-safe. `pass`: which one met it, for the log.
void tell_damaged(std::string_view pass, std::string_view bucket, std::string_view key);
void tell_damaged(std::string_view pass, std::string_view bucket, const std::vector<std::string>& keys);
void register_damaged_keys();  // the counter, from the start on

}  // namespace verbena::s3
