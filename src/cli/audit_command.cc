// `verbena admin audit`: search in a running server's access log; `verbena admin doctor`: its findings about itself.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/date.h"
#include "cli/doctor.h"
#include "cli/report.h"
#include "cli/watch_command.h"
#include "cli/watch_terminal.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::json;

constexpr uint64_t page_lines_max = 1000;
constexpr unsigned tries_max = 8;  // of a page, while the server is busy: some ten seconds

struct AuditArguments : AdminArguments {
  std::string search, since, until, principal, account, action, bucket, prefix, peer, door, outcome, id;
  uint64_t lines = 100;
};

std::optional<Json> audit_request(const AuditArguments& arguments) {
  Json request = Json::object();
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) request[name] = value;
  };
  add("search", arguments.search);
  add("principal", arguments.principal);
  add("account", arguments.account);
  add("action", arguments.action);
  add("bucket", arguments.bucket);
  add("prefix", arguments.prefix);
  add("peer", arguments.peer);
  add("door", arguments.door);
  add("outcome", arguments.outcome);
  add("id", arguments.id);
  for (const auto& [name, text] : {std::pair{"since", &arguments.since}, std::pair{"until", &arguments.until}}) {
    if (text->empty()) continue;
    const auto moment = parse_moment(*text, system_clock().now_us());
    if (!moment) {
      report(std::string("--") + name,
             "\"" + shown(*text) + "\" is not a time: use 15m, 2h, 3d or 2026-01-02T03:04:05Z", exit_usage);
      return std::nullopt;
    }
    request[name] = *moment;
  }
  return request;
}

// 2026-01-02T03:04:05.678Z http   200 GET object            root/user/alice 127.0.0.1  photos/a.jpg  1.2 ms
std::string audit_text(const Json& line) {
  const std::string error = member_text(line, "error"), arn = member_text(line, "principal");
  std::string what = member_text(line, "bucket");
  if (const std::string key = member_text(line, "key"); !key.empty()) what += "/" + key;
  if (what.empty()) what = member_text(line, "path");
  std::string who = arn.starts_with("arn:aws:")
                        ? arn.substr(arn.find("::") == std::string::npos ? 0 : arn.find("::") + 2)
                        : member_text(line, "access_key");
  if (who.empty()) who = "-";
  return fmt::format("{} {:<6} {:>3} {:<24} {:<30} {:<15} {:>9.1f} ms  {}{}\n", shown(member_text(line, "time")),
                     shown(member_text(line, "door")), member_count(line, "status"), shown(member_text(line, "action")),
                     shown(who), shown(member_text(line, "peer")),
                     static_cast<double>(member_count(line, "duration_us")) / 1000, shown(what),
                     error.empty() ? "" : "  " + shown(error));
}

// False: the output is closed.
bool put_audit(const AuditArguments& arguments, const Json& answer) {
  std::string text;
  for (const Json& line : member_list(answer, "lines")) {
    text += arguments.json ? line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n" : audit_text(line);
  }
  return text.empty() || put_lines(text);
}

// After an interrupted search: a log may be long, and the searched part need not be searched again.
void tell_how_far(const std::string& reached) {
  if (reached.empty()) return;
  fmt::print(stderr, "verbena: searched back to {}; go on with --until {}\n", shown(reached), shown(reached));
}

int run_audit(const AuditArguments& arguments) {
  auto request = audit_request(arguments);
  if (!request) return exit_usage;
  uint64_t unreadable = 0;
  std::string reached;
  for (uint64_t left = arguments.lines;;) {
    (*request)["lines"] = arguments.lines == 0 ? page_lines_max : std::min(left, page_lines_max);
    const auto answer = admin_call(arguments.target, "audit", *request, "audit", tries_max);
    if (!answer) {
      tell_how_far(reached);
      return answer.error();
    }
    if (const std::string reaches = member_text(*answer, "reaches"); !reaches.empty()) reached = reaches;
    if (member_text(*answer, "log") != "file") {
      return report("audit",
                    "this server writes no access log to a file: set access_log (--set access_log=FILE, "
                    "VERBENA_ACCESS_LOG or its configuration) and restart it",
                    exit_not_found);
    }
    if (!put_audit(arguments, *answer)) return exit_ok;
    for (const Json& problem : member_list(*answer, "problems")) {
      if (problem.is_string()) fmt::print(stderr, "verbena: {}\n", shown(problem.get<std::string>()));
    }
    unreadable += member_count(*answer, "unreadable");
    const uint64_t found = member_list(*answer, "lines").size();
    const std::string next = member_text(*answer, "next");
    left -= std::min(left, found);
    if (next.empty() || (arguments.lines != 0 && left == 0)) break;
    (*request)["next"] = next;
  }
  if (unreadable != 0)
    fmt::print(stderr, "verbena: {} lines of the log are cut off, or were not written by a server\n", unreadable);
  return exit_ok;
}

