// Load for bench/dialects.py: GETs and PUTs of one size by one dialect of S3 over RDMA, for some seconds, from some
// callers at once. Prints one line of JSON.
//
//   dialect_load WAY get|put ENDPOINT --size BYTES --seconds S --callers N [--device NAME --address IP --native
//   HOST:PORT]
//
//   hipobj   hipobj-rc-v2: a queue pair for each transfer
//   cuobj    cuObject's protocol over a reliable connection, which each caller makes once
//   ofi1     the token door of Verbena's client library
//   shim     libs3rdma.so.0: memory is registered once, each request has a token
//   cushim   libcuobjclient.so.1: likewise, by its callbacks
//   http     a signed GET or PUT whose body is HTTP's
//
// Keys are in $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY. Each object's first and last bytes tell its key; every GET
// checks them in memory that it has wiped.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "auth/auth.h"
#include "cli/bench/bench.h"
#include "client/endpoint.h"
#include "cuobjclient.h"
#include "give_up.h"
#include "net/http_client.h"
#include "rc_pair.h"
#include "s3rdma.h"
#include "verbena/client.h"

namespace verbena::bench {
namespace {

constexpr const char* cookie_text = "01020304";
constexpr uint32_t cookie = 0x01020304;

struct Plan {
  std::string way, op, endpoint, native, device, address, bucket = "bench";
  uint64_t size = 1 << 20;
  double seconds = 2;
  unsigned callers = 1;
  auth::Credentials credentials;
  bool is_get() const { return op == "get"; }
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::unique_ptr<net::HttpClient> http_client(const Plan& plan) {
  const auto endpoint = client::parse_endpoint(plan.endpoint);
  if (!endpoint) give_up(endpoint.error().message);
  net::HttpOptions options{.host = endpoint->host, .port = endpoint->port};
  options.idle_connections_max = plan.callers;
  auto http = net::HttpClient::create(std::move(options));
  if (!http) give_up(describe(http.error()));
  return std::move(*http);
}

class Requests {
 public:
  Requests(const Plan& plan, net::HttpClient& http) : plan_(plan), http_(http) {}

  net::HttpReply ask(const std::string& method, const std::string& target, net::HttpHeaders headers, Bytes body = {},
                     std::optional<MutableBytes> into = {}) const {
    net::HttpRequest request{.method = method, .target = target, .headers = std::move(headers), .body = body};
    request.into = into;
    request.headers.emplace_back("host", http_.host_header());
    auth::sign(plan_.credentials, "us-east-1", "s3", system_clock(), method, target, "", "UNSIGNED-PAYLOAD",
               request.headers);
    auto reply = http_.request(request);
    if (!reply) give_up(target + ": " + describe(reply.error()));
    if (reply->status / 100 != 2) give_up(fmt::format("{} {}: {} {}", method, target, reply->status, reply->body));
    return std::move(*reply);
  }

 private:
  const Plan& plan_;
  net::HttpClient& http_;
};

std::string header(const net::HttpReply& reply, std::string_view name) {
  const auto value = reply.header(name);
  if (!value) give_up(fmt::format("an answer without {}", name));
  return std::string(*value);
}
uint64_t number_of(const std::string& text) { return std::stoull(text, nullptr, 16); }

// One caller's way of moving one object.
class Mover {
 public:
  Mover(const Plan& plan, net::HttpClient& http, unsigned index)
      : plan_(plan), requests_(plan, http), key_(fmt::format("{}-{}", plan.size, index)) {}
  virtual ~Mover() = default;

  // Moves the object from or into memory(), and returns when its bytes are where they belong.
  virtual void get() = 0;
  virtual void put() = 0;
  virtual MutableBytes memory() = 0;

  void once() {
    if (!plan_.is_get()) return put();
    wipe();
    get();
    check();
  }
  // Stores the object that GETs read. PUTs find other bytes there than they store.
  void seed() {
    stamp();
    if (!plan_.is_get()) memory().front() = std::byte{0xff};
    requests_.ask("PUT", path(), {}, memory());
    stamp();
  }
  // After PUTs: what is stored.
  void verify() {
    std::vector<std::byte> stored(plan_.size);
    const auto reply = requests_.ask("GET", path(), {}, {}, MutableBytes(stored));
    stamp();
    if (reply.body_bytes != plan_.size || !std::ranges::equal(stored, memory())) give_up(path() + ": other bytes");
  }

 protected:
  std::string path() const { return fmt::format("/{}/{}", plan_.bucket, key_); }
  const Plan& plan_;
  Requests requests_;
  std::string key_;

