// The options that all commands share which talk to a server.
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
  std::string endpoint, native, via = "auto", provider = "auto", token_provider = "auto", region, profile, ca_file;
  unsigned attempts = ClientOptions{}.attempts_max;
  bool insecure = false, anonymous = false, cleartext_rdma = false, verbose = false, quiet = false;

  void add_to(CLI::App& command);
  // Only those that say where the server is and with which keys.
  void add_server_to(CLI::App& command);
  // What flags, environment and profile make together. Reports what is wrong and returns nullopt.
  std::optional<ClientOptions> options() const;
  // Connects; on failure reports, sets `exit_code` and returns nullopt.
  std::optional<Client> connect(int& exit_code) const;
};

}  // namespace verbena::cli
