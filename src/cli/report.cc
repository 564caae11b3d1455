#include "cli/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "base/bytes.h"
#include "cli/watch_terminal.h"

namespace verbena::cli {

ExitCode exit_code_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::no_such_bucket:
    case ErrorCode::no_such_key:
    case ErrorCode::no_such_upload:
      return exit_not_found;
    case ErrorCode::access_denied:
    case ErrorCode::unknown_access_key:
      return exit_access_denied;
    case ErrorCode::connection_failed:
    case ErrorCode::timed_out:
    case ErrorCode::outcome_unknown:
      return exit_connection;
    case ErrorCode::bucket_exists:
    case ErrorCode::bucket_not_empty:
    case ErrorCode::precondition_failed:
      return exit_conflict;
    case ErrorCode::invalid_argument:
      return exit_usage;
    default:
      return exit_failure;
  }
}

std::string hint_for(const ClientError& error) {
  switch (error.code) {
    case ErrorCode::no_such_bucket:
      return "`verbena ls` lists the buckets, `verbena mb s3://NAME` makes one";
    case ErrorCode::no_such_key:
      return "`verbena ls s3://BUCKET/` lists the keys";
    case ErrorCode::unknown_access_key:
      return "the server does not know this key: check AWS_ACCESS_KEY_ID and --endpoint";
    case ErrorCode::access_denied:
      return "check AWS_SECRET_ACCESS_KEY, and that this machine's clock is right";
    case ErrorCode::connection_failed:
      return "is the server running? `verbena doctor` checks; --endpoint and --native say where it is";
    case ErrorCode::timed_out:
      return "the server did not answer in time; try again, or look at its log";
    case ErrorCode::outcome_unknown:
      return "the connection broke after the request was sent; `verbena stat` shows whether it was done";
    case ErrorCode::bucket_not_empty:
      return "`verbena rb --force` removes a bucket with its objects; versions must be removed one by one";
    case ErrorCode::slow_down:
      return "the server is overloaded; try again later";
    case ErrorCode::unsupported:
      return "--via auto takes any path that works";
    default:
      return {};
  }
}

bool RunFailures::ended_by(const ClientError& error) {
  if (error.code == ErrorCode::connection_failed || error.code == ErrorCode::unknown_access_key) return true;
  const bool unanswered = error.code == ErrorCode::timed_out || error.code == ErrorCode::outcome_unknown;
  const Kind kind = unanswered ? Kind::unanswered : error.code == ErrorCode::access_denied ? Kind::denied : Kind::other;
  in_a_row_ = kind == kind_ ? in_a_row_ + 1 : 1;
  kind_ = kind;
  switch (kind) {
    case Kind::unanswered:
      return in_a_row_ >= unanswered_max;
    case Kind::denied: {
      constexpr std::string_view of_all_requests[] = {"SignatureDoesNotMatch", "RequestTimeTooSkewed", "ExpiredToken",
                                                      "InvalidToken"};
      return std::ranges::find(of_all_requests, error.s3_code) != std::end(of_all_requests) ||
             (!any_succeeded_ && in_a_row_ >= denied_max);
    }
    case Kind::other:
      break;
  }
  return false;
}

ExitCode report(std::string_view subject, const ClientError& error) {
  fmt::print(stderr, "verbena: {}: {}\n", shown(subject, 1200), shown(std::string_view(error.message).substr(0, 1000)));
  if (const std::string hint = hint_for(error); !hint.empty()) fmt::print(stderr, "  {}\n", hint);
  return exit_code_for(error.code);
}

ExitCode report(std::string_view subject, std::string_view problem, ExitCode code) {
  fmt::print(stderr, "verbena: {}: {}\n", shown(subject, 1200), problem);
  return code;
}

namespace {

std::string describe(const Transfer& transfer) {
  std::string out = fmt::format("{} by {}", format_size(transfer.bytes), to_string(transfer.door));
  if (transfer.provider != to_string(transfer.door)) out += fmt::format(" ({})", transfer.provider);
  if (transfer.attempts > 1) out += fmt::format(", {} attempts", transfer.attempts);
  if (!transfer.fell_back_reason.empty()) out += fmt::format("; not faster because {}", transfer.fell_back_reason);
  return out;
}

}  // namespace

void tell_transfer(std::string_view subject, const Transfer& transfer) {
  fmt::print(stderr, "{}: {}\n", shown(subject), shown(describe(transfer)));
}

}  // namespace verbena::cli
