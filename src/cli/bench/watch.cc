// The delay of a watch: from the time stamp of the change, as its message has it, until the client holds the message.
// In a durable bucket the time stamp is before the log is synced. Both ends on one host, by one clock, which counts in
// microseconds.
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "cli/bench/loop.h"
#include "cli/bench/runner.h"

namespace verbena::cli {

using client::fault;

namespace {

// Puts one object on request.
class Writer {
 public:
  Writer(Client client, const std::string& bucket, uint64_t size)
      : client_(std::move(client)), bucket_(bucket), bytes_(size), thread_([this](const std::stop_token& stop) {
          fill_pattern(bytes_, 1);
          for (uint64_t done = 0; !stop.stop_requested();) {
            asked_.wait(done);
            if (stop.stop_requested()) return;
            ++done;
            auto put = client_.put(bucket_, "bench/watch", bytes_);
            if (put) continue;
            const std::lock_guard lock(mutex_);
            failure_ = std::move(put).error();
            return;
          }
        }) {}
  ~Writer() {
    thread_.request_stop();
    ask();
  }
  void ask() {
    asked_.fetch_add(1);
    asked_.notify_one();
  }
  // The error that stopped the writer, if any.
  std::optional<ClientError> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  const Client client_;
  const std::string bucket_;
  std::vector<std::byte> bytes_;
  std::atomic<uint64_t> asked_{0};
  mutable std::mutex mutex_;
  std::optional<ClientError> failure_;
  std::jthread thread_;
};

// Waits in slices, because a failed PUT causes no event.
Outcome<WatchNews> next_news(const Watch& watch, const Writer& writer) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    OUT_ASSIGN(WatchNews news, watch.next(std::chrono::milliseconds(100)));
    const bool nothing = !news.gap && news.changes.empty();
    if (!nothing || writer.failure() || std::chrono::steady_clock::now() >= until) return news;
  }
}

}  // namespace

Outcome<BenchRow> measure_watch(const ClientOptions& options, const std::string& bucket, uint64_t size,
                                const BenchPlan& plan) {
  using Clock = std::chrono::system_clock;
  OUT_ASSIGN(const Client writes, Client::connect(options));
  OUT_ASSIGN(const Client listens, Client::connect(options));
  WatchOptions what;
  what.prefix = "bench/watch";
  OUT_ASSIGN(const Watch watch, listens.watch(bucket, what));
  std::vector<uint32_t> samples_ns;
  const auto began = std::chrono::steady_clock::now();
  {
    Writer writer(writes, bucket, size);
    const std::atomic<bool> never{false};
    std::vector<uint32_t> rounds_ns;
    const auto round = [&]() -> Outcome<> {
      writer.ask();
      OUT_ASSIGN(const WatchNews news, next_news(watch, writer));
      const auto now = Clock::now();
      if (auto why = writer.failure()) return std::unexpected(std::move(*why));
      if (news.gap || news.changes.size() != 1) return fault(ErrorCode::timed_out, "a PUT was not reported");
      const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(now - news.changes[0].time).count();
      samples_ns.push_back(static_cast<uint32_t>(std::clamp<int64_t>(took, 0, UINT32_MAX)));
      return {};
    };
    OUT_TRY(timed_loop(rounds_ns, plan, never, round));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  BenchRow row;
  row.door = to_string(options.via);
  row.op = "watch";
  row.size = size;
  row.concurrency = 1;
  summarize(row, samples_ns, seconds);
  OUT_TRY(writes.remove(bucket, what.prefix));
  return row;
}

}  // namespace verbena::cli
