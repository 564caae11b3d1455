// Helpers of bench/scale.py and bench/scale_many.py: many objects quickly, and many native sessions.
//
//   scale_load fill DIR --to N ...        puts objects FROM..N by the engine itself, with the server stopped
//   scale_load erase DIR --to N ...       removes them
//   scale_load put-many HOST:PORT ...     puts objects FROM..N by PUT_MANY, as one client of a running server
//   scale_load sessions HOST:PORT ...     reads commands, a line each, and answers with JSON:
//                                           hold COUNT             opens or closes native sessions
//                                           get REQUESTS AMONG     GETs by the first AMONG of them in turn
//
// An object's key and bytes are functions of its number, so that scale.py can verify any object.
#include <fmt/core.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/log.h"
#include "client/native/session.h"
#include "store/local/local_store.h"
#include "verbena/client.h"

namespace verbena::bench {
namespace {

namespace local = store::local;

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "scale_load: {}\n", why);
  std::_Exit(1);
}
template <class T>
T must(Result<T> result, const char* what) {
  if (!result) give_up(std::string(what) + ": " + describe(result.error()));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// --- Objects by number

// A bijection that puts objects in random order of their keys (splitmix64's finalizer).
uint64_t shuffle(uint64_t v) {
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
  return v ^ (v >> 31);
}

std::string key_of(std::string_view names, uint64_t number) {
  if (names == "shuffled") return fmt::format("{:016x}", shuffle(number));
  if (names == "flat") return fmt::format("key-{:010}", number);
  if (names == "deep") return fmt::format("{:02}/{:02}/{:06}", number % 100, number / 100 % 100, number / 10'000);
  if (names == "folders") return fmt::format("folder-{:08}/object", number);
  give_up("--names: shuffled, flat, deep or folders");
}

void fill_bytes(MutableBytes bytes, std::string_view key) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(key[i % key.size()]);
}

struct Plan {
  std::string directory, bucket = "scale", names = "shuffled";
  uint64_t from = 0, to = 0, size = 256, versions = 1, in_flight = 2000;
  bool kill = false, versioned = false;
};

class Loader {
 public:
  Loader(const Plan& plan, bool erase);
  void run();

 private:
  template <class T>
  T wait(Task<T> task) {
    auto future = boost::asio::co_spawn(io_, std::move(task), boost::asio::use_future);
    io_.restart();
    io_.run();
    return future.get();
  }
  void make_bucket();
  Task<void> work();
  Task<Result<void>> put(std::string key);
  Task<Result<void>> remove(std::string key);
  uint64_t total() const { return (plan_.to - plan_.from) * plan_.versions; }
  void report_progress();

  const Plan& plan_;
  const bool erase_;
  std::unique_ptr<memory::Arena> arena_;
  BlockingPool pool_{4, 4096};
  boost::asio::io_context io_;
  std::unique_ptr<local::LocalStore> store_;
  uint64_t next_ = 0, done_ = 0;
  SteadyClock::time_point began_ = SteadyClock::now(), told_ = began_;
};

Loader::Loader(const Plan& plan, bool erase) : plan_(plan), erase_(erase) {
  arena_ = must(memory::Arena::create(512 * MiB), "arena");
  local::Options options;
  options.directory = plan.directory;
  options.arena = arena_.get();
  options.pool = &pool_;
  store_ = must(local::LocalStore::open(options), "store");
  make_bucket();
}

void Loader::make_bucket() {
  store::BucketInfo bucket{.name = plan_.bucket, .owner = "root", .durability = store::Durability::memory};
  auto made = wait(store_->create_bucket(bucket));
  if (!made && !(made.error() == Errc::bucket_already_exists)) must(std::move(made), "bucket");
  if (plan_.versioned) must(wait(store_->set_versioning(plan_.bucket, store::Versioning::enabled)), "versioning");
}

Task<Result<void>> Loader::put(std::string key) {
  VB_CO_ASSIGN(auto writer, co_await store_->create(plan_.bucket, key, plan_.size));
  store::ObjectInfo info;
  info.size = plan_.size;
  info.headers = {{"content-type", "application/octet-stream"}};
  if (plan_.size != 0) {
    VB_CO_ASSIGN(memory::Lease lease, arena_->lease(plan_.size));
    const MutableBytes bytes(lease.data(), plan_.size);
    fill_bytes(bytes, key);
    info.etag = fmt::format("{:08x}-1", crc32c(bytes));
    memory::Chunk chunk{std::move(lease), bytes};
    VB_CO_TRY(co_await writer->append(std::move(chunk)));
  }
  VB_CO_TRY(co_await writer->commit(std::move(info), store::CommitConditions()));
  co_return Result<void>();
}

Task<Result<void>> Loader::remove(std::string key) {
  VB_CO_TRY(co_await store_->remove(plan_.bucket, key, store::RemoveRequest()));
  co_return Result<void>();
}

// One of the concurrent tasks.
Task<void> Loader::work() {
  while (next_ < total()) {
    std::string key = key_of(plan_.names, plan_.from + next_++ / plan_.versions);
    Result<void> done;
    if (erase_) {
      done = co_await remove(std::move(key));
    } else {
      done = co_await put(std::move(key));
    }
    must(std::move(done), erase_ ? "erase" : "put");
    ++done_;
    report_progress();
  }
}

void Loader::report_progress() {
  const auto now = SteadyClock::now();
  if (now - told_ < std::chrono::seconds(5)) return;
  told_ = now;
  const double seconds = std::chrono::duration<double>(now - began_).count();
  fmt::print(stderr, "  {}: {} of {} ({:.0f}/s)\n", erase_ ? "erase" : "fill", done_, total(),
             static_cast<double>(done_) / seconds);
}

void Loader::run() {
  for (uint64_t i = 0; i < std::min(plan_.in_flight, total()); ++i) {
    boost::asio::co_spawn(io_, work(), boost::asio::detached);
  }
  io_.restart();
  io_.run();
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - began_).count();
  fmt::print("{}\n", nlohmann::json{{"objects", done_}, {"seconds", seconds}}.dump());
  std::fflush(stdout);
  if (plan_.kill) ::kill(::getpid(), SIGKILL);
}

