// Numbers of the running server as JSON, out of the metrics that it keeps anyway. Internal to admin/.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "admin/operator.h"
#include "observe/request_watch.h"

namespace verbena::admin {

// A text of a client's making: what is no UTF-8 comes out as its bytes, U+0080 to U+00FF.
std::string json_text(std::string_view text);

// The sum of what a counter or gauge has, of all labels or of those with `label` = `value`.
double sum_of(std::string_view metric, std::string_view label = {}, std::string_view value = {});

nlohmann::json memory_json(const memory::Arena& arena);
nlohmann::json hot_tier_json(uint64_t capacity);              // null for 0
nlohmann::json disk_json(const std::filesystem::path& data);  // null where there is none
// Requests that went another way than they might have, and work that was refused: [{what, reason, count}], none of 0.
nlohmann::json refusals_json();

// Requests and bytes by door and provider, since the start.
nlohmann::json doors_json(const ServerFacts& facts, const native::NativeDoor* door);
// [{door, verb, counts}]: how many requests took up to 250 ns, 500 ns, 1 us, ..., and longer.
nlohmann::json latencies_json();

nlohmann::json line_json(const http::AccessLine& line);

}  // namespace verbena::admin
