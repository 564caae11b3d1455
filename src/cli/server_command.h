// `verbena server`, and other commands on a server's store.
#pragma once

namespace CLI {
class App;
}

namespace verbena::cli {

struct Program;

void add_server_command(CLI::App& app, int& exit_code, const Program& program);
void add_master_key_command(CLI::App& app, int& exit_code);
void add_fsck_command(CLI::App& app, int& exit_code);
void add_device_command(CLI::App& app, int& exit_code);
void add_config_command(CLI::App& app, int& exit_code);
void add_rados_command(CLI::App& app, int& exit_code, const Program& program);

}  // namespace verbena::cli
