// libfabric's own programs as a yardstick: server and client as child processes over an address of this machine.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>
#include <thread>

#include "cli/child.h"
#include "yardsticks/yardsticks.h"

namespace verbena::yardsticks {

using cli::Child;

namespace {

constexpr std::chrono::seconds run_within{60};
constexpr int connect_tries = 20;

}  // namespace

uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  uint16_t port = 0;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port = ntohs(address.sin_port);
  }
  ::close(fd);
  return port;
}

namespace {

// Enough repetitions for about 256 MiB, between 100 and 2000.
std::string iterations_for(uint64_t size) {
  return std::to_string(std::clamp<uint64_t>((256u << 20) / std::max<uint64_t>(size, 1), 100, 2000));
}

std::expected<BenchRow, std::string> run_pair(const std::string& program, const std::vector<std::string>& flags,
                                              uint64_t size, const std::string& provider, const std::string& address) {
  if (::access(program.c_str(), X_OK) != 0) return std::unexpected(program + " is not there");
  // rxm's default queues exceed what many devices have (fabric/ofi/provider.cc).
  const std::vector<std::pair<std::string, std::string>> environment{{"FI_UNIVERSE_SIZE", "16"}};
  const std::string port = std::to_string(free_port());
  std::vector<std::string> common = {program,
                                     "-p",
                                     provider == "verbs" ? "verbs;ofi_rxm" : provider,
                                     "-S",
                                     std::to_string(size),
                                     "-I",
                                     iterations_for(size)};
  common.insert(common.end(), flags.begin(), flags.end());
  std::vector<std::string> server = common, client = common;
  server.insert(server.end(), {"-B", port, "-s", address});
  client.insert(client.end(), {"-P", port, address});
  auto serving = Child::start(server, environment);
  if (!serving) return std::unexpected(serving.error());
  const auto give_up = std::chrono::steady_clock::now() + run_within;
  // The server prints nothing when it listens: a client that starts too early fails and is started again.
  for (int i = 0; i < connect_tries; ++i) {
    auto asking = Child::start(client, environment);
    if (!asking) return std::unexpected(asking.error());
    // Both ends poll without a pause: on a busy machine they can take very long.
    (*asking)->read_until([](const std::string&) { return false; }, run_within);
    if (auto row = parse_fabtests((*asking)->output(), size)) return std::move(*row);
    if (std::chrono::steady_clock::now() >= give_up) return std::unexpected(program + " did not end in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return std::unexpected(program + " printed no figures");
}

}  // namespace

std::optional<BenchRow> parse_fabtests(const std::string& output, uint64_t size) {
  // bytes   iters  total  time  MB/sec  usec/xfer  Mxfers/sec   (MB is 10^6)
  std::optional<BenchRow> row;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string bytes, iterations, total, time;
    double megabytes = 0, microseconds = 0;
    if (!(words >> bytes >> iterations >> total >> time >> megabytes >> microseconds) || microseconds <= 0) continue;
    row.emplace();
    row->size = size;
    row->p50_us = microseconds;  // a mean: these programs print no percentiles
    row->ops_per_s = 1e6 / microseconds;
    row->bytes_per_s = megabytes * 1e6;
  }
  return row;
}

Rows measure_fabtests(const std::string& prefix, uint64_t size, const std::string& provider,
                      const std::string& address) {
  struct Test {
    const char* program;
    const char* op;
    std::vector<std::string> flags;
  };
  const Test tests[] = {{"fi_rma_bw", "rma_write", {"-o", "write"}}, {"fi_rdm_pingpong", "one_way", {}}};
  std::vector<BenchRow> rows;
  for (const Test& test : tests) {
    auto row = run_pair(prefix + "/bin/" + test.program, test.flags, size, provider, address);
    if (!row) return std::unexpected(row.error());
    row->door = "fabtests";
    row->provider = provider;
    row->op = test.op;
    rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace verbena::yardsticks
