// The program's subcommands. Each function adds its own to `app`; its callback sets `exit_code` (exit_code.h).
// server_command.h declares add_server_command(CLI::App&, int&) likewise.
#pragma once

namespace CLI {
class App;
}

namespace verbena::cli {

// put, get, cp, sync, cat, ls, stat, du, watch, presign, rm, mb, rb
void add_object_commands(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);
void add_user_command(CLI::App& app, int& exit_code);
void add_quota_command(CLI::App& app, int& exit_code);
void add_bound_command(CLI::App& app, int& exit_code);
void add_doctor_command(CLI::App& app, int& exit_code);
void add_health_command(CLI::App& app, int& exit_code);
void add_manual_commands(CLI::App& app, int& exit_code);  // manual, completion: of all commands in `app`

}  // namespace verbena::cli
