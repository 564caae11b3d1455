// The one logger. spdlog behind a thin front end, so that headers stay light and lines have one form:
//   2026-01-02T03:04:05.678Z info  http: listening addr=127.0.0.1:9000
//
// Rule: no secret key, session key, signature or whole RDMA token is ever passed to a log call.
#pragma once

#include <fmt/core.h>

#include <string_view>

namespace verbena::log {

enum class Level { trace, debug, info, warn, error };

void set_level(Level level);
bool enabled(Level level);
void write(Level level, std::string_view line);  // to standard error

template <class... Args>
void at(Level level, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(level)) write(level, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  at(Level::debug, format, std::forward<Args>(args)...);
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  at(Level::info, format, std::forward<Args>(args)...);
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  at(Level::warn, format, std::forward<Args>(args)...);
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  at(Level::error, format, std::forward<Args>(args)...);
}

// For untrusted values: control characters and quotes are escaped, length is bounded.
std::string printable(std::string_view untrusted, size_t max_length = 256);

}  // namespace verbena::log
