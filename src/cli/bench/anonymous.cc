// HTTP without a signature: the cost of a GET without hashing. The objects are public, in a bucket of the benchmark's
// own.
#include <fmt/core.h>

#include "auth/auth.h"
#include "base/checksum.h"
#include "cli/bench/loop.h"
#include "cli/bench/runner.h"
#include "client/endpoint.h"
#include "net/http_client.h"

namespace verbena::cli {

using client::fault;

namespace {

using HttpPtr = std::unique_ptr<net::HttpClient>;

Outcome<HttpPtr> connect(const ClientOptions& options, bool keep = true) {
  const auto endpoint = client::parse_endpoint(options.endpoint);
  if (!endpoint) return std::unexpected(endpoint.error());
  net::HttpOptions http{
      .host = endpoint->host, .port = endpoint->port, .tls = endpoint->tls, .ca_file = options.ca_file};
  http.insecure = options.insecure;
  if (!keep) http.idle_connections_max = 0;
  auto made = net::HttpClient::create(std::move(http));
  if (!made) return fault(made.error(), "anonymous");
  return std::move(*made);
}

Outcome<> ask(net::HttpClient& http, const net::HttpRequest& request, uint64_t bytes_wanted) {
  const auto reply = http.request(request);
  if (!reply) return fault(reply.error(), "anonymous");
  if (reply->status != 200) {
    return fault(ErrorCode::server_error, "an anonymous GET is answered " + std::to_string(reply->status));
  }
  if (reply->body_bytes != bytes_wanted) return fault(ErrorCode::malformed_reply, "an anonymous GET came back short");
  return {};
}

}  // namespace

Outcome<> let_everyone_read(const ClientOptions& options, const std::string& bucket) {
  OUT_ASSIGN(const HttpPtr http, connect(options));
  const std::string policy =
      fmt::format(R"({{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",)"
                  R"("Resource":"arn:aws:s3:::{}/*"}}]}})",
                  bucket);
  net::HttpRequest request;
  request.method = "PUT";
  request.target = "/" + bucket + "?policy";
  request.headers = {{"host", http->host_header()}};
  request.body = as_bytes(policy);
  auth::sign({options.access_key, options.secret_key, options.session_token}, options.region, "s3", system_clock(),
             request.method, "/" + bucket, "policy", to_hex(as_bytes(sha256(request.body))), request.headers);
  const auto reply = http->request(request);
  if (!reply) return fault(reply.error(), "bucket policy");
  if (reply->status / 100 != 2) {
    return fault(ErrorCode::server_error, "the bucket's policy is answered " + std::to_string(reply->status));
  }
  return {};
}

Outcome<BenchRow> measure_anonymous(const Client& client, const BenchServer& server, const std::string& bucket,
                                    const std::string& op, uint64_t size, unsigned concurrency, const BenchPlan& plan) {
  OUT_ASSIGN(const HttpPtr http, connect(server.options(), op != "get_new"));
  BenchRow row;
  row.door = "anonymous";
  row.provider = http->options().tls ? "https" : "http";
  row.op = op;
  row.size = size;
  row.concurrency = concurrency;
  std::vector<Buffer> buffers(concurrency);
  std::vector<uint32_t> wanted(concurrency);
  std::vector<BenchCaller> callers;
  for (unsigned i = 0; i < concurrency; ++i) {
    const std::string key = fmt::format("anonymous/{}/{}", size, i);
    OUT_ASSIGN(buffers[i], client.allocate(size));
    fill_pattern(buffers[i].bytes(), i);
    wanted[i] = crc32c(buffers[i].bytes());
    OUT_TRY(client.put(bucket, key, buffers[i]));
    net::HttpRequest get;
    get.target = "/" + bucket + "/" + key;
    get.into = MutableBytes(buffers[i].bytes());
    callers.push_back({.op = [&http = *http, get, size] { return ask(http, get, size); }});
    for (int warm_up = 0; warm_up < 10; ++warm_up) OUT_TRY(callers.back().op());
  }
  OUT_TRY(run_callers(callers, plan, [&] { return server.cpu_seconds(); }, row));
  for (unsigned i = 0; i < concurrency; ++i) {
    std::ranges::fill(buffers[i].bytes(), std::byte{0});
    OUT_TRY(callers[i].op());
    if (crc32c(buffers[i].bytes()) != wanted[i]) {
      return fault(ErrorCode::checksum_mismatch, "an anonymous GET: the bytes differ from those that were put");
    }
    OUT_TRY(client.remove(bucket, fmt::format("anonymous/{}/{}", size, i)));
  }
  return row;
}

}  // namespace verbena::cli
