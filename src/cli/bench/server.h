// The server that a benchmark runs against: a child process on a folder, or a running one.
#pragma once

#include <expected>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/child.h"
#include "verbena/client.h"

namespace verbena::cli {

class BenchServer {
 public:
  // Starts `verbena server DIRECTORY` on free ports; an empty directory means a temporary one, removed at the end.
  // `address`: the listening address. `providers`: of the fabric; empty: all that open. `gpudirect`: GPUs copy for it;
  // without that the environment decides.
  static std::expected<std::unique_ptr<BenchServer>, std::string> start(std::string directory,
                                                                        const std::string& address = "127.0.0.1",
                                                                        const std::string& providers = {},
                                                                        std::optional<bool> gpudirect = {});
  // Uses the server that `options` names.
  static std::unique_ptr<BenchServer> at(ClientOptions options);
  ~BenchServer();

  // Endpoint and keys.
  const ClientOptions& options() const { return options_; }
  // CPU time of the server process; nullopt for a server that is not our child.
  std::optional<double> cpu_seconds() const;

 private:
  BenchServer() = default;
  ClientOptions options_;
  std::unique_ptr<Child> child_;
  std::filesystem::path temporary_;
};

}  // namespace verbena::cli