// --- Objects by PUT_MANY

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct ManyPlan {
  std::string address, endpoint, bucket = "scale", provider = "local";
  uint64_t from = 0, to = 0, size = 1024, tell = 1'000'000;
  unsigned batch = 256;
};

class ManyPuts {
 public:
  explicit ManyPuts(const ManyPlan& plan);
  void run();

 private:
  void put(uint64_t from, uint64_t to);

  const ManyPlan& plan_;
  std::optional<Client> client_;
  Buffer window_;
  std::vector<std::string> keys_;
  std::vector<BatchItem> items_;
  std::vector<BatchResult> results_;
};

template <class T>
T must_have(Outcome<T> outcome, const char* what) {
  if (!outcome) give_up(std::string(what) + ": " + outcome.error().message);
  return std::move(*outcome);
}

ManyPuts::ManyPuts(const ManyPlan& plan) : plan_(plan), keys_(plan.batch), items_(plan.batch), results_(plan.batch) {
  client_.emplace(must_have(Client::connect({.endpoint = plan.endpoint,
                                             .native_endpoint = plan.address,
                                             .access_key = environment("VERBENA_ROOT_ACCESS_KEY"),
                                             .secret_key = environment("VERBENA_ROOT_SECRET_KEY"),
                                             .via = Via::native,
                                             .provider = plan.provider}),
                            "connect"));
  window_ = must_have(client_->allocate(plan.size * plan.batch), "memory");
}

void ManyPuts::put(uint64_t from, uint64_t to) {
  const size_t count = to - from;
  for (size_t i = 0; i < count; ++i) {
    keys_[i] = key_of("shuffled", from + i);
    const size_t offset = i * plan_.size;
    fill_bytes(window_.bytes().subspan(offset, plan_.size), keys_[i]);
    items_[i] = {.bucket = plan_.bucket, .key = keys_[i], .offset = offset, .size = plan_.size};
  }
  must_have(client_->put_many(std::span(items_).first(count), std::span(&window_, 1), std::span(results_).first(count)),
            "put_many");
  for (const BatchResult& one : std::span(results_).first(count)) {
    if (one.error) give_up("put_many: an object was refused");
  }
}

