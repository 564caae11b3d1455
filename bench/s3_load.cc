// Load for bench/rados.py: requests of several callers at once to any S3 server over HTTP, and many small objects by a
// server's native door. Prints one line of JSON.
//
//   s3_load get|put|head ENDPOINT ...   --count requests over the keys of numbers from --first on, each once
//   s3_load fill ENDPOINT ...           the same objects in batches, by the native door at --native
//
// Keys are in $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY. An object's key and bytes are functions of its number, so
// that each GET can verify its answer.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <atomic>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "auth/auth.h"
#include "cli/bench/bench.h"
#include "client/endpoint.h"
#include "net/http_client.h"
#include "verbena/client.h"

namespace verbena::bench {
namespace {

struct Plan {
  std::string endpoint, native, bucket = "bench", prefix = "k";
  uint64_t first = 0, count = 1000, keys = 0, size = 4096;
  unsigned callers = 16, batch = 1000;
  auth::Credentials credentials;
};

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "s3_load: {}\n", why);
  std::_Exit(1);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string key_of(const Plan& plan, uint64_t number) { return fmt::format("{}{:010}", plan.prefix, number); }

// Writes the number at both ends, as far as it fits.
void stamp(MutableBytes bytes, uint64_t number) {
  const size_t n = std::min(bytes.size(), sizeof number);
  std::memcpy(bytes.data(), &number, n);
  std::memcpy(bytes.data() + bytes.size() - n, &number, n);
}
bool is_stamped(Bytes bytes, uint64_t number) {
  const size_t n = std::min(bytes.size(), sizeof number);
  return std::memcmp(bytes.data() + bytes.size() - n, &number, n) == 0 &&
         (bytes.size() < 2 * n || std::memcmp(bytes.data(), &number, n) == 0);
}

// Numbers that several threads take one after the other, and the time of each.
class Work {
 public:
  explicit Work(uint64_t count) : count_(count) {}

  template <class Fn>
  void run(unsigned threads, Fn&& one) {
    const auto began = SteadyClock::now();
    {
      std::vector<std::jthread> running;
      for (unsigned i = 0; i < threads; ++i) running.emplace_back([&] { serve(one); });
    }
    seconds_ = std::chrono::duration<double>(SteadyClock::now() - began).count();
  }

  void print() {
    const auto us = [&](double part) { return cli::percentile_us(samples_ns_, part).value_or(0); };
    const nlohmann::ordered_json row{{"count", count_},    {"seconds", seconds_},  {"p50_us", us(0.5)},
                                     {"p99_us", us(0.99)}, {"p999_us", us(0.999)}, {"max_us", us(1)}};
    fmt::print("{}\n", row.dump());
  }

 private:
  template <class Fn>
  void serve(Fn&& make) {
    auto one = make();
    std::vector<uint32_t> samples;
    for (uint64_t n = next_++; n < count_; n = next_++) {
      const auto before = SteadyClock::now();
      one(n);
      const auto took = std::chrono::nanoseconds(SteadyClock::now() - before).count();
      samples.push_back(static_cast<uint32_t>(std::min<int64_t>(took, UINT32_MAX)));
    }
    const std::lock_guard lock(mutex_);
    samples_ns_.insert(samples_ns_.end(), samples.begin(), samples.end());
  }

