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
  std::vector<std::string> providers;  // what the native door offers: "local", "tcp", "verbs;ofi_rxm"
};

// Where the master keys are.
std::filesystem::path key_file(const Config& config, const std::filesystem::path& directory);

class Server {
 public:
  // Opens everything and serves from its own threads when it returns. The error is a sentence for people that names
  // what is wrong (a port in use, a directory that cannot be written, a provider that cannot open). `contents` is there
  // before anybody is served. `open_cluster`: the engine that servers share, where this program has one.
  static std::expected<std::unique_ptr<Server>, std::string> start(const Config& config,
                                                                   const std::filesystem::path& directory,
                                                                   auth::Credentials root,
                                                                   const FirstContents& contents = {},
                                                                   OpenCluster open_cluster = nullptr);
  // Likewise without a data directory: objects, accounts and keys are in memory alone, objects take at most `bytes_max`
  // of it, and nothing is left when the server goes.
  static std::expected<std::unique_ptr<Server>, std::string> start_in_memory(const Config& config, uint64_t bytes_max,
                                                                             auth::Credentials root,
                                                                             const FirstContents& contents = {});
  // Stops as by stop() when that was not called.
  ~Server();
  Server(const Server&) = delete;

  const Endpoints& endpoints() const;
  // Reads the master keys again, and goes on in a new log file where a log is one. For SIGHUP.
  void reload();
  // Whether every core's loop runs a task within this time. Blocks; for watchdogs.
  bool answers(std::chrono::milliseconds within);
  // Accepts nothing new, lets requests in flight end (at most `drain`), then ends the threads. Blocks.
  void stop(std::chrono::milliseconds drain = std::chrono::seconds(10));

 private:
  struct State;
  static std::expected<std::unique_ptr<Server>, std::string> start(std::unique_ptr<State> state,
                                                                   const FirstContents& contents);
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace verbena::server
