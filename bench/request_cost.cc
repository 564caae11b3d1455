// The server's cost of one request, counted and not timed: instructions (under callgrind, see instruction_guard.py),
// allocations, system calls, copies. A whole server without its threads: this thread serves every request, so that the
// counts are the same on every run.
//
//   request_cost                       the table
//   request_cost --case NAME           one case, --requests N times, inside counted_requests() (for callgrind);
//                                      "reference" is not a request: it makes counts of other toolchains comparable
//   request_cost --case NAME --seconds S [--messages N]
//                                      for batches: the objects that the door serves in a second of its core; its
//                                      client and the transport are not timed. Each message names other objects
//   request_cost --list                the cases
//   request_cost --compiler            compiler and options of this build
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <thread>

#include "auth/auth.h"
#include "auth/identifiers.h"
#include "auth/identity_store.h"
#include "auth/keyring.h"
#include "auth/policy.h"
#include "base/hex.h"
#include "base/log.h"
#include "counters.h"
#include "fabric/sealed/sealed.h"
#include "fabric/tcp/tcp.h"
#include "give_up.h"
#include "http/s3_handler.h"
#include "native/native.h"
#include "native/test_handshake.h"
#include "native/wire/batch.h"
#include "native/wire/bodies.h"
#include "native/wire/list_items.h"
#include "native/wire/match.h"
#include "native/wire/message.h"
#include "native_peers.h"
#include "reference_work.h"
#include "s3_http/routing/router.h"
#include "store/hot_store.h"
#include "store/local/local_store.h"
#include "wire_peer.h"

namespace verbena::bench {
namespace {

namespace wire = native::wire;
using Pairs = std::vector<std::pair<std::string, std::string>>;

// A blocking HTTP client on a kept-alive connection, used when the server has no work left.
class HttpClient {
 public:
  explicit HttpClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) give_up("connect");
    const int size = 4 << 20;
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  }
  ~HttpClient() { ::close(fd_); }
  void bodyless(bool answers) { bodyless_ = answers; }  // whatever their length says, as those of HEAD
  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) give_up("send");
      text.remove_prefix(static_cast<size_t>(n));
    }
  }
  // Reads arrived bytes; true when the answer is complete; `body` then has it.
  bool take(int& status, std::string& body) {
    for (;;) {
      const ssize_t n = ::recv(fd_, piece_.data(), piece_.size(), MSG_DONTWAIT);
      if (n <= 0) break;
      rest_.append(piece_.data(), static_cast<size_t>(n));
    }
    const size_t end = rest_.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    size_t length = 0;
    if (const size_t at = rest_.find("Content-Length: "); at < end && !bodyless_)
      length = std::stoull(rest_.substr(at + 16));
    if (rest_.size() < end + 4 + length) return false;
    status = std::atoi(rest_.c_str() + 9);
    body = rest_.substr(end + 4, length);
    rest_.erase(0, end + 4 + length);
    return true;
  }

 private:
  int fd_;
  bool bodyless_ = false;
  std::string rest_;
  std::vector<char> piece_ = std::vector<char>(1 << 20);
};

class Bench {
 public:
  // Without a tier, objects are in memory only as long as they wait for the index.
  enum class Tier { full, none };
  explicit Bench(Tier tier);
  ~Bench();

  // bare: a transport on one host that costs nothing but the copies; wire, sealed: such a one between hosts.
  enum class By { bare, tcp, wire, sealed };
  void native(wire::Type type, size_t size, uint64_t requests, Counts* counts, By by = By::bare);
  // One message of `items` items: the cost of an item is the total divided.
  void native_many(wire::Type type, size_t size, uint64_t items, Counts* counts, By by = By::bare);
  // One MATCH of `keys` hashes whose objects are in memory: the cost of a key is the total divided.
  void native_match(uint64_t keys, Counts* counts);
  // Concurrent small appends to one object that share a commit, each a message: the core's cost for them.
  void append(size_t size, uint64_t requests, Counts* counts);
  enum class Http { get, anonymous_get, head, put };
  void http(Http what, size_t size, uint64_t requests, Counts* counts);
  // A GET of a user with a policy, signed with long-term keys or in a session of a directory bucket opened with them.
  // Names have the same length, as does the rest of the requests.
  void user_get(bool in_session, size_t size, uint64_t requests, Counts* counts);
  // A page of 1,000 keys: the cost of the page, not of a key.
  void list(uint64_t requests, Counts* counts);
  // A request that opens a native session of that version; what ends it is not counted.
  void open_sessions(unsigned version_max, uint64_t requests, Counts* counts);
  // All messages of a listing of so many keys: likewise the cost of all.
  void native_list(uint64_t keys, uint64_t requests, Counts* counts);

