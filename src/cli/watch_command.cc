// `verbena admin`: a running server, observed from a terminal.
#include "cli/watch_command.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "cli/report.h"
#include "cli/watch_terminal.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* this_server = "the server";

std::string joined(const Json& list, std::string_view between) {
  std::string out;
  for (const Json& one : list) {
    if (one.is_string()) out.append(out.empty() ? "" : between).append(shown(one.get<std::string>()));
  }
  return out;
}

Json member_object(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_object() ? *found : Json::object();
}

std::string uptime_text(uint64_t seconds) {
  const uint64_t days = seconds / 86'400, hours = seconds / 3600 % 24, minutes = seconds / 60 % 60;
  if (days != 0) return fmt::format("{} d {} h", days, hours);
  return hours != 0 ? fmt::format("{} h {} min", hours, minutes) : fmt::format("{} min {} s", minutes, seconds % 60);
}

std::string doors_text(const Json& info) {
  std::string out;
  for (const Json& door : member_list(info, "doors")) {
    const std::string address = member_text(door, "address");
    fmt::format_to(
        std::back_inserter(out), "{:<12} {}\n", shown(member_text(door, "door")),
        address.empty() ? "off" : shown(address) + "  (" + joined(member_list(door, "providers"), ", ") + ")");
  }
  return out;
}

std::string info_text(const Json& info) {
  std::string out;
  const auto to = std::back_inserter(out);
  const auto size = [](const Json& json, const char* name) { return format_size(member_count(json, name)); };
  fmt::format_to(to, "{:<12} {}, up {} (since {}), process {}\n", "version", shown(member_text(info, "version")),
                 uptime_text(member_count(info, "uptime_s")), shown(member_text(info, "started")),
                 member_count(info, "pid"));
  out += doors_text(info);
  fmt::format_to(to, "{:<12} {}, {} cores, disk by {}\n", "engine", shown(member_text(info, "engine")),
                 member_count(info, "cores"), shown(member_text(info, "disk_io")));
  const Json arena = member_object(info, "arena");
  const auto huge = arena.find("huge_pages");
  fmt::format_to(to, "{:<12} {} in use of {}, {} at most so far, {} wait{}\n", "arena", size(arena, "leased_bytes"),
                 size(arena, "bytes"), size(arena, "leased_bytes_max"), member_count(arena, "waiting"),
                 huge != arena.end() && *huge == true ? ", huge pages" : "");
  const Json hot = member_object(info, "hot_tier");
  if (hot.empty()) {
    fmt::format_to(to, "{:<12} none\n", "hot tier");
  } else {
    const uint64_t hits = member_count(hot, "hits"), looks = hits + member_count(hot, "misses");
    fmt::format_to(to, "{:<12} {} objects, {} of {}, {} of {} look-ups were hits\n", "hot tier",
                   member_count(hot, "objects"), size(hot, "bytes"), size(hot, "capacity_bytes"), hits, looks);
  }
  const Json disk = member_object(info, "disk");
  if (disk.empty()) {
    fmt::format_to(to, "{:<12} none: everything is in memory\n", "disk");
  } else {
    fmt::format_to(to, "{:<12} {}: {} free of {}\n", "disk", shown(member_text(disk, "path")), size(disk, "free_bytes"),
                   size(disk, "size_bytes"));
  }
  const Json durability = member_object(info, "durability");
  fmt::format_to(to, "{:<12} {} ({} sync, {} memory)", "buckets", member_count(info, "buckets"),
                 member_count(durability, "sync"), member_count(durability, "memory"));
  if (info.contains("objects")) {
    fmt::format_to(to, ", {} objects, {}", member_count(info, "objects"), size(info, "bytes"));
    const auto counted = info.find("counted");
    if (counted != info.end() && *counted == false) out += " (still being counted)";
  }
  fmt::format_to(to, "\n{:<12} {} native, {} HTTP connections\n", "sessions", member_count(info, "sessions"),
                 member_count(info, "connections"));
  for (const Json& fallback : member_list(info, "fallbacks")) {
    if (fallback.is_string()) fmt::format_to(to, "{:<12} {}\n", "fallback", shown(fallback.get<std::string>()));
  }
  for (const Json& refusal : member_list(info, "refusals")) {
    const std::string reason = member_text(refusal, "reason");
    fmt::format_to(to, "{:<12} {} {}{}\n", "refused", member_count(refusal, "count"),
                   shown(member_text(refusal, "what")), reason.empty() ? "" : ": " + shown(reason));
  }
  return out;
}

int run_info(const AdminArguments& arguments) {
  const auto answer = admin_call(arguments.target, "info", Json::object(), this_server);
  if (!answer) return answer.error();
  (void)(arguments.json ? put_json(*answer) : put_lines(info_text(*answer)));
  return exit_ok;
}

// Values other than the defaults are shown with their origin.
std::string config_text(const Json& config, bool all) {
  std::string out;
  for (const Json& key : member_list(config, "keys")) {
    const std::string source = member_text(key, "source"), in_force = member_text(key, "in_force");
    if (!all && source == "default") continue;
    fmt::format_to(std::back_inserter(out), "{} = {}{}  [{}]\n", shown(member_text(key, "key")),
                   shown(member_text(key, "value")), in_force.empty() ? "" : " (" + shown(in_force) + ")",
                   shown(source));
  }
  return out;
}

struct ConfigArguments : AdminArguments {
  bool changed = false;
};

int run_config(const ConfigArguments& arguments) {
  const auto answer = admin_call(arguments.target, "config", Json::object(), this_server);
  if (!answer) return answer.error();
  (void)(arguments.json ? put_json(*answer) : put_lines(config_text(*answer, !arguments.changed)));
  return exit_ok;
}

