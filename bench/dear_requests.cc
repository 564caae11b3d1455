// The most expensive request of each kind: how long at a time it holds its core, and its total CPU time there. A whole
// server without the core's thread: the core's handlers run here, one after the other, and this thread's CPU time is
// read between them (`./dev bench requests`).
//
//   dear_requests [--json] [--repeat N] [NAME...]
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "auth/auth.h"
#include "auth/policy.h"
#include "base/checksum.h"
#include "base/log.h"
#include "call/access_log.h"
#include "dear_requests.h"
#include "give_up.h"
#include "http/s3_handler.h"
#include "native/native.h"
#include "native/test_handshake.h"
#include "native/wire/batch.h"
#include "native_peers.h"
#include "s3/workers/request_log.h"
#include "s3_http/routing/router.h"
#include "store/hot_store.h"
#include "store/local/local_store.h"

namespace verbena::bench {
namespace {

namespace wire = native::wire;

int64_t thread_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// A client's end that never blocks, since the same thread runs the server.
class Caller {
 public:
  explicit Caller(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) give_up("connect");
  }
  ~Caller() { ::close(fd_); }
  void send_some(std::string_view& text) {
    const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
  // The status, once the answer is complete.
  int take(bool bodyless) {
    for (;;) {
      const ssize_t n = ::recv(fd_, piece_.data(), piece_.size(), MSG_DONTWAIT);
      if (n <= 0) break;
      answer_.append(piece_.data(), static_cast<size_t>(n));
    }
    const size_t end = answer_.find("\r\n\r\n");
    if (end == std::string::npos) return 0;
    size_t length = 0;
    const size_t at = answer_.find("Content-Length: ");
    if (at < end && !bodyless) length = std::stoull(answer_.substr(at + 16));
    return answer_.size() < end + 4 + length ? 0 : std::atoi(answer_.c_str() + 9);
  }
  const std::string& answer() const { return answer_; }

 private:
  int fd_;
  std::string answer_;
  std::vector<char> piece_ = std::vector<char>(1 << 20);
};

class WholeHouse final : public House {
 public:
  WholeHouse();
  void remove_files() const;
  Cost ask(const std::string& request, bool bodyless) override;
  Cost batch(std::string_view type, size_t key_bytes) override;
  Cost native_list(std::string_view bucket) override;
  std::string sign(const Ask& ask) override;
  uint16_t port() const override { return listener_->port(); }
  const auth::Credentials& keys() const override { return keys_; }

 private:
  // Runs one handler, if any is ready.
  bool step(Cost& cost) {
    const int64_t began = thread_ns();
    core_.io().restart();
    const bool had_one = core_.io().poll_one() != 0;
    const int64_t took = thread_ns() - began;
    if (!had_one) return false;
    cost.longest_ns = std::max(cost.longest_ns, took);
    cost.all_ns += took;
    return true;
  }
  template <class T>
  T run(Task<T> task) {
    auto future = boost::asio::co_spawn(core_.io(), std::move(task), boost::asio::use_future);
    Cost cost;
    while (future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) step(cost);
    return future.get();
  }
  void open_session();
  Cost exchange(wire::Type type, Bytes body);