 private:
  struct Answer {
    int status = 0;
    std::string body;
  };
  template <class T>
  T run(Task<T> task) {
    auto future = boost::asio::co_spawn(core_.io(), std::move(task), boost::asio::use_future);
    while (future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      core_.io().restart();
      core_.io().poll();
    }
    return future.get();
  }
  std::string request(std::string_view method, std::string_view path, std::string_view body, uint16_t port);
  static std::string signed_request(const auth::Credentials& keys, std::string_view service, std::string_view method,
                                    std::string_view path, std::string_view body, uint16_t port);
  void make_user();
  // Warms up, then counts `requests` requests.
  void repeat(HttpClient& client, const std::string& text, std::optional<size_t> body_size, uint64_t requests,
              Counts* counts);
  Answer exchange(HttpClient& client, const std::string& request);
  Answer serve_one(HttpClient& client, const std::string& text, bool counted, Counts* counts);
  void put_object(size_t size, const std::string& bucket = "bench", const std::string& suffix = {});
  void open_session();
  Peer& peer(By by);
  std::vector<std::byte> batch_of(wire::Type type, size_t size, uint64_t items, uint64_t first, uint64_t stride,
                                  const std::optional<wire::Descriptor>& window);

  std::filesystem::path directory_;
  std::unique_ptr<memory::Arena> arena_;
  BlockingPool pool_{2, 256};
  Core core_{{}};
  std::unique_ptr<store::local::LocalStore> store_;
  std::unique_ptr<store::HotStore> hot_;
  auth::Credentials keys_{.access_key = "AKBENCH", .secret_key = "secret", .session_token = {}}, keys_of_user_;
  auth::RootCredentials credentials_{keys_};
  auth::Verifier verifier_{credentials_, system_clock(), {}};
  std::unique_ptr<s3::Service> service_;
  std::unique_ptr<s3::Router> router_;
  BarePort port_;
  std::unique_ptr<fabric::Port> tcp_port_, sealed_port_;
  WirePort wire_port_, below_sealed_;
  std::unique_ptr<native::NativeDoor> door_;
  std::unique_ptr<http::Listener> s3_listener_, session_listener_, user_listener_;
  std::unique_ptr<HttpClient> client_;

  const std::unique_ptr<auth::KeyRing> ring_ = auth::KeyRing::in_memory();
  std::unique_ptr<auth::IdentityStore> accounts_;
  std::unique_ptr<auth::Verifier> user_verifier_;
  std::unique_ptr<Peer> bare_, tcp_, wire_, sealed_;
};

constexpr const char *directory_bucket = "bench--local1-az1--x-s3", *user_bucket = "bench-general-bucket-01",
                     *sync_bucket = "bench-sync";

native::Options options_of_door() {
  native::Options options;
  options.may_dial = [](std::string_view provider, std::string_view, std::string_view) { return provider == "wire"; };
  return options;
}

std::string key_of(size_t size) { return "object-" + std::to_string(size); }

