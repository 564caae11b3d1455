// Exit codes, stable for scripts.
#pragma once

#include "verbena/client.h"

namespace verbena::cli {

enum ExitCode : int {
  exit_ok = 0,
  exit_failure = 1,
  exit_usage = 2,
  exit_not_found = 3,
  exit_access_denied = 4,
  exit_connection = 5,
  exit_conflict = 6,
  exit_damaged = 7,
};

inline constexpr const char* exit_code_help =
    "Exit codes:\n"
    "  0  done\n"
    "  1  failed for another reason (the message says which)\n"
    "  2  wrong usage: unknown option, malformed s3:// address, missing keys\n"
    "  3  no such bucket, key or local file\n"
    "  4  access denied, or the keys are not known to the server\n"
    "  5  the server cannot be reached or did not answer in time\n"
    "  6  a condition was not met: the bucket exists already or is not empty\n"
    "  7  fsck found damage\n"
    "\n"
    "`verbena COMMAND --help` says more about a command.";

ExitCode exit_code_for(ErrorCode code);

}  // namespace verbena::cli