int run_admin_doctor(const AdminArguments& arguments) {
  const auto answer = admin_call(arguments.target, "doctor", Json::object(), "the server", tries_max);
  if (!answer) return answer.error();
  const auto findings = findings_of(*answer);
  if (!findings) return report("the server", "its answer has no findings", exit_failure);
  return put_findings(*findings, arguments.json);
}

}  // namespace

std::optional<Findings> findings_of(const Json& answer) {
  const Json& list = member_list(answer, "findings");
  if (list.empty()) return std::nullopt;
  Findings out;
  for (const Json& one : list) {
    const std::string health = member_text(one, "health");
    out.push_back({health == "ok"     ? Health::ok
                   : health == "warn" ? Health::warn
                                      : Health::fail,
                   member_text(one, "subject"), member_text(one, "found"), member_text(one, "mend"),
                   member_text(one, "command")});
  }
  return out;
}

std::optional<std::string> parse_moment(const std::string& text, int64_t now_us) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const int64_t seconds = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : unit == "d" ? 86'400 : 0;
  if (error == std::errc() && seconds != 0 && value <= 1'000'000) {
    return format_iso8601(now_us - static_cast<int64_t>(value) * seconds * 1'000'000);
  }
  const auto date = parse_iso8601(text);
  return date ? std::optional(format_iso8601(*date)) : std::nullopt;
}

void add_admin_audit(CLI::App& parent, int& exit_code) {
  const auto arguments = std::make_shared<AuditArguments>();
  CLI::App* command = admin_leaf(parent, "audit", "search the access log: who did what, newest first", *arguments);
  command->add_option("--search", arguments->search, "only lines with this text in any field")->type_name("TEXT");
  command->add_option("--since", arguments->since, "not older than this: 15m, 2h, 3d, or 2026-01-02T03:04:05Z")
      ->type_name("TIME");
  command->add_option("--until", arguments->until, "older than this")->type_name("TIME");
  command->add_option("--principal", arguments->principal, "part of the caller's ARN, or its access key")
      ->type_name("TEXT");
  command->add_option("--account", arguments->account, "only those of this account (its name or id)");
  command->add_option("--action", arguments->action, "part of the operation: \"PUT object\", iam:")->type_name("TEXT");
  command->add_option("--bucket", arguments->bucket, "only those about this bucket")->type_name("NAME");
  command->add_option("--prefix", arguments->prefix, "only keys with this prefix")->type_name("TEXT");
  command->add_option("--peer", arguments->peer, "only from this address or range: 10.0.0.0/8")->type_name("ADDRESS");
  command->add_option("--door", arguments->door, "only those by this door: http, token or native")
      ->type_name("NAME")
      ->check(CLI::IsMember({"http", "token", "native"}));
  command
      ->add_option("--outcome", arguments->outcome,
                   "ok, failed, denied (401 to 403), error (5xx), a status (404, 5xx), or an error's code (NoSuchKey)")
      ->type_name("WHAT");
  command->add_option("--id", arguments->id, "the request with this id (x-amz-request-id)")->type_name("ID");
  command->add_option("--lines", arguments->lines, "stop after this many lines; 0: all")
      ->type_name("N")
      ->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = run_audit(*arguments); });
}

void add_admin_doctor(CLI::App& parent, int& exit_code) {
  const auto arguments = std::make_shared<AdminArguments>();
  admin_leaf(parent, "doctor", "the checks of `verbena doctor`, made inside the server", *arguments)
      ->callback([arguments, &exit_code] { exit_code = run_admin_doctor(*arguments); });
}

}  // namespace verbena::cli
