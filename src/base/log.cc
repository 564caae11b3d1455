#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>

#include "base/log_ring.h"

namespace verbena::log {
namespace {

spdlog::level::level_enum translate(Level level) {
  switch (level) {
    case Level::trace:
      return spdlog::level::trace;
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warn:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger l("verbena", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l.set_formatter(
        std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %-5l %v", spdlog::pattern_time_type::utc));
    l.set_level(spdlog::level::info);
    l.flush_on(spdlog::level::trace);
    return l;
  }();
  return instance;
}

}  // namespace

void set_level(Level level) { logger().set_level(translate(level)); }
bool enabled(Level level) { return logger().should_log(translate(level)); }
void write(Level level, std::string_view line) {
  logger().log(translate(level), spdlog::string_view_t(line.data(), line.size()));
  ring().add(level, line);
}

std::string printable(std::string_view untrusted, size_t max_length) {
  std::string text;
  for (const char c : untrusted.substr(0, max_length)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '"' || c == '\\') {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      text += escaped;
    } else {
      text += c;
    }
  }
  if (untrusted.size() > max_length) text += "...";
  return text;
}

}  // namespace verbena::log
