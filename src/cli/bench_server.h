// The server that a benchmark runs against: its own child on a folder, or one that is there already.
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
  // Providers as the configuration names them, several separated by commas.
  struct Fabrics {
    std::string native, token;  // empty: whatever opens; no tokens
  };
  // Starts `verbena server DIRECTORY` on free ports; an empty directory means a temporary one, removed at the end.
  // `address`: where it listens.
  static std::expected<std::unique_ptr<BenchServer>, std::string> start(std::string directory,
                                                                        const std::string& address,
                                                                        const Fabrics& fabrics);
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