// A line of JSON after each `tell` objects.
void ManyPuts::run() {
  auto began = SteadyClock::now();
  uint64_t told = plan_.from;
  for (uint64_t at = plan_.from; at < plan_.to;) {
    const uint64_t next = std::min({at + plan_.batch, plan_.to, told + plan_.tell});
    put(at, next);
    at = next;
    if (at - told < plan_.tell && at < plan_.to) continue;
    const double seconds = std::chrono::duration<double>(SteadyClock::now() - began).count();
    fmt::print("{}\n", nlohmann::json{{"upto", at}, {"objects", at - told}, {"seconds", seconds}}.dump());
    std::fflush(stdout);
    told = at;
    began = SteadyClock::now();
  }
}

// --- Native sessions

struct SessionPlan {
  std::string address, provider = "local", bucket = "scale", key;
  uint64_t size = 256;
};

client::NativeOptions session_options(const SessionPlan& plan) {
  const size_t colon = plan.address.rfind(':');
  if (colon == std::string::npos) give_up("sessions: HOST:PORT");
  client::NativeOptions options;
  options.host = plan.address.substr(0, colon);
  options.port = static_cast<uint16_t>(std::atoi(plan.address.c_str() + colon + 1));
  options.credentials = {environment("VERBENA_ROOT_ACCESS_KEY"), environment("VERBENA_ROOT_SECRET_KEY"), ""};
  options.providers = {plan.provider};
  // Thousands are opened at once, by several processes, on the machine that also runs the server.
  options.connect_timeout = options.request_timeout = std::chrono::minutes(2);
  return options;
}

// Executes commands, one per line, and answers each with a line of JSON.
class Sessions {
 public:
  explicit Sessions(const SessionPlan& plan) : plan_(plan), into_(plan.size) {}
  void run();

 private:
  nlohmann::json hold(size_t count);
  nlohmann::json get(size_t requests, size_t among);
  double get_one(client::NativeSession& session);

  const SessionPlan& plan_;
  std::vector<std::byte> into_;
  std::vector<std::unique_ptr<client::NativeSession>> sessions_;
};

double Sessions::get_one(client::NativeSession& session) {
  client::NativeGet get;
  get.bucket = plan_.bucket;
  get.key = plan_.key;
  get.into = into_;
  const auto began = SteadyClock::now();
  const auto got = must(session.get(get), "get");
  if (got.length != plan_.size) give_up("get: not the object's size");
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - began).count();
}

// Opens sessions up to `count`, each with a GET, or closes surplus ones.
nlohmann::json Sessions::hold(size_t count) {
  if (count < sessions_.size()) sessions_.resize(count);
  while (sessions_.size() < count) {
    auto made = client::NativeSession::open(session_options(plan_));
    if (!made) return {{"sessions", sessions_.size()}, {"refused", describe(made.error())}};
    sessions_.push_back(std::move(*made));
    get_one(*sessions_.back());
  }
  return {{"sessions", sessions_.size()}};
}

// GETs by the first `among` sessions in turn.
nlohmann::json Sessions::get(size_t requests, size_t among) {
  if (among == 0 || among > sessions_.size() || requests == 0)
    give_up("get: REQUESTS AMONG, of the sessions that are open");
  std::vector<double> times_us;
  for (size_t i = 0; i < requests; ++i) times_us.push_back(get_one(*sessions_[i % among]));
  const auto middle = times_us.begin() + static_cast<ptrdiff_t>(times_us.size() / 2);
  std::ranges::nth_element(times_us, middle);
  return {{"requests", requests}, {"p50_us", *middle}};
}