 private:
  void stamp() {
    std::ranges::fill(memory(), std::byte{0x5a});
    std::memcpy(memory().data(), key_.data(), std::min<size_t>(key_.size(), memory().size() / 2));
    std::memcpy(memory().data() + memory().size() - key_.size(), key_.data(), key_.size());
  }
  void wipe() {
    std::memset(memory().data(), 0, key_.size());
    std::memset(memory().data() + memory().size() - key_.size(), 0, key_.size());
  }
  void check() {
    const MutableBytes at = memory();
    if (std::memcmp(at.data(), key_.data(), key_.size()) != 0 ||
        std::memcmp(at.data() + at.size() - key_.size(), key_.data(), key_.size()) != 0) {
      give_up(path() + ": not the bytes that were put");
    }
  }
};

class OverHttp : public Mover {
 public:
  OverHttp(const Plan& plan, net::HttpClient& http, unsigned index) : Mover(plan, http, index), bytes_(plan.size) {}
  MutableBytes memory() override { return bytes_; }
  void get() override { requests_.ask("GET", path(), {}, {}, MutableBytes(bytes_)); }
  void put() override { requests_.ask("PUT", path(), {}, bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// What both dialects over reliable connections begin with.
class OverPairs : public Mover {
 public:
  OverPairs(const Plan& plan, net::HttpClient& http, unsigned index)
      : Mover(plan, http, index), device_(plan.device, plan.address.c_str(), plan.size) {}
  MutableBytes memory() override { return std::as_writable_bytes(std::span(device_.memory)); }

 protected:
  void connect(vm::RcPair& pair, const net::HttpReply& reply) {
    const std::string token = header(reply, "x-amz-rdma-reply").substr(4);  // behind "200:"
    const auto little = static_cast<uint32_t>(number_of(token.substr(2, 8)));
    pair.connect(__builtin_bswap32(little), static_cast<uint32_t>(number_of(header(reply, "x-amz-rdma-psn"))),
                 token.substr(10, 32));
  }
  std::string address() const { return fmt::format("{:x}", reinterpret_cast<uintptr_t>(device_.memory.data())); }
  std::string key() const { return fmt::format("{:x}", device_.region->rkey); }
  static std::string sequence() { return fmt::format("{:06x}", vm::RcPair::own_sequence); }

  vm::RcDevice device_;
};

class Hipobj : public OverPairs {
 public:
  using OverPairs::OverPairs;

  void get() override {
    vm::RcPair pair(device_);
    const auto prepared = prepare(pair);
    ready(pair, prepared);
    ibv_wc done{};
    if (!pair.take(done) || done.status != IBV_WC_SUCCESS) give_up("the last write has not come");
  }
  void put() override {
    vm::RcPair pair(device_);
    const auto prepared = prepare(pair);
    const std::string written =
        pair.write(number_of(header(prepared, "x-amz-rdma-mr-addr")),
                   static_cast<uint32_t>(number_of(header(prepared, "x-amz-rdma-mr-rkey"))), cookie, plan_.size);
    if (written != "ok") give_up("RDMA WRITE: " + written);
    ready(pair, prepared);
  }

 private:
  net::HttpReply prepare(vm::RcPair& pair) {
    auto reply = requests_.ask("POST", "/.hipobj-rc/prepare",
                               {{"x-amz-rdma-protocol", "hipobj-rc-v2"},
                                {"x-amz-rdma-token", pair.token()},
                                {"x-amz-rdma-psn", sequence()},
                                {"x-amz-rdma-cookie", cookie_text},
                                {"x-amz-rdma-op", plan_.is_get() ? "GET" : "PUT"},
                                {"x-amz-rdma-target", path()},
                                {"x-amz-rdma-size", std::to_string(plan_.size)}});
    connect(pair, reply);
    return reply;
  }
  void ready(vm::RcPair& pair, const net::HttpReply& prepared) {
    const auto reply = requests_.ask("POST", "/.hipobj-rc/ready",
                                     {{"x-amz-rdma-protocol", "hipobj-rc-v2"},
                                      {"x-amz-rdma-session", header(prepared, "x-amz-rdma-session")},
                                      {"x-amz-rdma-cookie", cookie_text},
                                      {"x-amz-rdma-qpn", fmt::format("{:x}", pair.number())},
                                      {"x-amz-rdma-mr-addr", address()},
                                      {"x-amz-rdma-mr-rkey", key()}});
    if (header(reply, "x-amz-rdma-bytes-transferred") != std::to_string(plan_.size))
      give_up("not all bytes have moved");
  }
};

// A request with a token, by the way of `ofi1`: 200 and no body, or it was declined.
void move_by_token(const Requests& requests, const Plan& plan, const std::string& path, const std::string& token) {
  const auto reply = requests.ask(plan.is_get() ? "GET" : "PUT", path, {{"x-amz-rdma-token", token}});
  if (header(reply, "x-amz-rdma-reply") != "200") give_up(path + ": declined");
}

class Cuobj : public OverPairs {
 public:
  Cuobj(const Plan& plan, net::HttpClient& http, unsigned index) : OverPairs(plan, http, index), pair_(device_) {
    const auto reply = requests_.ask("POST", "/.s3rdma-rc/connect",
                                     {{"x-amz-rdma-token", pair_.token()}, {"x-amz-rdma-psn", sequence()}});
    connect(pair_, reply);
    token_ = fmt::format("rc:{}:{}:{:x}:{}", header(reply, "x-amz-rdma-session"), address(), plan.size, key());
  }
  void get() override { move_by_token(requests_, plan_, path(), token_); }
  void put() override { move_by_token(requests_, plan_, path(), token_); }

 private:
  vm::RcPair pair_;
  std::string token_;
};

class Ofi1 : public Mover {
 public:
  Ofi1(const Plan& plan, net::HttpClient& http, unsigned index, const Client& client)
      : Mover(plan, http, index), client_(client) {
    auto made = client.allocate(plan.size);
    if (!made) give_up(made.error().message);
    buffer_ = std::move(*made);
  }
  MutableBytes memory() override { return buffer_.bytes(); }
  void get() override {
    const auto got = client_.get(plan_.bucket, key_, buffer_);
    if (!got) give_up(got.error().message);
  }
  void put() override {
    const auto put = client_.put(plan_.bucket, key_, buffer_);
    if (!put) give_up(put.error().message);
  }

 private:
  const Client& client_;
  Buffer buffer_;
};

class Shim : public Mover {
 public:
  Shim(const Plan& plan, net::HttpClient& http, unsigned index, S3RdmaClientHandle library)
      : Mover(plan, http, index), library_(library), bytes_(plan.size) {
    if (s3rdma_client_register(library_, bytes_.data(), bytes_.size()) != 0)
      give_up("libs3rdma.so.0 registers nothing");
  }
  ~Shim() override { s3rdma_client_deregister(library_, bytes_.data()); }
  MutableBytes memory() override { return bytes_; }
  void get() override { move(); }
  void put() override { move(); }

 private:
  void move() {
    char* token = nullptr;
    if (s3rdma_client_get_token(library_, bytes_.data(), bytes_.size(), 0, &token) != 0) give_up("no token");
    move_by_token(requests_, plan_, path(), token);
    s3rdma_client_free_token(token);
  }
  S3RdmaClientHandle library_;
  std::vector<std::byte> bytes_;
};

class CuShim : public Mover {
 public:
  CuShim(const Plan& plan, net::HttpClient& http, unsigned index, cuObjClient& library)
      : Mover(plan, http, index), library_(library), bytes_(plan.size) {
    if (library_.cuMemObjGetDescriptor(bytes_.data(), bytes_.size()) != CU_OBJ_SUCCESS)
      give_up("libcuobjclient.so.1 registers nothing");
  }
  ~CuShim() override { library_.cuMemObjPutDescriptor(bytes_.data()); }
  MutableBytes memory() override { return bytes_; }
  void get() override { check_moved(library_.cuObjGet(this, bytes_.data(), bytes_.size(), 0, 0)); }
  void put() override { check_moved(library_.cuObjPut(this, bytes_.data(), bytes_.size(), 0, 0)); }
  static CUObjIOOps& callbacks() {
    static CUObjIOOps both{[](const void* handle, char*, size_t size, loff_t, const cufileRDMAInfo* info) {
                             return move(handle, size, *info);
                           },
                           [](const void* handle, const char*, size_t size, loff_t, const cufileRDMAInfo* info) {
                             return move(handle, size, *info);
                           }};
    return both;
  }

 private:
  static ssize_t move(const void* handle, size_t size, const cufileRDMAInfo& info) {
    const auto& self = *static_cast<const CuShim*>(cuObjClient::getCtx(handle));
    move_by_token(self.requests_, self.plan_, self.path(), info.desc_str);
    return static_cast<ssize_t>(size);
  }
  void check_moved(ssize_t moved) const {
    if (moved != static_cast<ssize_t>(bytes_.size())) give_up("libcuobjclient.so.1 has no token");
  }
  cuObjClient& library_;
  std::vector<std::byte> bytes_;
};

// What all callers of a run share.
struct Shared {
  explicit Shared(const Plan& plan) : http(http_client(plan)) {
    if (plan.way == "ofi1") open_client(plan);
    if (plan.way == "shim") {
      char why[256] = {};
      library = s3rdma_client_init(plan.device.c_str(), why, sizeof why);
      if (s3rdma_client_ready(library) == 0) give_up(std::string("libs3rdma.so.0: ") + why);
    }
    if (plan.way == "cushim") {
      cuobject.emplace(CuShim::callbacks(), CUOBJ_PROTO_RDMA_DC_V1);
      if (!cuobject->isConnected()) give_up("libcuobjclient.so.1: no device");
    }
  }
  void open_client(const Plan& plan) {
    ClientOptions options;
    options.endpoint = plan.endpoint;
    options.native_endpoint = plan.native;
    options.access_key = plan.credentials.access_key;
    options.secret_key = plan.credentials.secret_key;
    options.via = Via::token;
    options.provider = environment("S3RDMA_PROVIDER");
    options.sign_payload = false;
    auto made = Client::connect(options);
    if (!made) give_up(made.error().message);
    client.emplace(std::move(*made));
  }

  std::unique_ptr<Mover> mover(const Plan& plan, unsigned index) {
    if (plan.way == "hipobj") return std::make_unique<Hipobj>(plan, *http, index);
    if (plan.way == "cuobj") return std::make_unique<Cuobj>(plan, *http, index);
    if (plan.way == "ofi1") return std::make_unique<Ofi1>(plan, *http, index, *client);
    if (plan.way == "shim") return std::make_unique<Shim>(plan, *http, index, library);
    if (plan.way == "cushim") return std::make_unique<CuShim>(plan, *http, index, *cuobject);
    return std::make_unique<OverHttp>(plan, *http, index);
  }

  std::unique_ptr<net::HttpClient> http;
  std::optional<Client> client;
  S3RdmaClientHandle library{};
  std::optional<cuObjClient> cuobject;
};

void run(const Plan& plan) {
  Shared shared(plan);
  std::vector<std::unique_ptr<Mover>> movers;
  for (unsigned i = 0; i < plan.callers; ++i) {
    movers.push_back(shared.mover(plan, i));
    movers.back()->seed();
    movers.back()->once();  // connections are made before the clock runs
  }
  std::mutex mutex;
  std::vector<uint32_t> samples_ns;
  const auto began = SteadyClock::now();
  const auto end =
      began + std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(plan.seconds));
  const auto serve = [&](Mover& mover) {
    std::vector<uint32_t> own;
    do {
      const auto before = SteadyClock::now();
      mover.once();
      const auto took = std::chrono::nanoseconds(SteadyClock::now() - before).count();
      own.push_back(static_cast<uint32_t>(std::min<int64_t>(took, UINT32_MAX)));
    } while (SteadyClock::now() < end);
    const std::lock_guard lock(mutex);
    samples_ns.insert(samples_ns.end(), own.begin(), own.end());
  };
  {
    std::vector<std::jthread> threads;
    for (auto& mover : movers) threads.emplace_back([&serve, &mover] { serve(*mover); });
  }
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - began).count();
  if (!plan.is_get()) {
    for (auto& mover : movers) mover->verify();
  }
  const size_t count = samples_ns.size();
  const nlohmann::ordered_json row{{"way", plan.way},
                                   {"op", plan.op},
                                   {"size", plan.size},
                                   {"callers", plan.callers},
                                   {"operations", count},
                                   {"bytes_per_s", static_cast<double>(count * plan.size) / seconds},
                                   {"p50_us", cli::percentile_us(samples_ns, 0.5).value_or(0)}};
  fmt::print("{}\n", row.dump());
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  using namespace verbena::bench;
  CLI::App app{"GETs and PUTs by a dialect of S3 over RDMA, for bench/dialects.py", "dialect_load"};
  Plan plan;
  app.add_option("WAY", plan.way)
      ->required()
      ->check(CLI::IsMember({"hipobj", "cuobj", "ofi1", "shim", "cushim", "http"}));
  app.add_option("OPERATION", plan.op)->required()->check(CLI::IsMember({"get", "put"}));
  app.add_option("ENDPOINT", plan.endpoint, "http://HOST:PORT")->required();
  app.add_option("--native", plan.native, "HOST:PORT of the native door, for ofi1");
  app.add_option("--device", plan.device, "RDMA device of this side");
  app.add_option("--address", plan.address, "its IPv4 address");
  app.add_option("--bucket", plan.bucket, "which is there")->capture_default_str();
  app.add_option("--size", plan.size, "bytes of an object")->capture_default_str()->check(CLI::Range(64, 1 << 30));
  app.add_option("--seconds", plan.seconds)->capture_default_str()->check(CLI::Range(0.01, 600.0));
  app.add_option("--callers", plan.callers, "at once")->capture_default_str()->check(CLI::Range(1, 64));
  CLI11_PARSE(app, argc, argv);
  plan.credentials = {environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"), ""};
  run(plan);
  return 0;
}
