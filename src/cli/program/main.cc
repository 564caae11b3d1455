// The `verbena` program: server and command line in one.
#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/watch_command.h"
#include "verbena/client.h"
#if __has_include("cli/server_command.h")
#include "cli/server_command.h"
#endif

int main(int argc, char** argv) {
  using namespace verbena::cli;
  // A reader that goes away (`verbena get ... - | head`) shows as EPIPE at the write, which ends the command quietly.
  std::signal(SIGPIPE, SIG_IGN);

  // As tools that begin traces tell those that they run.
  const char* const traceparent = std::getenv("TRACEPARENT");
  const verbena::TraceScope trace(traceparent == nullptr ? "" : traceparent);

  CLI::App app{"Verbena: an S3-compatible object store whose objects travel by RDMA.", "verbena"};
  app.set_version_flag("--version", "verbena " VERBENA_VERSION);
  app.require_subcommand(1);
  app.footer(exit_code_help);
  int exit_code = exit_ok;
#if __has_include("cli/server_command.h")
  add_server_command(app, exit_code);
  add_master_key_command(app, exit_code);
  add_fsck_command(app, exit_code);
  add_rados_command(app, exit_code);
  add_config_command(app, exit_code);
#endif
  add_object_commands(app, exit_code);
  add_user_command(app, exit_code);
  add_quota_command(app, exit_code);
  add_admin_command(app, exit_code);
  add_bench_command(app, exit_code);
  add_doctor_command(app, exit_code);
  add_health_command(app, exit_code);
  add_manual_commands(app, exit_code);

  if (argc == 1) {
    std::fputs(app.help().c_str(), stdout);
    return exit_usage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    const int shown = app.exit(problem);  // prints help, the version or what is wrong
    return shown == 0 ? exit_ok : exit_usage;
  }
  return exit_code;
}
