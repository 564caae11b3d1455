// A whole server in one object.
#pragma once

#include <chrono>
#include <expected>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "auth/auth.h"
#include "base/config.h"
#include "server/cluster_engine.h"
#include "server/first_contents.h"

namespace verbena::server {

struct Endpoints {
  std::string http;                    // "http://127.0.0.1:9000" or "https://..."
  std::string native;                  // "127.0.0.1:9100"; empty when RDMA is off
  std::string admin;                   // "http://127.0.0.1:9001"; empty when it is off
  std::string tokens;                  // the provider that serves tokens; empty: they are declined
  std::vector<std::string> providers;  // the native door's: "local", "tcp", "verbs;ofi_rxm"
  std::vector<std::string> networks;   // S3 for clients of some networks alone, in the order of `listeners`
};

// The file of master keys.
std::filesystem::path key_file(const Config& config, const std::filesystem::path& directory);

class Server {
 public:
  // Opens everything; on return the server's own threads serve. The error is a sentence for operators that names the
  // cause (a port in use, a directory that cannot be written, a provider that cannot open). `contents` exists before
  // any client is served. `open_cluster`: the shared engine, if this program has one.
  static std::expected<std::unique_ptr<Server>, std::string> start(const Config& config,
                                                                   const std::filesystem::path& directory,
                                                                   auth::Credentials root,
                                                                   const FirstContents& contents = {},
                                                                   OpenCluster open_cluster = nullptr);
  // Likewise without a data directory: objects, accounts and keys are in memory only, objects take at most `bytes_max`
  // of it, and all is lost with the server.
  static std::expected<std::unique_ptr<Server>, std::string> start_in_memory(const Config& config, uint64_t bytes_max,
                                                                             auth::Credentials root,
                                                                             const FirstContents& contents = {});
  // Calls stop() unless that was done.
  ~Server();
  Server(const Server&) = delete;

  const Endpoints& endpoints() const;
  // Reads the master keys again, and reopens log files. For SIGHUP.
  void reload();
  // Whether every core's loop runs a task within this time. Blocks; for watchdogs.
  bool answers(std::chrono::milliseconds within);
  // Accepts nothing new, waits for requests in flight (at most `drain`), then ends the threads. Blocks.
  void stop(std::chrono::milliseconds drain = std::chrono::seconds(10));

 private:
  struct State;
  static std::expected<std::unique_ptr<Server>, std::string> start(std::unique_ptr<State> state,
                                                                   const FirstContents& contents);
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace verbena::server
