// Rates from two readings of a server's counters, for `verbena admin top`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace verbena::cli {

// `before`, `now`: answers of the admin API's top. An object with rates per second and percentiles; a server restarted
// in between has counted from 0.
nlohmann::json top_rates(const nlohmann::json& before, const nlohmann::json& now);

// For users, with names made safe for a terminal.
std::string top_page(const nlohmann::json& rates);

// The duration that this part (0.99) of the requests did not exceed, in microseconds, interpolated inside the bucket.
// `counts`: of up to 250 ns, 500 ns, 1 us, ..., and longer.
std::optional<double> percentile_us(const nlohmann::json& counts, double part);

}  // namespace verbena::cli
