// The time of a round trip on one host: bare rings between two threads, a whole port and link, a window, and memcpy of
// the same bytes beside them. A request has 64 bytes, the reply the argument's number of bytes.
//   local_ring_bench --benchmark_repetitions=5
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/core.h"
#include "base/log.h"
#include "fabric/local/local.h"
#include "fabric/local/shared_region.h"

namespace verbena::fabric::local {
namespace {

constexpr size_t request_size = 64;
constexpr size_t window_offset = 64 * KiB;

// Times each iteration separately: on a busy machine the median is more reliable than the mean.
class Percentiles {
 public:
  Percentiles() { samples_.reserve(1 << 20); }
  void start() { start_ = SteadyClock::now(); }
  void stop() { samples_.push_back(std::chrono::duration<double, std::micro>(SteadyClock::now() - start_).count()); }
  void report(benchmark::State& state) {
    if (samples_.empty()) return;
    std::sort(samples_.begin(), samples_.end());
    state.counters["p50_us"] = samples_[samples_.size() / 2];
    state.counters["p99_us"] = samples_[samples_.size() * 99 / 100];
  }

 private:
  SteadyClock::time_point start_;
  std::vector<double> samples_;
};

void memcpy_of(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  std::vector<std::byte> from(size, std::byte{1}), to(size);
  Percentiles percentiles;
  for (auto _ : state) {
    percentiles.start();
    std::memcpy(to.data(), from.data(), size);
    benchmark::ClobberMemory();
    percentiles.stop();
  }
  percentiles.report(state);
}

void pass(Producer& producer, Bytes message) {
  while (producer.push(message, {}) != Producer::Push::ok) std::this_thread::yield();
}

void bare_rings(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  const auto ring_size = static_cast<size_t>(state.range(1));
  auto region = *SharedRegion::create(ring_size, ring_size / 4);
  std::atomic<bool> stop{false};
  std::thread server([&] {
    Consumer requests(region.to_server());
    Producer replies(region.to_client());
    std::vector<std::byte> reply(size), request(request_size);
    Bytes view;
    while (!stop.load(std::memory_order_relaxed)) {
      if (requests.peek(view) != Consumer::Pop::message) continue;
      std::memcpy(request.data(), view.data(), view.size());
      requests.release();
      pass(replies, reply);
    }
  });
  Producer requests(region.to_server());
  Consumer replies(region.to_client());
  const std::vector<std::byte> request(request_size);
  std::vector<std::byte> into(size);
  Percentiles percentiles;
  for (auto _ : state) {
    percentiles.start();
    pass(requests, request);
    Bytes view;
    while (replies.peek(view) != Consumer::Pop::message) continue;
    std::memcpy(into.data(), view.data(), view.size());
    replies.release();
    percentiles.stop();
  }
  stop = true;
  server.join();
  percentiles.report(state);
}

// A port on its core. A request's first bytes give the size of the reply; with a descriptor, that many bytes go through
// the window first.
struct Request {
  uint64_t reply_size = 0;
  uint64_t window_size = 0;
  WindowDescriptor window;
  std::byte padding[request_size - 40] = {};
};
static_assert(sizeof(Request) == request_size);

class Server {
 public:
  Server() : core_({.index = 0, .pin_to_cpu = -1, .spin_for = std::chrono::milliseconds(10)}), bytes_(64 * MiB) {
    log::set_level(log::Level::error);
    char name[] = "/tmp/verbena-bench-XXXXXX";
    directory_ = ::mkdtemp(name);
    port_ = std::move(*listen(core_, path()));
    port_->on_message([this](PeerId peer, Bytes message) { answer(peer, message); });
    thread_ = std::thread([this] { core_.run(); });
  }
  ~Server() {
    core_.stop();
    thread_.join();
    port_.reset();
    std::filesystem::remove_all(directory_);
  }
  std::string path() const { return directory_ + "/socket"; }

 private:
  void answer(PeerId peer, Bytes message) {
    Request request;
    std::memcpy(static_cast<void*>(&request), message.data(), sizeof request);
    if (request.window_size == 0) {
      [[maybe_unused]] auto sent = port_->send(peer, Bytes(bytes_).first(request.reply_size));
    } else {
      boost::asio::co_spawn(core_.io(), push(peer, request), boost::asio::detached);
    }
  }
  Task<> push(PeerId peer, Request request) {
    auto window = port_->open_window(peer, request.window, Access::server_writes);
    auto written =
        co_await (*window)->write(Bytes(bytes_).first(request.window_size), 0, deadline_in(std::chrono::seconds(10)));
    if (written) written = port_->send(peer, Bytes(bytes_).first(request.reply_size));
  }

  Core core_;
  std::vector<std::byte> bytes_;
  std::string directory_;
  std::unique_ptr<Port> port_;
  std::thread thread_;
};

void exchange(benchmark::State& state, Link& link, const Request& request, std::byte* into) {
  Percentiles percentiles;
  for (auto _ : state) {
    percentiles.start();
    [[maybe_unused]] auto sent = link.send(std::as_bytes(std::span(&request, 1)));
    bool done = false;
    while (!done) {
      [[maybe_unused]] auto polled = link.poll([&](Bytes reply) {
        if (into != nullptr) std::memcpy(into, reply.data(), reply.size());
        done = true;
      });
      if (!done) link.wait(deadline_in(std::chrono::seconds(1)));
    }
    percentiles.stop();
  }
  percentiles.report(state);
}

void inline_reply(benchmark::State& state) {
  Server server;
  auto link = std::move(*connect(server.path()));
  std::vector<std::byte> into(state.range(0));
  exchange(state, *link, {.reply_size = static_cast<uint64_t>(state.range(0)), .window = {}}, into.data());
}

void window_write(benchmark::State& state) {
  Server server;
  auto link = std::move(*connect(server.path()));
  auto memory = *link->allocate(window_offset + state.range(0));
  auto lent = *link->lend(memory->subspan(window_offset), Access::server_writes);
  exchange(state, *link,
           {.reply_size = 64, .window_size = static_cast<uint64_t>(state.range(0)), .window = lent->descriptor()},
           nullptr);
}

BENCHMARK(memcpy_of)->Arg(4096)->Arg(65536)->Arg(1 << 20)->Arg(16 << 20);
BENCHMARK(bare_rings)->ArgsProduct({{64, 4096, 65536}, {256 << 10, 1 << 20}})->UseRealTime();
BENCHMARK(inline_reply)->Arg(64)->Arg(4096)->Arg(65536)->UseRealTime();
BENCHMARK(window_write)->Arg(4096)->Arg(65536)->Arg(1 << 20)->Arg(16 << 20)->UseRealTime();

}  // namespace
}  // namespace verbena::fabric::local