void Sessions::run() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string verb;
    size_t count = 0, among = 1;
    words >> verb >> count >> among;
    if (verb != "hold" && verb != "get") give_up("sessions: hold COUNT, get REQUESTS AMONG");
    fmt::print("{}\n", (verb == "hold" ? hold(count) : get(count, among)).dump());
    std::fflush(stdout);
  }
  // The remaining sessions end with the process, as most clients' do.
  std::_Exit(0);
}

void add_objects(CLI::App& command, Plan& plan) {
  command.add_option("DIR", plan.directory, "data directory of a server that is stopped")->required();
  command.add_option("--bucket", plan.bucket, "made if missing, with durability `memory`")->capture_default_str();
  command.add_option("--from", plan.from, "number of the first object")->capture_default_str();
  command.add_option("--to", plan.to, "number behind the last")->required();
  command.add_option("--names", plan.names, "shuffled, flat, deep (dd/dd/dddddd) or folders (one object in each)")
      ->capture_default_str();
  command.add_option("--in-flight", plan.in_flight, "at once")->capture_default_str()->check(CLI::Range(1, 4000));
}

void add_many(CLI::App& command, ManyPlan& plan) {
  command.add_option("ADDRESS", plan.address, "HOST:PORT of the native door")->required();
  command.add_option("--endpoint", plan.endpoint, "the same server's S3 endpoint")->required();
  command.add_option("--provider", plan.provider, "local, tcp or verbs")->capture_default_str();
  command.add_option("--bucket", plan.bucket, "an existing one")->capture_default_str();
  command.add_option("--from", plan.from, "number of the first object")->capture_default_str();
  command.add_option("--to", plan.to, "number behind the last")->required();
  command.add_option("--size", plan.size, "bytes of each")->capture_default_str()->check(CLI::Range(1, 65536));
  command.add_option("--batch", plan.batch, "objects in a call")->capture_default_str()->check(CLI::Range(1, 4096));
  command.add_option("--tell", plan.tell, "objects for each line of the output")->capture_default_str();
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  using namespace verbena::bench;
  verbena::log::set_level(verbena::log::Level::warn);
  CLI::App app{"Fills a data directory with objects, and opens native sessions: for bench/scale.py", "scale_load"};
  app.require_subcommand(1);
  Plan plan;
  SessionPlan sessions;
  CLI::App* fill = app.add_subcommand("fill", "put objects, by the engine itself");
  add_objects(*fill, plan);
  fill->add_option("--size", plan.size, "bytes of each")->capture_default_str()->check(CLI::Range(0, 65536));
  fill->add_option("--versions", plan.versions, "how often each is put")->capture_default_str();
  fill->add_flag("--versioned", plan.versioned, "enable versioning first");
  fill->add_flag("--kill", plan.kill, "end by SIGKILL as soon as the last one is acknowledged");
  CLI::App* erase = app.add_subcommand("erase", "remove objects, by the engine itself");
  add_objects(*erase, plan);
  CLI::App* many = app.add_subcommand("sessions", "native sessions, keys from VERBENA_ROOT_*, as standard input says");
  many->add_option("ADDRESS", sessions.address, "HOST:PORT of the native door")->required();
  many->add_option("--provider", sessions.provider, "local, tcp or verbs")->capture_default_str();
  many->add_option("--bucket", sessions.bucket, "")->capture_default_str();
  many->add_option("--key", sessions.key, "the object that is read")->required();
  many->add_option("--size", sessions.size, "its bytes")->capture_default_str();
  ManyPlan puts;
  CLI::App* put_many = app.add_subcommand("put-many", "PUT_MANY by one client, keys from VERBENA_ROOT_*");
  add_many(*put_many, puts);
  CLI11_PARSE(app, argc, argv);
  if (put_many->parsed()) {
    if (puts.to < puts.from || puts.tell == 0) give_up("--to lies below --from, or --tell is 0");
    ManyPuts(puts).run();
    return 0;
  }
  if (many->parsed()) {
    Sessions(sessions).run();
    return 0;
  }
  if (plan.to < plan.from || plan.versions == 0) give_up("--to lies below --from, or --versions is 0");
  Loader(plan, erase->parsed()).run();
  return 0;
}
