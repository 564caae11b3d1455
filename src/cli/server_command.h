// `verbena server`.
#pragma once

namespace CLI {
class App;
}

namespace verbena::cli {

void add_server_command(CLI::App& app, int& exit_code);
void add_master_key_command(CLI::App& app, int& exit_code);
void add_fsck_command(CLI::App& app, int& exit_code);
void add_config_command(CLI::App& app, int& exit_code);
void add_rados_command(CLI::App& app, int& exit_code);

}  // namespace verbena::cli
