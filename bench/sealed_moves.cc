// The native door over a device of libfabric, plain and sealed, and over our own tcp with TLS: one server on a thread
// of its own, which serves all three.
#include <pthread.h>
#include <time.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include "client/native/session.h"
#include "fabric/ofi/ofi.h"
#include "fabric/sealed/sealed.h"
#include "fabric/tcp/tcp.h"
#include "give_up.h"
#include "native/native.h"
#include "sealed_bench.h"
#include "store/hot_store.h"
#include "store/memory/memory_store.h"

namespace verbena::bench {
namespace {

constexpr size_t object_size = 1 * MiB;
constexpr unsigned in_flight = 4;
constexpr std::string_view bucket = "bench", key = "object";

class Server {
 public:
  explicit Server(const MovePlace& place) {
    fabric::ofi::Options device;
    device.provider = place.provider;
    device.bind_address = place.address;
    device.message_size_max += fabric::sealed::message_overhead();
    device_ = must(fabric::ofi::open(core_, *arena_, device), "device");
    sealed_ = fabric::sealed::seal(core_, device_->port(), *arena_, {.takes_plain = true});
    // Our own tcp has that name in a session. What is before the semicolon names libfabric's provider.
    provider_ = std::string(device_->provider());
    if (provider_ == "tcp") provider_ += ";libfabric";
    must(door_.attach(core_, *sealed_, provider_), "native door");
    tcp_ = must(fabric::tcp::listen(core_, {.bind_address = place.address}), "tcp");
    must(door_.attach(core_, *tcp_, "tcp"), "native door");
    listener_ = must(http::listen(core_, place.address, 0, {}, std::nullopt, door_.session_handler()), "listen");
    thread_ = std::thread([this] { core_.run(); });
    if (::pthread_getcpuclockid(thread_.native_handle(), &clock_) != 0) give_up("the thread's clock");
    store::BucketInfo info;
    info.name = bucket;
    info.owner = "root";
    info.durability = store::Durability::memory;
    must(run(hot_.create_bucket(info)), "bucket");
  }

  client::NativeOptions options(std::string_view way, const MovePlace& place) const {
    client::NativeOptions options;
    options.host = place.address;
    options.port = listener_->port();
    options.credentials = keys_;
    options.seals = way == "sealed";
    options.providers = {way == "tcp" ? "tcp" : provider_};
    options.encrypted_only = way != "plain";
    return options;
  }
  double cpu_s() const {
    timespec time{};
    if (::clock_gettime(clock_, &time) != 0) give_up("the thread's clock");
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  }

 private:
  template <class T>
  T run(Task<T> task) {
    return boost::asio::co_spawn(core_.io(), std::move(task), boost::asio::use_future).get();
  }

  std::unique_ptr<memory::Arena> arena_ = must(memory::Arena::create(256 * MiB), "arena");
  Core core_{{.spin_for = std::chrono::microseconds(0)}};  // a turn that waits for work is no work
  store::in_memory::MemoryStore store_{{.arena = arena_.get()}};
  store::HotStore hot_{store_, {.arena = arena_.get(), .capacity = 64 * MiB}};
  auth::Credentials keys_{.access_key = "AKBENCH", .secret_key = "secret", .session_token = {}};
  auth::RootCredentials credentials_{keys_};
  auth::Verifier verifier_{credentials_, system_clock(), {}};
  s3::Service service_{hot_, *arena_, system_clock()};
  native::NativeDoor door_{service_, verifier_, credentials_, {}};
  std::unique_ptr<fabric::ofi::CoreFabric> device_;
  std::unique_ptr<fabric::Port> sealed_, tcp_;
  std::unique_ptr<http::Listener> listener_;
  std::string provider_;
  std::thread thread_;
  clockid_t clock_{};
};

class Reader {
 public:
  explicit Reader(const client::NativeOptions& options)
      : session_(must(client::NativeSession::open(options), "session")) {
    for (auto& memory : into_) memory = must(session_->allocate(object_size), "memory");
  }
  std::string provider() const { return session_->provider(); }

  void put(Bytes bytes) {
    client::NativePut request;
    request.bucket = bucket;
    request.key = key;
    request.from = bytes;
    must(session_->put(request), "put");
  }
  // Reads the object again and again, several at a time; returns how often.
  uint64_t read(std::chrono::duration<double> time) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(time);
    uint64_t done = 0;
    std::vector<size_t> free(in_flight);
    std::iota(free.begin(), free.end(), size_t{0});
    while (std::chrono::steady_clock::now() < end) {
      for (const size_t place : free) begin(place);
      free = wait();
      done += free.size();
    }
    for (size_t left = in_flight - free.size(); left != 0;) {
      const size_t ended = wait().size();
      left -= ended;
      done += ended;
    }
    return done;
  }
  void expect(Bytes bytes) const {
    for (const auto& memory : into_) {
      if (!std::ranges::equal(memory->bytes(), bytes)) give_up("other bytes than were put");
    }
  }

 private:
  void begin(size_t place) {
    client::NativeGet request;
    request.bucket = bucket;
    request.key = key;
    request.into = into_[place]->bytes();
    request.memory = into_[place].get();
    session_->get_async(request, [this, place](const Result<client::NativeObject>& got) {
      if (!got) give_up("GET: " + describe(got.error()));
      const std::lock_guard lock(mutex_);
      ended_.push_back(place);
      changed_.notify_one();
    });
  }
  // The places of requests that have ended, one at least.
  std::vector<size_t> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ended_.empty(); });
    return std::exchange(ended_, {});
  }

  std::unique_ptr<client::NativeSession> session_;
  std::array<std::shared_ptr<client::NativeMemory>, in_flight> into_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<size_t> ended_;
};

}  // namespace

std::vector<MoveSpeed> measure_moves(const MovePlace& place, double seconds_per_turn, unsigned rounds) {
  auto* const server = new Server(place);  // the process ends with it
  std::vector<std::byte> bytes(object_size);
  fill_random(bytes);
  constexpr std::array<const char*, 3> ways{"plain", "sealed", "tcp"};
  std::vector<std::unique_ptr<Reader>> readers;
  for (const char* way : ways) readers.push_back(std::make_unique<Reader>(server->options(way, place)));
  readers.front()->put(bytes);
  std::vector<MoveSpeed> rows;
  for (unsigned round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) {
      const auto began = std::chrono::steady_clock::now();
      const double cpu = server->cpu_s();
      const double moved = static_cast<double>(readers[i]->read(std::chrono::duration<double>(seconds_per_turn))) *
                           static_cast<double>(object_size);
      const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      const double worked = server->cpu_s() - cpu;
      readers[i]->expect(bytes);
      if (round != 0) rows.push_back({ways[i], readers[i]->provider(), moved / took, moved / worked});
    }
  }
  return rows;
}

}  // namespace verbena::bench
