// `verbena admin top`, `trace` and `logs`: run until interrupted or until the output is closed.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/bytes.h"
#include "cli/report.h"
#include "cli/watch_command.h"
#include "cli/watch_rates.h"
#include "cli/watch_terminal.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::json;

constexpr int wait_ms = 1000;                           // of one call for new data; an interrupt waits as long at most
constexpr std::chrono::milliseconds between_calls{50};  // when there is much data

// A watcher at the server, deregistered when this ends.
class WatcherAt {
 public:
  WatcherAt(const AdminTarget& target, const char* end_call) : target_(target), end_call_(end_call) {}
  WatcherAt(const WatcherAt&) = delete;
  ~WatcherAt() {
    if (!name.empty()) (void)admin_call(target_, end_call_, Json{{"watcher", name}}, "the watcher");
  }
  std::string name;

 private:
  const AdminTarget& target_;
  const char* const end_call_;
};

struct TopArguments : AdminArguments {
  bool once = false;
  double interval_s = 1;
};

bool show_top(const TopArguments& arguments, const Json& rates, Screen* screen) {
  if (arguments.json) return put_json(rates);
  if (screen == nullptr) return put_lines(top_page(rates) + (arguments.once ? "" : "\n"));
  screen->draw(top_page(rates) + "\nq: leave\n");
  return true;
}

// False: interrupted.
bool rest(std::chrono::milliseconds time, Screen* screen) {
  if (screen != nullptr) return screen->rest(time);
  const auto until = std::chrono::steady_clock::now() + time;
  while (!end_was_asked_for() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(time, std::chrono::milliseconds(100)));
  }
  return !end_was_asked_for();
}

int run_top(const TopArguments& arguments) {
  note_ends();
  WatcherAt watcher(arguments.target, "top-end");
  auto before = admin_call(arguments.target, "top", Json::object(), "top");
  if (!before) return before.error();
  watcher.name = member_text(*before, "watcher");
  const auto interval = std::chrono::milliseconds(static_cast<int64_t>(arguments.interval_s * 1000));
  std::unique_ptr<Screen> screen;
  if (!arguments.json && !arguments.once && Screen::possible()) screen = std::make_unique<Screen>();
  while (rest(interval, screen.get())) {
    auto now = admin_call(arguments.target, "top", Json{{"watcher", watcher.name}}, "top");
    if (!now) {
      if (screen != nullptr) {  // its page hides the message: repeat the call, so that it can be read
        screen.reset();
        (void)admin_call(arguments.target, "top", Json{{"watcher", watcher.name}}, "top");
      }
      watcher.name.clear();
      return now.error();
    }
    if (!show_top(arguments, top_rates(*before, *now), screen.get()) || arguments.once) break;
    before = std::move(now);
  }
  return exit_ok;
}

struct TraceArguments : AdminArguments {
  std::string bucket, door, account, slower_than;
  bool errors = false;
  uint64_t lines = 0;  // ends after this many; 0: never
};

std::string microseconds(const Json& line, const char* name) {
  const uint64_t us = member_count(line, name);
  return us < 10'000 ? fmt::format("{}us", us) : fmt::format("{}ms", us / 1000);
}

std::string trace_text(const Json& line) {
  const std::string bucket = member_text(line, "bucket"), error = member_text(line, "error");
  const std::string name = bucket.empty() ? member_text(line, "path") : bucket + "/" + member_text(line, "key");
  const std::string time = member_text(line, "time");
  return fmt::format("{} {:<6} {:<22} {:>3}{} in {} out {} total {} wait {} disk {} wire {} {} {} {}\n",
                     shown(time.size() > 11 ? time.substr(11) : time), shown(member_text(line, "door")),
                     shown(member_text(line, "action")), member_count(line, "status"),
                     error.empty() ? "" : " " + shown(error), format_size(member_count(line, "bytes_in")),
                     format_size(member_count(line, "bytes_out")), microseconds(line, "duration_us"),
                     microseconds(line, "wait_us"), microseconds(line, "disk_us"), microseconds(line, "wire_us"),
                     member_text(line, "account").empty() ? "anonymous" : shown(member_text(line, "account")),
                     shown(member_text(line, "id")), shown(name));
}

// nullopt, after reporting it: an option has an invalid value.
std::optional<Json> trace_request(const TraceArguments& arguments) {
  Json request = {{"errors", arguments.errors}};
  if (!arguments.bucket.empty()) {
    request["bucket"] = arguments.bucket.starts_with("s3://") ? arguments.bucket.substr(5) : arguments.bucket;
  }
  if (!arguments.door.empty()) request["door"] = arguments.door;
  if (!arguments.account.empty()) request["account"] = arguments.account;
  if (arguments.slower_than.empty()) return request;
  const auto us = parse_time_us(arguments.slower_than);
  if (!us) {
    report("--slower-than", "\"" + shown(arguments.slower_than) + "\" is not a time of at most an hour, such as 10ms",
           exit_usage);
    return std::nullopt;
  }
  request["slower_than_us"] = *us;
  return request;
}