  const uint64_t count_;
  std::atomic<uint64_t> next_{0};
  double seconds_ = 0;
  std::mutex mutex_;
  std::vector<uint32_t> samples_ns_;  // guarded by mutex_
};

// --- Over HTTP, by S3 clients

void ask(net::HttpClient& http, const Plan& plan, std::string_view method, uint64_t number, MutableBytes bytes) {
  net::HttpRequest request;
  request.method = method;
  request.target = fmt::format("/{}/{}", plan.bucket, key_of(plan, number));
  request.headers = {{"host", http.host_header()}};
  if (method == "PUT") {
    stamp(bytes, number);
    request.body = bytes;
  }
  if (method == "GET") request.into = bytes;
  auth::sign(plan.credentials, "us-east-1", "s3", system_clock(), request.method, request.target, "",
             "UNSIGNED-PAYLOAD", request.headers);
  const auto reply = http.request(request);
  if (!reply) give_up(request.target + ": " + describe(reply.error()));
  if (reply->status != 200) give_up(fmt::format("{} {}: {}", method, request.target, reply->status));
  if (method == "GET" && (reply->body_bytes != plan.size || !is_stamped(bytes, number))) {
    give_up(request.target + ": not the object that was put");
  }
}

void run_http(const Plan& plan, const std::string& method) {
  const auto endpoint = client::parse_endpoint(plan.endpoint);
  if (!endpoint) give_up(endpoint.error().message);
  net::HttpOptions options{.host = endpoint->host, .port = endpoint->port};
  options.idle_connections_max = plan.callers;
  const auto http = net::HttpClient::create(std::move(options));
  if (!http) give_up(describe(http.error()));
  Work work(plan.count);
  work.run(plan.callers, [&] {
    return [&, bytes = std::vector<std::byte>(plan.size)](uint64_t n) mutable {
      ask(**http, plan, method, plan.first + (plan.keys == 0 ? n : n % plan.keys), bytes);
    };
  });
  work.print();
}

// --- By the native door

void put_batch(const Client& client, const Plan& plan, Buffer& buffer, uint64_t number) {
  const uint64_t first = plan.first + number * plan.batch;
  const uint64_t last = std::min(first + plan.batch, plan.first + plan.count);
  std::vector<std::string> keys;
  std::vector<BatchItem> items;
  for (uint64_t i = first; i < last; ++i) keys.push_back(key_of(plan, i));
  for (uint64_t i = first; i < last; ++i) {
    const size_t at = (i - first) * plan.size;
    stamp(MutableBytes(buffer.bytes()).subspan(at, plan.size), i);
    items.push_back({.bucket = plan.bucket, .key = keys[i - first], .offset = at, .size = plan.size});
  }
  std::vector<BatchResult> results(items.size());
  const auto moved = client.put_many(items, std::span(&buffer, 1), results);
  if (!moved) give_up("put_many: " + moved.error().message);
  for (size_t i = 0; i < items.size(); ++i) {
    if (results[i].error) give_up(fmt::format("put_many: {}: {}", keys[i], to_string(*results[i].error)));
  }
}

void run_fill(const Plan& plan) {
  ClientOptions options;
  options.endpoint = plan.endpoint;
  options.native_endpoint = plan.native;
  options.access_key = plan.credentials.access_key;
  options.secret_key = plan.credentials.secret_key;
  options.via = Via::native;
  const auto client = Client::connect(options);
  if (!client) give_up(client.error().message);
  Work work((plan.count + plan.batch - 1) / plan.batch);
  work.run(plan.callers, [&] {
    auto buffer = client->allocate(plan.size * plan.batch);
    if (!buffer) give_up(buffer.error().message);
    return [&, bytes = std::move(*buffer)](uint64_t n) mutable { put_batch(*client, plan, bytes, n); };
  });
  work.print();
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  using namespace verbena::bench;
  CLI::App app{"Requests to an S3 server, for bench/rados.py", "s3_load"};
  app.require_subcommand(1);
  Plan plan;
  for (const char* name : {"get", "put", "head", "fill"}) {
    CLI::App* verb = app.add_subcommand(name, "");
    verb->add_option("ENDPOINT", plan.endpoint, "http://HOST:PORT")->required();
    verb->add_option("--bucket", plan.bucket, "which is there")->capture_default_str();
    verb->add_option("--prefix", plan.prefix, "of the keys")->capture_default_str();
    verb->add_option("--first", plan.first, "number of the first object")->capture_default_str();
    verb->add_option("--count", plan.count, "requests; of fill, objects")->capture_default_str();
    verb->add_option("--keys", plan.keys, "begin again after so many; 0: never")->capture_default_str();
    verb->add_option("--size", plan.size, "bytes of an object")->capture_default_str()->check(CLI::Range(1, 1 << 30));
    verb->add_option("--callers", plan.callers, "at once")->capture_default_str()->check(CLI::Range(1, 256));
    verb->add_option("--native", plan.native, "HOST:PORT of the native door");
    verb->add_option("--batch", plan.batch, "objects in a call of fill")
        ->capture_default_str()
        ->check(CLI::Range(1, 4096));
  }
  CLI11_PARSE(app, argc, argv);
  plan.credentials = {environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"), ""};
  const std::string verb = app.get_subcommands().front()->get_name();
  if (verb == "fill") {
    run_fill(plan);
  } else {
    run_http(plan, verb == "get" ? "GET" : verb == "put" ? "PUT" : "HEAD");
  }
  return 0;
}
