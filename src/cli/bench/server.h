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

struct BenchServerOptions {
  std::string directory = {};  // empty: a temporary one, removed at the end
  std::string address = "127.0.0.1";
  std::string providers = {};              // of the fabric; empty: all that open
  std::optional<bool> gpudirect = {};      // GPUs copy for it; none: the environment decides
  std::string certificate = {}, key = {};  // PEM files, for HTTPS; empty: plain HTTP
};

class BenchServer {
 public:
  // Starts `verbena server` on free ports.
  static std::expected<std::unique_ptr<BenchServer>, std::string> start(BenchServerOptions wanted);
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
