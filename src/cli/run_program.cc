#include "cli/run_program.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/server_command.h"
#include "cli/watch_command.h"
#include "verbena/client.h"

namespace verbena::cli {

int run_program(int argc, char** argv, const RadosEngine* rados) {
  // A closed reader (`verbena get ... - | head`) becomes EPIPE at the write, which ends the command quietly.
  std::signal(SIGPIPE, SIG_IGN);

  // Set by tools that begin traces and start this program.
  const char* const traceparent = std::getenv("TRACEPARENT");
  const TraceScope trace(traceparent == nullptr ? "" : traceparent);

  CLI::App app{"Verbena: an S3-compatible object store whose objects travel by RDMA.", "verbena"};
  app.set_version_flag("--version", "verbena " VERBENA_VERSION);
  app.require_subcommand(1);
  app.footer(exit_code_help);
  int exit_code = exit_ok;
  const Program program{rados, argv};
  add_server_command(app, exit_code, program);
  add_master_key_command(app, exit_code);
  add_fsck_command(app, exit_code);
  add_device_command(app, exit_code);
  add_rados_command(app, exit_code, program);
  add_config_command(app, exit_code);
  add_object_commands(app, exit_code);
  add_user_command(app, exit_code);
  add_quota_command(app, exit_code);
  add_bound_command(app, exit_code);
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
    const int shown = app.exit(problem);  // prints help, the version or the error
    return shown == 0 ? exit_ok : exit_usage;
  }
  return exit_code;
}

}  // namespace verbena::cli
