// Numbers of the running server as JSON, from its metrics. Internal to admin/.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "admin/operator.h"
#include "observe/request_watch.h"

namespace verbena::admin {

// A text from a client: invalid UTF-8 is encoded byte by byte, as U+0080 to U+00FF.
std::string json_text(std::string_view text);

// The sum of a counter or gauge over all labels, or over those with `label` = `value`.
double sum_of(std::string_view metric, std::string_view label = {}, std::string_view value = {});

nlohmann::json memory_json(const memory::Arena& arena);
nlohmann::json hot_tier_json(uint64_t capacity);              // null for 0
nlohmann::json disk_json(const std::filesystem::path& data);  // null where there is none
// Fallbacks of requests to another path, and refused work: [{what, reason, count}], none of 0.
nlohmann::json refusals_json();

// Requests and bytes by door and provider, since the start.
nlohmann::json doors_json(const ServerFacts& facts, const native::NativeDoor* door);
// [{door, verb, counts}]: the number of requests that took up to 250 ns, 500 ns, 1 us, ..., and longer.
nlohmann::json latencies_json();

nlohmann::json line_json(const call::AccessLine& line);

}  // namespace verbena::admin