struct SessionArguments : AdminArguments {
  std::string account, id;
};

std::string sessions_text(const Json& answer) {
  std::string out =
      fmt::format("{:<16} {:<22} {:<16} {:<12} {:<17} {:>7} {:>10} {:>11} {:>11} {:>8}  {}\n", "session", "who", "from",
                  "provider", "sealed", "idle s", "requests", "in", "out", "windows", "since");
  const Json& list = member_list(answer, "sessions");
  for (const Json& one : list) {
    const std::string account = member_text(one, "account");
    std::string who = member_text(one, "principal");
    who = who.substr(who.rfind(':') + 1);
    const std::string sealed = member_text(one, "sealed");
    fmt::format_to(std::back_inserter(out), "{:<16} {:<22} {:<16} {:<12} {:<17} {:>7} {:>10} {:>11} {:>11} {:>8}  {}\n",
                   shown(member_text(one, "id")), shown(account + " " + who, 22), shown(member_text(one, "peer")),
                   shown(member_text(one, "providers")), sealed.empty() ? "no" : shown(sealed),
                   member_count(one, "idle_s"), member_count(one, "requests"),
                   format_size(member_count(one, "bytes_in")), format_size(member_count(one, "bytes_out")),
                   member_count(one, "windows"), shown(member_text(one, "opened")));
  }
  if (member_count(answer, "total") > list.size()) {
    fmt::format_to(std::back_inserter(out), "... and {} more\n", member_count(answer, "total") - list.size());
  }
  return out;
}

int run_sessions(const SessionArguments& arguments) {
  Json request = Json::object();
  if (!arguments.account.empty()) request["account"] = arguments.account;
  const auto answer = admin_call(arguments.target, "sessions", request, this_server);
  if (!answer) return answer.error();
  (void)(arguments.json ? put_json(*answer) : put_lines(sessions_text(*answer)));
  return exit_ok;
}

int run_end_session(const SessionArguments& arguments) {
  const auto answer =
      admin_call(arguments.target, "session-end", Json{{"id", arguments.id}}, "session " + arguments.id);
  if (!answer) return answer.error();
  if (arguments.json) (void)put_json(*answer);
  return exit_ok;
}

void add_sessions(CLI::App& admin, int& exit_code) {
  const auto listing = std::make_shared<SessionArguments>();
  CLI::App* sessions =
      admin_leaf(admin, "sessions", "native sessions: user, address, cipher, bytes; or end one", *listing);
  sessions->add_option("--account", listing->account, "only those of this account (its name or id)");
  const auto ending = std::make_shared<SessionArguments>();
  CLI::App* end = admin_leaf(*sessions, "end", "end a session: its client is informed, and may open another", *ending);
  end->add_option("ID", ending->id, "as shown in the list")->required();
  end->callback([ending, &exit_code] { exit_code = run_end_session(*ending); });
  sessions->require_subcommand(0, 1);
  sessions->callback([listing, sessions, &exit_code] {
    if (sessions->get_subcommands().empty()) exit_code = run_sessions(*listing);
  });
}

}  // namespace

CLI::App* admin_leaf(CLI::App& parent, const char* name, const char* what, AdminArguments& arguments) {
  CLI::App* command = parent.add_subcommand(name, what);
  arguments.target.client.add_server_to(*command);
  command->add_flag("--json", arguments.json, "one line of JSON each, instead of text");
  return command;
}

bool put_json(const Json& json) { return put_lines(json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n"); }

std::string member_text(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

uint64_t member_count(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) return 0;
  return found->is_number_unsigned() ? found->get<uint64_t>()
                                     : static_cast<uint64_t>(std::max(found->get<double>(), 0.0));
}

const Json& member_list(const Json& json, const char* name) {
  static const Json none = Json::array();
  const auto found = json.find(name);
  return found != json.end() && found->is_array() ? *found : none;
}

std::optional<uint64_t> parse_time_us(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const double factor = unit == "us" ? 1 : unit.empty() || unit == "ms" ? 1e3 : unit == "s" ? 1e6 : 0;
  if (error != std::errc() || factor == 0 || !(value >= 0 && value * factor <= 3.6e9)) return std::nullopt;
  return static_cast<uint64_t>(value * factor);
}

void add_admin_command(CLI::App& app, int& exit_code) {
  CLI::App* admin = app.add_subcommand("admin", "Look at a running server: its state, traffic, sessions, log");
  admin->require_subcommand(1);
  admin->footer(
      "All of these need the server's root keys, or those of a user in the root account whose policies allow\n"
      "admin:ServerInfo, admin:Top, admin:Trace, admin:ListSessions, admin:EndSession, admin:ListEvents,\n"
      "admin:SkipEvent, admin:DropEvents, admin:GetConfig, admin:GetLogs, admin:SearchAudit or admin:Doctor.");
  const auto info = std::make_shared<AdminArguments>();
  admin_leaf(*admin, "info", "version, doors, memory, disk, buckets, and what is not as configured", *info)
      ->callback([info, &exit_code] { exit_code = run_info(*info); });
  add_admin_top(*admin, exit_code);
  add_admin_trace(*admin, exit_code);
  add_sessions(*admin, exit_code);
  add_admin_events(*admin, exit_code);
  const auto config = std::make_shared<ConfigArguments>();
  CLI::App* command =
      admin_leaf(*admin, "config", "the configuration in force, and where each value comes from", *config);
  command->add_flag("--changed", config->changed, "only values that differ from the default");
  command->callback([config, &exit_code] { exit_code = run_config(*config); });
  add_admin_logs(*admin, exit_code);
  add_admin_audit(*admin, exit_code);
  add_admin_doctor(*admin, exit_code);
}

}  // namespace verbena::cli
