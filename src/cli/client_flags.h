// The options of all commands that connect to a server.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "verbena/client.h"

namespace CLI {
class App;
}

namespace verbena::cli {

struct ClientFlags {
  std::string endpoint, native, via = "auto", provider = "auto", encryption = "auto", region, profile, ca_file;
  unsigned attempts = ClientOptions{}.attempts_max;
  bool insecure = false, anonymous = false, cleartext_rdma = false, verbose = false, quiet = false;

  void add_to(CLI::App& command);
  // Only the options for the server's address and the keys.
  void add_server_to(CLI::App& command);
  // The combination of flags, environment and profile. Reports errors and returns nullopt.
  std::optional<ClientOptions> options() const;
  // Connects; on failure reports, sets `exit_code` and returns nullopt.
  std::optional<Client> connect(int& exit_code) const;
};

}  // namespace verbena::cli