Bench::Bench(Tier tier) {
  std::string name = (std::filesystem::temp_directory_path() / "verbena-cost-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) give_up("temporary folder");
  directory_ = name;
  arena_ = must(memory::Arena::create(256 * MiB), "arena");
  store::local::Options options;
  options.directory = directory_;
  options.arena = arena_.get();
  options.pool = &pool_;
  options.write_behind_after = std::chrono::hours(1);  // keeps other threads idle
  store_ = must(store::local::LocalStore::open(options), "store");
  const store::HotStore::Options tier_options{
      .arena = arena_.get(), .capacity = 128 * MiB, .object_size_max = tier == Tier::full ? 16 * MiB : 0};
  hot_ = std::make_unique<store::HotStore>(*store_, tier_options);
  service_ = std::make_unique<s3::Service>(s3::Service{*hot_, *arena_, system_clock()});
  router_ = std::make_unique<s3::Router>(*service_, nullptr, s3::Router::Options{});
  door_ = std::make_unique<native::NativeDoor>(*service_, verifier_, credentials_, options_of_door());
  must(door_->attach(core_, port_, "local", "/nowhere"), "native door");
  tcp_port_ = must(fabric::tcp::listen(core_, {.encrypt = false}), "tcp");  // encryption would count OpenSSL's cost
  must(door_->attach(core_, *tcp_port_, "tcp"), "native door");
  must(door_->attach(core_, wire_port_, "wire"), "native door");
  sealed_port_ = fabric::sealed::seal(core_, below_sealed_, *arena_, {});
  must(door_->attach(core_, *sealed_port_, "wire"), "native door");
  s3_listener_ =
      must(http::listen(core_, "127.0.0.1", 0, {}, std::nullopt, http::make_s3_handler(verifier_, *router_)), "listen");
  session_listener_ = must(http::listen(core_, "127.0.0.1", 0, {}, std::nullopt, door_->session_handler()), "listen");
  store::BucketInfo bucket;
  bucket.name = "bench";
  bucket.owner = "root";
  bucket.durability = store::Durability::memory;
  must(run(hot_->create_bucket(bucket)), "bucket");
  for (const char* name : {directory_bucket, user_bucket}) {
    bucket.name = name;
    must(run(hot_->create_bucket(bucket)), "bucket");
  }
  bucket.name = sync_bucket;
  bucket.durability = store::Durability::sync;
  must(run(hot_->create_bucket(bucket)), "bucket");
  bucket.durability = store::Durability::memory;
  bucket.name = "public";
  must(run(hot_->create_bucket(bucket)), "bucket");
  must(run(hot_->set_document("public", "policy",
                              R"({"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*",)"
                              R"("Action":"s3:GetObject","Resource":"arn:aws:s3:::public/*"}]})")),
       "policy");
  client_ = std::make_unique<HttpClient>(s3_listener_->port());
  open_session();
}

Bench::~Bench() {
  client_.reset();
  s3_listener_->close();
  session_listener_->close();
  if (user_listener_ != nullptr) user_listener_->close();
  for (int i = 0; i < 1000 && s3_listener_->connections() + session_listener_->connections() != 0; ++i) {
    core_.io().restart();
    core_.io().poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  s3_listener_.reset();
  session_listener_.reset();
  door_->stop();
  hot_.reset();
  store_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
  // Coroutines of the door are still suspended on the core; the process ends with them.
  std::_Exit(0);
}

std::string Bench::request(std::string_view method, std::string_view path, std::string_view body, uint16_t port) {
  return signed_request(keys_, "s3", method, path, body, port);
}

std::string Bench::signed_request(const auth::Credentials& keys, std::string_view service, std::string_view method,
                                  std::string_view path, std::string_view body, uint16_t port) {
  Pairs headers{{"host", "127.0.0.1:" + std::to_string(port)}};
  auth::sign(keys, "us-east-1", service, system_clock(), method, path, "", to_hex(as_bytes(sha256(as_bytes(body)))),
             headers);
  std::string text = fmt::format("{} {} HTTP/1.1\r\n", method, path);
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  if (method != "GET" && method != "HEAD") text += fmt::format("content-length: {}\r\n", body.size());
  text += "\r\n";
  text += body;
  return text;
}

Bench::Answer Bench::exchange(HttpClient& client, const std::string& request) {
  client.send(request);
  Answer answer;
  while (!client.take(answer.status, answer.body)) {
    core_.io().restart();
    core_.io().poll();
  }
  return answer;
}

void Bench::put_object(size_t size, const std::string& bucket, const std::string& suffix) {
  const std::string path = "/" + bucket + "/" + key_of(size) + suffix;
  std::string body(size, '\0');
  for (size_t i = 0; i < size; ++i) body[i] = static_cast<char>(i * 31 + i / 256);
  const auto put = exchange(*client_, request("PUT", path, body, s3_listener_->port()));
  if (put.status != 200) give_up("PUT: " + put.body);
  const auto got = exchange(*client_, request("GET", path, "", s3_listener_->port()));
  if (got.status != 200 || got.body != body) give_up("GET: the bytes are not those that were put");
}

void Bench::open_session() {
  native::TestHandshake handshake(wire::protocol_version_max);
  handshake.wanted["providers"] = {"local"};
  handshake.wanted["sealing"] = {"aes-256-gcm"};
  HttpClient client(session_listener_->port());
  const auto answer = exchange(client, request("POST", "/-/session", handshake.body(), session_listener_->port()));
  if (answer.status != 200) give_up("session: " + answer.body);
  const wire::MasterKey master = handshake.master(keys_.secret_key, answer.body);
  const Place place{core_, *door_, handshake.session(), master};
  bare_ = std::make_unique<BarePeer>(place, 0, port_);
  tcp_ = std::make_unique<TcpPeer>(place, 1, *tcp_port_);
  wire_ = std::make_unique<WirePeer>(place, 2, wire_port_, std::nullopt);
  const fabric::ConnectionKey key{wire::derive_connection(place.master, 3), fabric::Sealing::aes_256_gcm};
  sealed_ = std::make_unique<WirePeer>(place, 3, below_sealed_, key);
  for (Peer* peer : {bare_.get(), tcp_.get(), wire_.get(), sealed_.get()}) peer->hello();
}

Peer& Bench::peer(By by) {
  switch (by) {
    case By::tcp:
      return *tcp_;
    case By::wire:
      return *wire_;
    case By::sealed:
      return *sealed_;
    case By::bare:
      break;
  }
  return *bare_;
}

// callgrind collects inside this function alone.
extern "C" __attribute__((noinline)) void counted_requests(const std::function<void()>& serve) {
  serve();
  asm volatile("" ::: "memory");
}

// The time spent serving, if requested.
struct Stopwatch {
  std::chrono::duration<double> wanted{0}, served{0};
  uint64_t messages = 1;  // with other objects each, one after the other
};
Stopwatch stopwatch;

// Runs it once: plainly, with its counts added to `counts`, or inside callgrind's function.
void run_request(const std::function<void()>& serve, bool counted, Counts* counts) {
  if (!counted) {
    serve();
  } else if (stopwatch.wanted.count() != 0) {
    const auto began = std::chrono::steady_clock::now();
    serve();
    stopwatch.served += std::chrono::steady_clock::now() - began;
  } else if (counts != nullptr) {
    begin_counting();
    serve();
    const Counts one = end_counting();
    counts->allocations += one.allocations;
    counts->allocated_bytes += one.allocated_bytes;
    counts->copies += one.copies;
    counts->copied_bytes += one.copied_bytes;
  } else {
    counted_requests(serve);
  }
}

void Bench::native(wire::Type type, size_t size, uint64_t requests, Counts* counts, By by) {
  put_object(size);
  const std::string key = key_of(size);
  std::vector<std::byte> body(4 * KiB);
  wire::Writer out(body);
  const wire::Descriptor window = peer(by).lend(size);
  if (type == wire::Type::get) {
    wire::Get get;
    get.bucket = "bench";
    get.key = key;
    get.window = window;
    get.inline_max = by == By::bare ? 512 : 4096;  // the server's default, requested by our client
    encode(out, get);
  } else {
    wire::Put put;
    put.bucket = "bench";
    put.key = key;
    put.size = size;
    put.window = window;
    encode(out, put);
  }
  const uint64_t warm_up = 16;
  for (uint64_t i = 0; i < requests + warm_up; ++i) {
    const auto message = peer(by).seal(type, Bytes(body).first(out.size()), wire::flag_window);
    const bool counted = i >= warm_up;
    const Bytes reply = peer(by).exchange(message, [&](const auto& serve) { run_request(serve, counted, counts); });
    if (!wire::decode_object_reply(wire::body_of(reply))) give_up("a native request failed");
  }
}

// Objects first, first + stride, ..., each put before.
std::vector<std::byte> Bench::batch_of(wire::Type type, size_t size, uint64_t items, uint64_t first, uint64_t stride,
                                       const std::optional<wire::Descriptor>& window) {
  std::vector<std::byte> body(12 * KiB);
  wire::Writer out(body);
  wire::BatchWriter batch(out, type);
  wire::BatchHead head;
  head.details = wire::detail_etag | wire::detail_size | wire::detail_version;
  if (window) head.windows.add(*window);
  head.buckets.add("bench");
  batch.begin(head);
  wire::BatchItem item;
  for (uint64_t i = 0; i < items; ++i) {
    const std::string suffix = "/" + std::to_string(first + i * stride);
    put_object(size, "bench", suffix);
    const std::string key = key_of(size) + suffix;
    item.key = key;
    if (window) item.fields = wire::field_place;
    item.place = {0, i * size, size};
    if (!batch.add(item)) give_up("a batch does not fit a message");
  }
  batch.finish();
  body.resize(out.size());
  return body;
}

void Bench::native_many(wire::Type type, size_t size, uint64_t items, Counts* counts, By by) {
  std::optional<wire::Descriptor> window;
  if (type != wire::Type::head_many) window = peer(by).lend(size * items);
  std::vector<std::vector<std::byte>> bodies;
  for (uint64_t i = 0; i < stopwatch.messages; ++i) {
    bodies.push_back(batch_of(type, size, items, i, stopwatch.messages, window));
  }
  uint64_t timed = 0;
  for (int round = 0; round < 3 || stopwatch.served < stopwatch.wanted; ++round) {
    const auto message = peer(by).seal(type, bodies[round % bodies.size()], 0);
    const bool counted = round >= 2;
    timed += counted;
    const Bytes answer = peer(by).exchange(message, [&](const auto& serve) { run_request(serve, counted, counts); });
    auto reply = wire::decode_batch_reply(wire::body_of(answer));
    wire::BatchEntry entry;
    for (uint64_t i = 0; i < items; ++i) {
      if (!reply || reply->answered != items || !wire::next_entry(*reply, entry) || entry.code != Errc::ok) {
        give_up("an item of a batch failed");
      }
    }
  }
  if (timed > 1) fmt::print("{:.0f}\n", static_cast<double>(timed * items) / stopwatch.served.count());
  std::fflush(stdout);
}

void Bench::native_match(uint64_t keys, Counts* counts) {
  constexpr size_t size = 4 * KiB, width = 16;
  std::vector<std::byte> hashes(keys * width), body(keys * width + 1 * KiB);
  for (uint64_t i = 0; i < keys; ++i) {
    std::memcpy(hashes.data() + i * width, &i, sizeof i);
    put_object(size, "bench", "/" + to_hex(Bytes(hashes).subspan(i * width, width)));
  }
  const std::string prefix = key_of(size) + "/";
  wire::Match match;
  match.bucket = "bench";
  match.prefix = prefix;
  match.keys = hashes;
  match.counts.add(static_cast<uint32_t>(keys));
  wire::Writer out(body);
  if (!encode(out, match)) give_up("a match does not fit a message");
  for (int round = 0; round < 3; ++round) {
    const auto message = bare_->seal(wire::Type::match, Bytes(body).first(out.size()), 0);
    const Bytes answer = bare_->exchange(message, [&](const auto& serve) { run_request(serve, round >= 2, counts); });
    auto reader = wire::MatchReader::open(wire::body_of(answer));
    wire::MatchedList list;
    if (!reader || !reader->next(list) || list.leading != keys) give_up("a match failed");
  }
}

void Bench::append(size_t size, uint64_t requests, Counts* counts) {
  constexpr uint64_t together = 50;
  std::vector<std::byte> body(4 * KiB);
  wire::Writer out(body);
  wire::Append append{.offset = wire::open_end, .put = {}};
  append.put.bucket = directory_bucket;
  append.put.key = "log";
  append.put.size = size;
  encode(out, append);
  const Bytes message_body = Bytes(body).first(out.size() + size);
  for (uint64_t begun = 0, left = requests; left != 0; ++begun) {
    const bool counted = begun >= 4;
    const uint64_t count = std::min(together, left);
    if (counted) left -= count;
    std::vector<std::vector<std::byte>> messages;
    for (uint64_t i = 0; i < count; ++i) messages.push_back(bare_->seal(wire::Type::append, message_body, 0));
    const size_t wanted = port_.replies + count;
    const std::function<void()> serve = [&] {
      for (const auto& message : messages) port_.receive(1, message);
      while (port_.replies != wanted) {
        core_.io().restart();
        core_.io().run_one();  // the commit runs on another thread
      }
    };
    run_request(serve, counted, counts);
    const Bytes reply = Bytes(port_.reply).first(port_.reply_size);
    if (!wire::decode_object_reply(wire::body_of(reply))) give_up("an append failed");
  }
}

void Bench::http(Http what, size_t size, uint64_t requests, Counts* counts) {
  const std::string bucket = what == Http::anonymous_get ? "public" : "bench";
  put_object(size, bucket);
  const std::string path = "/" + bucket + "/" + key_of(size);
  const std::string content(what == Http::put ? size : 0, 'x');
  const char* const method = what == Http::put ? "PUT" : what == Http::head ? "HEAD" : "GET";
  std::string text = request(method, path, content, s3_listener_->port());
  if (what == Http::anonymous_get) text = fmt::format("GET {} HTTP/1.1\r\nhost: localhost\r\n\r\n", path);
  client_->bodyless(what == Http::head);
  const bool get = what == Http::get || what == Http::anonymous_get;
  repeat(*client_, text, get ? std::optional(size) : std::nullopt, requests, counts);
}

void Bench::list(uint64_t requests, Counts* counts) {
  for (int i = 0; i < 1000; ++i) {
    const auto put = exchange(
        *client_, request("PUT", fmt::format("/bench/a/prefix/that/keys/share/{:06}", i), "x", s3_listener_->port()));
    if (put.status != 200) give_up("PUT: " + put.body);
  }
  Pairs headers{{"host", "localhost"}};
  constexpr std::string_view query = "list-type=2&prefix=a%2F";
  auth::sign(keys_, "us-east-1", "s3", system_clock(), "GET", "/bench", query, to_hex(as_bytes(sha256({}))), headers);
  std::string text = fmt::format("GET /bench?{} HTTP/1.1\r\n", query);
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  const Answer page = exchange(*client_, text + "\r\n");
  if (page.body.find("<KeyCount>1000</KeyCount>") == std::string::npos) give_up("list: " + page.body.substr(0, 300));
  repeat(*client_, text + "\r\n", page.body.size(), requests, counts);
}

void Bench::native_list(uint64_t keys, uint64_t requests, Counts* counts) {
  for (uint64_t i = 0; i < keys; ++i) {
    const std::string path = fmt::format("/{}/a/prefix/that/keys/share/{:06}", sync_bucket, i);
    if (exchange(*client_, request("PUT", path, "x", s3_listener_->port())).status != 200) give_up("PUT");
  }
  const uint64_t warm_up = 16;
  std::vector<std::byte> body(4 * KiB);
  for (uint64_t i = 0; i < requests + warm_up; ++i) {
    std::string after;
    uint64_t listed = 0;
    for (bool more = true; more;) {
      wire::Writer out(body);
      encode(out, wire::List{.bucket = sync_bucket, .prefix = "a/", .delimiter = {}, .after = after});
      const auto message = bare_->seal(wire::Type::list, Bytes(body).first(out.size()), 0);
      const Bytes answer =
          bare_->exchange(message, [&](const auto& serve) { run_request(serve, i >= warm_up, counts); });
      auto page = wire::ListReader::open(wire::body_of(answer), wire::protocol_version_max);
      if (!page || page->left() == 0) give_up("a listing failed");
      more = page->truncated();
      listed += page->left();
      for (wire::ListItem item; page->next(item);) after = item.key;
      if (!page->complete()) give_up("a listing is malformed");
    }
    if (listed != keys) give_up("a listing is not whole");
  }
}

// A user in the server's own identity store.
void Bench::make_user() {
  auto opened = auth::IdentityStore::open("", *ring_, keys_);
  if (!opened) give_up(opened.error());
  accounts_ = std::move(*opened);
  const std::string policy =
      fmt::format(R"({{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Action":["s3:GetObject","s3:PutObject",)"
                  R"("s3:ListBucket"],"Resource":["arn:aws:s3:::{0}","arn:aws:s3:::{0}/*"]}},{{"Effect":"Allow",)"
                  R"("Action":"s3express:CreateSession","Resource":"*"}}]}})",
                  user_bucket);
  auth::User user;
  user.name = "bench";
  user.id = auth::make_id("AIDA");
  user.keys.push_back(accounts_->make_key("", "", system_clock().now_s()));
  keys_of_user_ = {user.keys[0].access_key, user.keys[0].secret_key, ""};
  user.policy_set.inline_policies.emplace(
      "own", auth::PolicyDocument{policy, must(auth::parse_policy(policy, auth::PolicyKind::identity), "policy")});
  const auto add = [&user](auth::AccountEntry& entry) -> Result<void> {
    entry.users.insert_or_assign("bench", user);
    return {};
  };
  must(accounts_->change_account(auth::root_account_id, add), "user");
  user_verifier_ =
      std::make_unique<auth::Verifier>(*accounts_, system_clock(), auth::Verifier::Options{.express = true});
  user_listener_ =
      must(http::listen(core_, "127.0.0.1", 0, {}, std::nullopt, http::make_s3_handler(*user_verifier_, *router_)),
           "listen");
}

void Bench::user_get(bool in_session, size_t size, uint64_t requests, Counts* counts) {
  make_user();
  const std::string bucket = in_session ? directory_bucket : user_bucket;
  put_object(size, bucket);
  auth::Credentials keys = keys_of_user_;
  if (in_session) {
    const int64_t now_s = system_clock().now_s();
    const auto key = must(accounts_->find(keys.access_key, "", now_s), "key");
    keys =
        must(accounts_->open_bucket_session(*key, {.bucket = bucket, .read_only = true}, now_s), "session").credentials;
  }
  HttpClient client(user_listener_->port());
  const std::string text = signed_request(keys, in_session ? "s3express" : "s3", "GET",
                                          "/" + bucket + "/" + key_of(size), "", user_listener_->port());
  repeat(client, text, size, requests, counts);
}

Bench::Answer Bench::serve_one(HttpClient& client, const std::string& text, bool counted, Counts* counts) {
  Answer answer;
  const std::function<void()> serve = [&] {
    core_.io().restart();
    while (core_.io().poll() != 0) {
    }
  };
  client.send(text);
  run_request(serve, counted, counts);
  while (!client.take(answer.status, answer.body)) {
    // A thread of the pool is working: polling constantly would count its time.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    run_request(serve, counted, counts);
  }
  return answer;
}

void Bench::open_sessions(unsigned version_max, uint64_t requests, Counts* counts) {
  const uint64_t warm_up = 16;
  HttpClient client(session_listener_->port());
  for (uint64_t i = 0; i < requests + warm_up; ++i) {
    native::TestHandshake handshake(version_max);
    const std::string text = request("POST", "/-/session", handshake.body(), session_listener_->port());
    const Answer answer = serve_one(client, text, i >= warm_up, counts);
    if (answer.status != 200) give_up("session: " + answer.body);
    static_cast<void>(handshake.master(keys_.secret_key, answer.body));
    if (!door_->end_session(handshake.session())) give_up("a session is not there");
  }
}

void Bench::repeat(HttpClient& client, const std::string& text, std::optional<size_t> body_size, uint64_t requests,
                   Counts* counts) {
  const uint64_t warm_up = 16;
  for (uint64_t i = 0; i < requests + warm_up; ++i) {
    const Answer answer = serve_one(client, text, i >= warm_up, counts);
    if (answer.status != 200 || (body_size && answer.body.size() != *body_size)) give_up("an HTTP request failed");
  }
}

#if defined(__clang__)
constexpr const char* compiler = "clang " __clang_version__;
#else
constexpr const char* compiler = "gcc " __VERSION__;
#endif

struct Case {
  const char* name;
  void (*serve)(Bench&, uint64_t requests, Counts* counts);
  Bench::Tier tier = Bench::Tier::full;
};
constexpr Case cases[] = {
    {"native_get_4k", [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::get, 4 * KiB, n, c); }},
    {"native_get_4k_waiting", [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::get, 4 * KiB, n, c); },
     Bench::Tier::none},
    {"native_get_64k", [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::get, 64 * KiB, n, c); }},
    {"native_put_4k", [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::put, 4 * KiB, n, c); }},
    {"native_put_64k", [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::put, 64 * KiB, n, c); }},
    {"native_get_many_4k", [](Bench& b, uint64_t n, Counts* c) { b.native_many(wire::Type::get_many, 4 * KiB, n, c); }},
    {"native_head_many", [](Bench& b, uint64_t n, Counts* c) { b.native_many(wire::Type::head_many, 4 * KiB, n, c); }},
    {"native_put_many_4k", [](Bench& b, uint64_t n, Counts* c) { b.native_many(wire::Type::put_many, 4 * KiB, n, c); }},
    {"native_match", [](Bench& b, uint64_t n, Counts* c) { b.native_match(n, c); }},
    {"tcp_get_4k", [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::get, 4 * KiB, n, c, Bench::By::tcp); }},
    {"tcp_get_4k_waiting",
     [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::get, 4 * KiB, n, c, Bench::By::tcp); },
     Bench::Tier::none},
    {"tcp_get_many_4k",
     [](Bench& b, uint64_t n, Counts* c) { b.native_many(wire::Type::get_many, 4 * KiB, n, c, Bench::By::tcp); }},
    {"wire_get_4k", [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::get, 4 * KiB, n, c, Bench::By::wire); }},
    {"sealed_get_4k",
     [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::get, 4 * KiB, n, c, Bench::By::sealed); }},
    {"wire_get_64k",
     [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::get, 64 * KiB, n, c, Bench::By::wire); }},
    {"sealed_get_64k",
     [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::get, 64 * KiB, n, c, Bench::By::sealed); }},
    {"wire_get_1m", [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::get, 1 * MiB, n, c, Bench::By::wire); }},
    {"sealed_get_1m",
     [](Bench& b, uint64_t n, Counts* c) { b.native(wire::Type::get, 1 * MiB, n, c, Bench::By::sealed); }},
    {"native_append_200", [](Bench& b, uint64_t n, Counts* c) { b.append(200, n, c); }},
    {"http_get_4k", [](Bench& b, uint64_t n, Counts* c) { b.http(Bench::Http::get, 4 * KiB, n, c); }},
    {"http_get_4k_waiting", [](Bench& b, uint64_t n, Counts* c) { b.http(Bench::Http::get, 4 * KiB, n, c); },
     Bench::Tier::none},
    {"http_get_64k", [](Bench& b, uint64_t n, Counts* c) { b.http(Bench::Http::get, 64 * KiB, n, c); }},
    {"http_get_4k_anonymous",
     [](Bench& b, uint64_t n, Counts* c) { b.http(Bench::Http::anonymous_get, 4 * KiB, n, c); }},
    {"http_get_4k_user", [](Bench& b, uint64_t n, Counts* c) { b.user_get(false, 4 * KiB, n, c); }},
    {"http_get_4k_session", [](Bench& b, uint64_t n, Counts* c) { b.user_get(true, 4 * KiB, n, c); }},
    {"http_head", [](Bench& b, uint64_t n, Counts* c) { b.http(Bench::Http::head, 4 * KiB, n, c); }},
    {"http_put_4k", [](Bench& b, uint64_t n, Counts* c) { b.http(Bench::Http::put, 4 * KiB, n, c); }},
    {"http_put_64k", [](Bench& b, uint64_t n, Counts* c) { b.http(Bench::Http::put, 64 * KiB, n, c); }},
    {"native_list_10", [](Bench& b, uint64_t n, Counts* c) { b.native_list(10, n, c); }},
    {"native_list_1000", [](Bench& b, uint64_t n, Counts* c) { b.native_list(1000, n, c); }},
    {"http_list", [](Bench& b, uint64_t n, Counts* c) { b.list(n, c); }},
    {"open_session", [](Bench& b, uint64_t n, Counts* c) { b.open_sessions(wire::protocol_version_max, n, c); }},
    {"open_session_v8",
     [](Bench& b, uint64_t n, Counts* c) { b.open_sessions(wire::version_of_key_exchange - 1, n, c); }},
};

struct Errand {
  const Case* what;
  uint64_t requests;
  int report;  // a pipe
};

int run_case(void* argument) {
  const auto& errand = *static_cast<Errand*>(argument);
  Bench bench(errand.what->tier);
  Counts counts;
  errand.what->serve(bench, errand.requests, &counts);
  if (::write(errand.report, &counts, sizeof counts) != sizeof counts) return 1;
  return 0;  // ~Bench ends the process
}

void print_table() {
  constexpr uint64_t requests = 64;
  fmt::print("{:<21} {:>12} {:>16} {:>10} {:>14}  {}\n", "request", "allocations", "allocated bytes", "copies",
             "copied bytes", "system calls of the core");
  for (const Case& one : cases) {
    int report[2];
    if (::pipe(report) != 0) give_up("pipe");
    Errand errand{&one, requests, report[1]};
    SystemCalls calls;
    Counts counts;
    const bool traced = count_system_calls(run_case, &errand, calls);
    pollfd readable{report[0], POLLIN, 0};
    if (!traced || ::poll(&readable, 1, 0) != 1 || ::read(report[0], &counts, sizeof counts) != sizeof counts) {
      give_up(std::string(one.name) + " could not be traced");
    }
    ::close(report[0]);
    ::close(report[1]);
    std::string text;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i] == 0) continue;
      text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", system_call_name(i),
                          static_cast<double>(calls[i]) / requests);
    }
    const auto each = [](uint64_t n) { return static_cast<double>(n) / requests; };
    fmt::print("{:<21} {:>12.2f} {:>16.0f} {:>10.2f} {:>14.0f}  {}\n", one.name, each(counts.allocations),
               each(counts.allocated_bytes), each(counts.copies), each(counts.copied_bytes),
               text.empty() ? "none" : text);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  using namespace verbena::bench;
  verbena::log::set_level(verbena::log::Level::error);
  std::string_view wanted;
  uint64_t requests = 200;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--list") {
      for (const Case& one : cases) fmt::print("{}\n", one.name);
      return 0;
    }
    if (argument == "--compiler") {
      fmt::print("{}, {}\n", compiler, VERBENA_BENCH_FLAGS);
      return 0;
    }
    if (i + 1 == argc) {
      give_up("usage: request_cost [--list | --case NAME [--requests N] [--seconds S [--messages N]]]");
    }
    const std::string_view value = argv[++i];
    if (argument == "--case") wanted = value;
    if (argument == "--requests") std::from_chars(value.data(), value.data() + value.size(), requests);
    if (argument == "--messages") std::from_chars(value.data(), value.data() + value.size(), stopwatch.messages);
    if (argument == "--seconds") stopwatch.wanted = std::chrono::duration<double>(std::atof(value.data()));
  }
  if (wanted.empty()) {
    print_table();
    return 0;
  }
  if (wanted == "reference") {
    uint64_t sum = 0;
    const auto work = [&sum] { sum += reference_work(); };
    for (uint64_t i = 0; i < requests; ++i) counted_requests(work);
    return sum != 0 ? 0 : 1;
  }
  for (const Case& one : cases) {
    if (one.name != wanted) continue;
    Bench bench(one.tier);
    one.serve(bench, requests, nullptr);
    return 0;
  }
  give_up("no such case");
}
