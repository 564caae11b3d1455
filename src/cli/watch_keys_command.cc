// watch: changes of the keys under a prefix, a line each, until interrupted.
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/date.h"
#include "cli/object_commands.h"
#include "cli/report.h"
#include "cli/s3_address.h"
#include "cli/watch_command.h"
#include "cli/watch_terminal.h"

namespace verbena::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto look_every = 250ms;  // for signals; changes arrive at once
constexpr auto try_again_after = 1s;

std::string time_text(const KeyChange& change) {
  return format_iso8601(std::chrono::duration_cast<std::chrono::microseconds>(change.time.time_since_epoch()).count());
}

// Both return false when the output is closed.
bool show_gap(bool json) {
  if (json) return put_json(nlohmann::json{{"event", "gap"}});
  return put_lines("gap: changes were missed; anything cached of these keys may be stale\n");
}

bool show(const KeyChange& change, bool json) {
  if (json) {
    return put_json(nlohmann::json{{"event", to_string(change.what)},
                                   {"key", change.key},
                                   {"size", change.size},
                                   {"etag", change.etag},
                                   {"version_id", change.version_id},
                                   {"time", time_text(change)},
                                   {"number", change.number}});
  }
  return put_lines(fmt::format("{}  {:<12}  {:>14}  {}\n", time_text(change), to_string(change.what), change.size,
                               shown(change.key)));
}

bool show(const WatchNews& news, bool json) {
  if (news.gap && !show_gap(json)) return false;
  return std::ranges::all_of(news.changes, [json](const KeyChange& change) { return show(change, json); });
}

// Also detects it when there is nothing to write for long.
bool somebody_reads() {
  pollfd out{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return ::poll(&out, 1, 0) <= 0 || (out.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

}  // namespace

int run_watch(const LookArguments& arguments) {
  const auto address = parse_s3_address(arguments.address);
  if (!address) return report(arguments.address, address.error(), exit_usage);
  note_ends();
  int exit_code = exit_ok;
  auto client = arguments.client.connect(exit_code);
  if (!client) return exit_code;
  WatchOptions options;
  options.prefix = address->key;
  auto watch = client->watch(address->bucket, options);
  if (!watch) return report(arguments.address, watch.error());
  if (!arguments.client.quiet) fmt::print(stderr, "watching {}\n", address->text());
  for (bool lost = false; !end_was_asked_for() && somebody_reads();) {
    const auto news = watch->next(look_every);
    const bool unreachable =
        !news && (news.error().code == ErrorCode::connection_failed || news.error().code == ErrorCode::timed_out);
    if (!news && !unreachable) return report(arguments.address, news.error());
    if (!news) {
      if (!std::exchange(lost, true)) (void)report(arguments.address, news.error());
      std::this_thread::sleep_for(try_again_after);
      continue;
    }
    lost = false;
    if (!show(*news, arguments.json)) break;
  }
  return exit_ok;
}

}  // namespace verbena::cli
