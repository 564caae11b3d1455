// `verbena admin events`: the backlog of the targets of bucket notifications, and dropping events.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "cli/report.h"
#include "cli/watch_command.h"
#include "cli/watch_terminal.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::json;

constexpr unsigned asked_max = 8;  // while the server is busy with the same

struct EventArguments : AdminArguments {
  std::string name, event;
  bool yes = false;
};

bool is_false(const Json& json, const char* member) {
  const auto found = json.find(member);
  return found != json.end() && *found == false;
}

std::string state_of(const Json& target) {
  if (is_false(target, "configured")) return "gone";
  return is_false(target, "up") ? "fails" : "up";
}

std::string place_of(const Json& stuck) {
  const std::string bucket = member_text(stuck, "bucket"), key = member_text(stuck, "key");
  return shown(key.empty() ? bucket : bucket + "/" + key, 100);
}

std::string stuck_text(const Json& target) {
  std::string out;
  for (const Json& one : member_list(target, "stuck")) {
    fmt::format_to(std::back_inserter(out), "\n{}: event {} ({} of {}) {}, tried {} times since {}:\n  {}\n",
                   shown(member_text(target, "name")), shown(member_text(one, "event")),
                   shown(member_text(one, "happened")), place_of(one),
                   is_false(one, "refused") ? "gets no answer" : "is refused", member_count(one, "tries"),
                   shown(member_text(one, "since")), shown(member_text(one, "why"), 400));
  }
  return out;
}

std::string events_text(const Json& answer) {
  const Json& targets = member_list(answer, "targets");
  if (targets.empty()) return "no targets (events.targets is empty)\n";
  std::string out = fmt::format("{:<24} {:<8} {:<6} {:>10} {:>10} {:>8} {:>12}\n", "target", "type", "state", "queued",
                                "bytes", "buckets", "delivered");
  std::string stuck;
  bool gone = false;
  for (const Json& one : targets) {
    fmt::format_to(std::back_inserter(out), "{:<24} {:<8} {:<6} {:>10} {:>10} {:>8} {:>12}\n",
                   shown(member_text(one, "name")), shown(member_text(one, "type")), state_of(one),
                   member_count(one, "queued"), format_size(member_count(one, "queued_bytes")),
                   member_count(one, "queued_buckets"), member_count(one, "delivered"));
    stuck += stuck_text(one);
    gone = gone || is_false(one, "configured");
  }
  if (gone) out += "\ngone: no longer in events.targets. Add it again, or: verbena admin events drop TARGET\n";
  if (!stuck.empty()) out += stuck + "\nTo drop one: verbena admin events skip TARGET EVENT\n";
  return out;
}

int run_list(const EventArguments& arguments) {
  const auto answer = admin_call(arguments.target, "events", Json::object(), "the server");
  if (!answer) return answer.error();
  (void)(arguments.json ? put_json(*answer) : put_lines(events_text(*answer)));
  return exit_ok;
}

// Asks for a confirmation: no event is dropped by a typing error, nor by a script without the option.
bool agreed(const EventArguments& arguments, const std::string& question) {
  if (arguments.yes) return true;
  if (::isatty(STDIN_FILENO) != 1) {
    report(arguments.name, "cannot ask for confirmation here: use --yes", exit_usage);
    return false;
  }
  fmt::print(stderr, "{} [y/N] ", question);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

int run_skip(const EventArguments& arguments) {
  const std::string question =
      fmt::format("Drop event {}? {} will never get it.", shown(arguments.event), shown(arguments.name));
  if (!agreed(arguments, question)) return exit_usage;
  const Json request{{"target", arguments.name}, {"event", arguments.event}};
  const auto answer = admin_call(arguments.target, "events-skip", request, arguments.name, asked_max);
  if (!answer) return answer.error();
  // The dropped event is printed, so that it can still be processed by hand.
  (void)(arguments.json ? put_json(*answer) : put_lines(shown(member_text(*answer, "record"), 16 * KiB) + "\n"));
  return exit_ok;
}

int run_drop(const EventArguments& arguments) {
  const std::string question =
      fmt::format("Drop all events that wait for {}? They will never be delivered.", shown(arguments.name));
  if (!agreed(arguments, question)) return exit_usage;
  uint64_t events = 0, bytes = 0, left = 0;
  do {
    const auto answer =
        admin_call(arguments.target, "events-drop", Json{{"target", arguments.name}}, arguments.name, asked_max);
    if (!answer) return answer.error();
    events += member_count(*answer, "events");
    bytes += member_count(*answer, "bytes");
    left = member_count(*answer, "left");
    if (left != 0 && member_count(*answer, "events") == 0) {
      return report(arguments.name, fmt::format("{} events dropped, {} are left", events, left), exit_failure);
    }
  } while (left != 0);
  if (arguments.json) {
    (void)put_json(Json{{"events", events}, {"bytes", bytes}});
  } else {
    (void)put_lines(fmt::format("{} events dropped ({})\n", events, format_size(bytes)));
  }
  return exit_ok;
}

}  // namespace

void add_admin_events(CLI::App& parent, int& exit_code) {
  const auto listing = std::make_shared<EventArguments>();
  CLI::App* events = admin_leaf(parent, "events",
                                "targets of bucket notifications: what waits for each, and whether it is up", *listing);
  const auto skipping = std::make_shared<EventArguments>();
  CLI::App* skip = admin_leaf(*events, "skip", "drop an event that its target does not take, and print it", *skipping);
  skip->add_option("TARGET", skipping->name, "its name")->required();
  skip->add_option("EVENT", skipping->event, "as shown in the list")->required();
  skip->callback([skipping, &exit_code] { exit_code = run_skip(*skipping); });
  const auto dropping = std::make_shared<EventArguments>();
  CLI::App* drop = admin_leaf(*events, "drop", "drop what waits for a target that is no longer configured", *dropping);
  drop->add_option("TARGET", dropping->name, "its name")->required();
  drop->callback([dropping, &exit_code] { exit_code = run_drop(*dropping); });
  skip->add_flag("--yes", skipping->yes, "do not ask");
  drop->add_flag("--yes", dropping->yes, "do not ask");
  events->require_subcommand(0, 1);
  events->callback([listing, events, &exit_code] {
    if (events->get_subcommands().empty()) exit_code = run_list(*listing);
  });
}

}  // namespace verbena::cli
