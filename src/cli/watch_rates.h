// From two looks at a server's counters to what it did in between, as `verbena admin top` shows it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace verbena::cli {

// `before`, `now`: answers of the admin API's top. An object with rates per second and percentiles; a server that was
// started anew in between has begun at 0.
nlohmann::json top_rates(const nlohmann::json& before, const nlohmann::json& now);

// For people, names made safe for a terminal.
std::string top_page(const nlohmann::json& rates);

// How long that part (0.99) of the requests took at most, in microseconds, interpolated inside the bucket. `counts`: of
// up to 250 ns, 500 ns, 1 us, ..., and longer.
std::optional<double> percentile_us(const nlohmann::json& counts, double part);

}  // namespace verbena::cli
