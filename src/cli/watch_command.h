// Common parts of the files of `verbena admin`.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/admin_call.h"

namespace CLI {
class App;
}

namespace verbena::cli {

struct AdminArguments {
  AdminTarget target;
  bool json = false;
};
using AdminArgumentsPtr = std::shared_ptr<AdminArguments>;

// A command under `verbena admin` with the common options.
CLI::App* admin_leaf(CLI::App& parent, const char* name, const char* what, AdminArguments& arguments);

void add_admin_command(CLI::App& app, int& exit_code);

void add_admin_top(CLI::App& parent, int& exit_code);
void add_admin_trace(CLI::App& parent, int& exit_code);
void add_admin_events(CLI::App& parent, int& exit_code);
void add_admin_logs(CLI::App& parent, int& exit_code);
void add_admin_audit(CLI::App& parent, int& exit_code);
void add_admin_doctor(CLI::App& parent, int& exit_code);

// One line of JSON, with everything but plain ASCII escaped. False: the output is closed.
bool put_json(const nlohmann::json& json);

// An answer's member; empty or 0 if it is missing or of another type.
std::string member_text(const nlohmann::json& json, const char* name);
uint64_t member_count(const nlohmann::json& json, const char* name);
const nlohmann::json& member_list(const nlohmann::json& json, const char* name);

// "250us", "10ms", "1.5s"; a bare number is milliseconds. Returns microseconds.
std::optional<uint64_t> parse_time_us(const std::string& text);
// "15m", "2h", "3d": that long before `now_us`; or a date, like 2026-01-02T03:04:05Z. Returns the admin API's form.
std::optional<std::string> parse_moment(const std::string& text, int64_t now_us);

}  // namespace verbena::cli
