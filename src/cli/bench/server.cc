#include "cli/bench/server.h"

#include <stdlib.h>

#include <regex>
#include <span>

#include "base/bytes.h"

namespace verbena::cli {
namespace {

constexpr std::chrono::seconds start_within{30};

std::string random_key() {
  std::byte raw[20];
  fill_random(raw);
  return to_hex(raw);
}

// Finds the endpoints in the lines that `verbena server` prints: "S3 ... http://127.0.0.1:9000", "native ...
// 127.0.0.1:9100".
std::optional<std::pair<std::string, std::string>> endpoints_in(const std::string& text) {
  static const std::regex s3(R"((^|\n)\s*S3\b[^\n]*?(https?://[^\s]+)[^\n]*\n)");
  static const std::regex native(R"((^|\n)\s*native\b[^\n]*?([0-9.]+:[0-9]+)[^\n]*\n)", std::regex::icase);
  std::smatch found_s3, found_native;
  if (!std::regex_search(text, found_s3, s3) || !std::regex_search(text, found_native, native)) return std::nullopt;
  return std::pair(found_s3[2].str(), found_native[2].str());
}

}  // namespace

std::expected<std::unique_ptr<BenchServer>, std::string> BenchServer::start(BenchServerOptions wanted) {
  std::string& directory = wanted.directory;
  const std::string& address = wanted.address;
  std::unique_ptr<BenchServer> server(new BenchServer);
  if (directory.empty()) {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return std::unexpected("cannot make a temporary folder for the server");
    server->temporary_ = name;
    directory = name;
  }
  server->options_.access_key = "VERBENABENCH" + random_key().substr(0, 8);
  server->options_.secret_key = random_key();
  std::vector<std::string> command{"/proc/self/exe", "server", directory,     "--http",
                                   address + ":0",   "--rdma", address + ":0"};
  if (!wanted.providers.empty()) command.insert(command.end(), {"--set", "rdma.provider=" + wanted.providers});
  if (!wanted.certificate.empty()) {
    command.insert(command.end(), {"--set", "tls.certificate=" + wanted.certificate, "--set", "tls.key=" + wanted.key});
    server->options_.insecure = true;
  }
  if (wanted.gpudirect) {
    const std::string value = *wanted.gpudirect ? "true" : "false";
    command.insert(command.end(), {"--set", "gpudirect.enabled=" + value});
    // The handles come from this program alone.
    command.insert(command.end(), {"--set", "gpudirect.rocm_handles=" + value});
  }
  auto child = Child::start(command, {{"VERBENA_ROOT_ACCESS_KEY", server->options_.access_key},
                                      {"VERBENA_ROOT_SECRET_KEY", server->options_.secret_key},
                                      {"VERBENA_RDMA_TOKEN_PROVIDER", "auto,tcp"},
                                      {"VERBENA_RDMA_TOKEN_NETWORKS", address},
                                      {"VERBENA_LOG_LEVEL", "error"}});
  if (!child) return std::unexpected(child.error());
  server->child_ = std::move(*child);
  const auto ready = [](const std::string& text) { return endpoints_in(text).has_value(); };
  if (!server->child_->read_until(ready, start_within)) {
    return std::unexpected("the server did not start; it said:\n" + server->child_->output());
  }
  const auto endpoints = *endpoints_in(server->child_->output());
  server->options_.endpoint = endpoints.first;
  server->options_.native_endpoint = endpoints.second;
  return server;
}

std::unique_ptr<BenchServer> BenchServer::at(ClientOptions options) {
  std::unique_ptr<BenchServer> server(new BenchServer);
  server->options_ = std::move(options);
  return server;
}

BenchServer::~BenchServer() {
  child_.reset();
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
}

std::optional<double> BenchServer::cpu_seconds() const {
  if (!child_) return std::nullopt;
  const double seconds = child_->cpu_seconds();
  return seconds < 0 ? std::nullopt : std::optional(seconds);
}

}  // namespace verbena::cli
