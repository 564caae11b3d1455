// nginx as a yardstick: the same bytes from files, over kept-alive loopback connections, with the same HTTP client as
// for our own door.
#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/bench/loop.h"
#include "cli/child.h"
#include "net/http_client.h"
#include "yardsticks/yardsticks.h"

namespace verbena::yardsticks {

using cli::Child;
using client::fault;

namespace {

constexpr const char* program = "/usr/sbin/nginx";
constexpr int nginx_tries = 200;

class Nginx {
 public:
  static std::expected<std::unique_ptr<Nginx>, std::string> start(const NginxTls& tls, bool keep);
  ~Nginx() {
    child_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  net::HttpClient& http() { return *http_; }
  std::optional<double> cpu_seconds() const {
    const double seconds = child_->cpu_seconds();
    return seconds < 0 ? std::nullopt : std::optional(seconds);
  }

 private:
  Nginx() = default;
  std::string configuration(uint16_t port, const NginxTls& tls) const;
  std::filesystem::path directory_;
  std::unique_ptr<Child> child_;
  std::unique_ptr<net::HttpClient> http_;
};

// One process, files in the page cache with open descriptors, no log: nginx at its best.
std::string Nginx::configuration(uint16_t port, const NginxTls& tls) const {
  const std::string d = directory_.string();
  const std::string listener = tls.certificate.empty()
                                   ? fmt::format("listen 127.0.0.1:{};", port)
                                   : fmt::format(
                                         "listen 127.0.0.1:{} ssl; ssl_certificate {}; ssl_certificate_key {}; "
                                         "ssl_protocols TLSv1.3; ssl_session_tickets on;",
                                         port, tls.certificate, tls.key);
  return fmt::format(
      "daemon off; master_process off; worker_processes 1; pid {0}/pid; error_log {0}/error.log error;\n{1}"
      "events {{ worker_connections 512; }}\n"
      "http {{ access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000000; open_file_cache max=1000;\n"
      "client_max_body_size 0; client_body_buffer_size 128k; client_body_temp_path {0}/temporary;\n"
      "server {{ {2} root {0}/root; location / {{ dav_methods PUT; create_full_put_path on; }} }} "
      "}}\n",
      d, ::geteuid() == 0 ? "user root;\n" : "", listener);
}

std::expected<std::unique_ptr<Nginx>, std::string> Nginx::start(const NginxTls& tls, bool keep) {
  std::unique_ptr<Nginx> nginx(new Nginx);
  std::string name = (std::filesystem::temp_directory_path() / "verbena-nginx-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return std::unexpected("cannot make a temporary folder for nginx");
  nginx->directory_ = name;
  std::filesystem::create_directory(nginx->directory_ / "root");
  const uint16_t port = free_port();
  std::ofstream(nginx->directory_ / "nginx.conf") << nginx->configuration(port, tls);
  auto child = Child::start({program, "-p", name, "-c", name + "/nginx.conf"}, {});
  if (!child) return std::unexpected(child.error());
  nginx->child_ = std::move(*child);
  net::HttpOptions options{.host = "127.0.0.1", .port = port, .tls = !tls.certificate.empty(), .insecure = true};
  if (!keep) options.idle_connections_max = 0;
  auto http = net::HttpClient::create(std::move(options));
  if (!http) return std::unexpected(describe(http.error()));
  nginx->http_ = std::move(*http);
  for (int i = 0; i < nginx_tries; ++i) {
    if (nginx->http_->warm_up()) return nginx;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::ifstream log(nginx->directory_ / "error.log");
  return std::unexpected("nginx did not start: " + std::string(std::istreambuf_iterator<char>(log), {}));
}

Outcome<> exchange(net::HttpClient& http, const net::HttpRequest& request, uint64_t bytes_wanted) {
  const auto reply = http.request(request);
  if (!reply) return fault(reply.error(), "nginx");
  if (reply->status / 100 != 2) return fault(ErrorCode::server_error, "nginx answers " + std::to_string(reply->status));
  if (reply->body_bytes != bytes_wanted) return fault(ErrorCode::malformed_reply, "nginx: a GET came back short");
  return {};
}

Outcome<BenchRow> measure_one(Nginx& nginx, const std::string& op, uint64_t size, unsigned concurrency,
                              const BenchPlan& plan) {
  const bool get = op != "put";
  BenchRow row;
  row.door = "nginx";
  row.provider = nginx.http().options().tls ? "https" : "http";
  row.op = op;
  row.size = size;
  row.concurrency = concurrency;
  std::vector<std::vector<std::byte>> buffers(concurrency, std::vector<std::byte>(size));
  std::vector<cli::BenchCaller> callers;
  for (unsigned i = 0; i < concurrency; ++i) {
    cli::fill_pattern(buffers[i], i);
    net::HttpRequest put;
    put.method = "PUT";
    put.target = fmt::format("/bench/{}-{}", size, i);
    put.body = buffers[i];
    OUT_TRY(exchange(nginx.http(), put, 0));
    net::HttpRequest ask = put;
    if (get) {
      ask.method = "GET";
      ask.body = {};
      ask.into = MutableBytes(buffers[i]);
    }
    callers.push_back({.op = [&nginx, ask, want = get ? size : 0] { return exchange(nginx.http(), ask, want); }});
    OUT_TRY(callers.back().op());
  }
  OUT_TRY(cli::run_callers(callers, plan, [&] { return nginx.cpu_seconds(); }, row));
  return row;
}

}  // namespace

bool nginx_is_there() { return ::access(program, X_OK) == 0; }

Rows measure_nginx(const BenchPlan& plan, const NginxTls& tls) {
  std::vector<BenchRow> rows;
  for (const std::string& op : plan.ops) {
    auto nginx = Nginx::start(tls, op != "get_new");
    if (!nginx) return std::unexpected(nginx.error());
    for (const uint64_t size : plan.sizes) {
      for (const unsigned concurrency : plan.concurrency) {
        auto row = measure_one(**nginx, op, size, concurrency, plan);
        if (!row) return std::unexpected(row.error().message);
        rows.push_back(std::move(*row));
      }
    }
  }
  return rows;
}

}  // namespace verbena::yardsticks