  std::filesystem::path directory_;
  std::unique_ptr<memory::Arena> arena_;
  BlockingPool pool_{2, 256};
  Core core_{{}};
  std::unique_ptr<store::local::LocalStore> store_;
  std::unique_ptr<store::HotStore> hot_;
  auth::Credentials keys_{.access_key = "AKBENCH", .secret_key = "secret", .session_token = {}};
  auth::RootCredentials credentials_{keys_};
  auth::Verifier verifier_{credentials_, system_clock(), {}};
  std::unique_ptr<s3::Service> service_;
  std::unique_ptr<s3::RequestLog> request_log_;
  std::unique_ptr<call::AccessLog> access_log_;
  std::unique_ptr<s3::Router> router_;
  BarePort bare_port_;
  std::unique_ptr<native::NativeDoor> door_;
  std::unique_ptr<http::Listener> listener_, sessions_;
  std::unique_ptr<Peer> peer_;
};

WholeHouse::WholeHouse() {
  std::string name = (std::filesystem::temp_directory_path() / "verbena-dear-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) give_up("temporary folder");
  directory_ = name;
  arena_ = must(memory::Arena::create(256 * MiB), "arena");
  store::local::Options options;
  options.directory = directory_ / "data";
  std::filesystem::create_directory(directory_ / "data");
  options.arena = arena_.get();
  options.pool = &pool_;
  store_ = must(store::local::LocalStore::open(options), "store");
  hot_ = std::make_unique<store::HotStore>(*store_,
                                           store::HotStore::Options{.arena = arena_.get(), .capacity = 128 * MiB});
  service_ = std::make_unique<s3::Service>(s3::Service{*hot_, *arena_, system_clock()});
  request_log_ = std::make_unique<s3::RequestLog>(*service_, s3::RequestLog::Options{});
  request_log_->use();
  service_->request_log = request_log_.get();
  service_->verifier = &verifier_;
  access_log_ = must(call::AccessLog::open({.path = directory_ / "access.log", .size_max = 64 * MiB}), "access log");
  router_ = std::make_unique<s3::Router>(*service_, nullptr, s3::Router::Options{});
  native::Options native;
  native.access_log = access_log_.get();
  door_ = std::make_unique<native::NativeDoor>(*service_, verifier_, credentials_, native);
  must(door_->attach(core_, bare_port_, "local", "/nowhere"), "native door");
  http::S3HandlerOptions handler;
  handler.access_log = access_log_.get();
  handler.arena = arena_.get();
  listener_ = must(http::listen(core_, "127.0.0.1", 0, {}, std::nullopt,
                                http::make_s3_handler(verifier_, *router_, std::move(handler))),
                   "listen");
  sessions_ = must(http::listen(core_, "127.0.0.1", 0, {}, std::nullopt, door_->session_handler()), "listen");
  open_session();
}

void WholeHouse::remove_files() const {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string WholeHouse::sign(const Ask& ask) {
  Pairs headers{{"host", "127.0.0.1:" + std::to_string(port())}};
  for (const auto& header : ask.headers) headers.push_back(header);
  const std::string hash = ask.payload.empty() ? to_hex(as_bytes(sha256(as_bytes(ask.body)))) : ask.payload;
  auth::sign(keys_, "us-east-1", "s3", system_clock(), ask.method, ask.path, ask.query, hash, headers);
  std::string text =
      fmt::format("{} {}{}{} HTTP/1.1\r\n", ask.method, ask.path, ask.query.empty() ? "" : "?", ask.query);
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  if (ask.method != "GET" && ask.method != "HEAD" && ask.method != "DELETE") {
    text += fmt::format("content-length: {}\r\n", ask.body.size());
  }
  return text + "\r\n" + ask.body;
}

Cost WholeHouse::ask(const std::string& request, bool bodyless) {
  Caller caller(listener_->port());
  std::string_view rest = request;
  Cost cost, idle;
  for (int i = 0; i < 8; ++i) step(idle);  // accepts the connection
  while ((cost.status = caller.take(bodyless)) == 0) {
    if (!rest.empty()) caller.send_some(rest);
    if (!step(cost)) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  cost.answer = caller.answer();
  return cost;
}

void WholeHouse::open_session() {
  native::TestHandshake handshake(3);
  handshake.wanted["providers"] = {"local"};
  const std::string& body = handshake.body();
  Caller caller(sessions_->port());
  const std::string request = sign({.method = "POST", .path = "/-/session", .body = body});
  std::string_view rest = request;
  Cost cost;
  while (caller.take(false) == 0) {
    if (!rest.empty()) caller.send_some(rest);
    step(cost);
  }
  const std::string answer = caller.answer();
  const wire::MasterKey master = handshake.master(keys_.secret_key, answer.substr(answer.find("\r\n\r\n") + 4));
  const Place place{core_, *door_, handshake.session(), master};
  peer_ = std::make_unique<BarePeer>(place, 0, bare_port_);
  peer_->hello();
}

// A message with as many items as this transport allows: their keys differ only at the end.
Cost WholeHouse::batch(std::string_view type, size_t key_bytes) {
  const auto kind = type == "HEAD_MANY"  ? wire::Type::head_many
                    : type == "GET_MANY" ? wire::Type::get_many
                    : type == "PUT_MANY" ? wire::Type::put_many
                                         : wire::Type::delete_many;
  std::vector<std::byte> space(15 * KiB);
  wire::Writer out(space);
  wire::BatchWriter batch(out, kind);
  wire::BatchHead head;
  head.buckets.add("policied");
  if (kind == wire::Type::get_many) head.inline_max = 64;
  if (!batch.begin(head)) give_up("batch");
  for (size_t i = 0; i < wire::batch_items_max; ++i) {
    const std::string key = std::string(key_bytes, '\x01') + fmt::format("{:04}", i);
    wire::BatchItem item;
    item.key = key;
    if (kind == wire::Type::put_many) item.fields |= wire::field_inline;
    if (!batch.add(item)) break;
  }
  batch.finish();
  return exchange(kind, Bytes(space).first(out.size()));
}

Cost WholeHouse::native_list(std::string_view bucket) {
  std::vector<std::byte> space(4 * KiB);
  wire::Writer out(space);
  wire::List list;
  list.bucket = bucket;
  if (!encode(out, list)) give_up("list");
  return exchange(wire::Type::list, Bytes(space).first(out.size()));
}

// The status is 200 for every answer; the outcomes of a batch's items are not checked.
Cost WholeHouse::exchange(wire::Type type, Bytes body) {
  const auto message = peer_->seal(type, body, 0);
  Cost cost;
  const size_t before = bare_port_.replies;
  const int64_t began = thread_ns();
  bare_port_.receive(1, message);
  cost.longest_ns = cost.all_ns = thread_ns() - began;
  while (bare_port_.replies == before) {
    const int64_t polls = thread_ns();
    const bool polled = door_->poll() != 0;
    const int64_t took = thread_ns() - polls;
    if (polled) cost.longest_ns = std::max(cost.longest_ns, took), cost.all_ns += took;
    if (!step(cost) && !polled) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  cost.status = 200;
  return cost;
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  using namespace verbena::bench;
  verbena::log::set_level(verbena::log::Level::error);
  int repeat = 5;
  bool json = false;
  std::vector<std::string_view> names;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--repeat" && i + 1 < argc) {
      const std::string_view value = argv[++i];
      std::from_chars(value.data(), value.data() + value.size(), repeat);
    } else {
      names.push_back(argument);
    }
  }
  auto* const house = new WholeHouse();  // the process ends with it, and with the coroutines that are suspended there
  nlohmann::json rows = nlohmann::json::array();
  for (const Dear& dear : dearest()) {
    if (!names.empty() && std::ranges::find(names, dear.name) == names.end()) continue;
    if (dear.prepare) dear.prepare(*house);
    std::vector<int64_t> longest, all;
    int status = 0;
    for (int i = 0; i < repeat; ++i) {
      const Cost cost = dear.serve(*house);
      longest.push_back(cost.longest_ns);
      all.push_back(cost.all_ns);
      status = cost.status;
      if (status != dear.status) {
        give_up(fmt::format("{}: {} instead of {}: {}", dear.name, status, dear.status, cost.answer.substr(0, 1500)));
      }
    }
    std::ranges::sort(longest);
    std::ranges::sort(all);
    const double held = static_cast<double>(longest[longest.size() / 2]) / 1e6;
    const double cpu = static_cast<double>(all[all.size() / 2]) / 1e6;
    if (json) {
      rows.push_back(
          {{"name", dear.name}, {"what", dear.what}, {"status", status}, {"held_ms", held}, {"cpu_ms", cpu}});
    } else {
      fmt::print("{:<22} {:>4} {:>9.3f} {:>9.3f}  {}\n", dear.name, status, held, cpu, dear.what);
      std::fflush(stdout);
    }
  }
  if (json) fmt::print("{}\n", rows.dump());
  std::fflush(stdout);
  house->remove_files();
  std::_Exit(0);
}