// False: the output is closed, or that was the last line.
bool put_trace(const TraceArguments& arguments, const Json& answer, uint64_t& left) {
  if (const uint64_t lost = member_count(answer, "lost"); lost != 0) {
    const bool read = arguments.json
                          ? put_json(Json{{"lost", lost}})
                          : put_lines(fmt::format("... {} requests are not shown: there were too many\n", lost));
    if (!read) return false;
  }
  std::string text;
  for (const Json& line : member_list(answer, "lines")) {
    text += arguments.json ? line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n" : trace_text(line);
    if (arguments.lines != 0 && --left == 0) {
      (void)put_lines(text);
      return false;
    }
  }
  return text.empty() || put_lines(text);
}

int run_trace(const TraceArguments& arguments) {
  const auto request = trace_request(arguments);
  if (!request) return exit_usage;
  note_ends();
  WatcherAt watcher(arguments.target, "trace-end");
  const auto begun = admin_call(arguments.target, "trace", *request, "trace");
  if (!begun) return begun.error();
  watcher.name = member_text(*begun, "watcher");
  uint64_t left = arguments.lines;
  while (!end_was_asked_for()) {
    const auto answer =
        admin_call(arguments.target, "trace", Json{{"watcher", watcher.name}, {"wait_ms", wait_ms}}, "trace");
    if (!answer) {
      watcher.name.clear();
      return answer.error();
    }
    if (!put_trace(arguments, *answer, left)) break;
    if (!member_list(*answer, "lines").empty()) std::this_thread::sleep_for(between_calls);
  }
  return exit_ok;
}

struct LogArguments : AdminArguments {
  bool follow = false;
  std::string level = "info";
  uint64_t lines = 50;
};

bool put_log(const LogArguments& arguments, const Json& answer) {
  std::string text;
  if (const uint64_t lost = member_count(answer, "lost"); lost != 0) {
    text = arguments.json ? Json{{"lost", lost}}.dump() + "\n" : fmt::format("... {} lines are missing\n", lost);
  }
  for (const Json& line : member_list(answer, "lines")) {
    if (arguments.json) {
      text += line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
      continue;
    }
    fmt::format_to(std::back_inserter(text), "{} {:<5} {}\n", shown(member_text(line, "time")),
                   shown(member_text(line, "level")), shown(member_text(line, "text")));
  }
  return text.empty() || put_lines(text);
}

int run_logs(const LogArguments& arguments) {
  if (arguments.follow) note_ends();
  Json request = {{"level", arguments.level}, {"lines", arguments.lines}};
  for (;;) {
    const auto answer = admin_call(arguments.target, "logs", request, "logs");
    if (!answer) return answer.error();
    if (!put_log(arguments, *answer) || !arguments.follow || end_was_asked_for()) return exit_ok;
    request["after"] = member_count(*answer, "last");
    request["lines"] = 500;
    request["wait_ms"] = wait_ms;
  }
}

}  // namespace

void add_admin_top(CLI::App& parent, int& exit_code) {
  const auto arguments = std::make_shared<TopArguments>();
  CLI::App* command = admin_leaf(
      parent, "top", "live: requests and bytes by door, latencies, busiest buckets and accounts; q leaves", *arguments);
  command->add_flag("--once", arguments->once, "print one sample, over one interval");
  command->add_option("--interval", arguments->interval_s, "seconds between two samples")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 20.0))
      ->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = run_top(*arguments); });
}

void add_admin_trace(CLI::App& parent, int& exit_code) {
  const auto arguments = std::make_shared<TraceArguments>();
  CLI::App* command =
      admin_leaf(parent, "trace", "requests as they end: operation, caller, outcome, times", *arguments);
  command->add_option("--bucket", arguments->bucket, "only those about this bucket")->type_name("NAME");
  command->add_flag("--errors", arguments->errors, "only failed requests");
  command
      ->add_option("--slower-than", arguments->slower_than,
                   "only requests that took at least this long: 500us, 10ms, 1s")
      ->type_name("TIME");
  command->add_option("--door", arguments->door, "only those by this door: http, token or native")
      ->type_name("NAME")
      ->check(CLI::IsMember({"http", "token", "native"}));
  command->add_option("--account", arguments->account, "only those of this account (its name or id)");
  command->add_option("--lines", arguments->lines, "stop after this many lines")->type_name("N");
  command->callback([arguments, &exit_code] { exit_code = run_trace(*arguments); });
}

void add_admin_logs(CLI::App& parent, int& exit_code) {
  const auto arguments = std::make_shared<LogArguments>();
  CLI::App* command =
      admin_leaf(parent, "logs", "the last lines of the server's log; -f: and those that follow", *arguments);
  command->add_flag("-f,--follow", arguments->follow, "keep printing new lines");
  command->add_option("--level", arguments->level, "of this level and above: trace, debug, info, warn or error")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
      ->capture_default_str();
  command->add_option("--lines", arguments->lines, "how many of the last ones")
      ->type_name("N")
      ->check(CLI::Range(1u, 500u))
      ->capture_default_str();
  command->callback([arguments, &exit_code] { exit_code = run_logs(*arguments); });
}

}  // namespace verbena::cli
