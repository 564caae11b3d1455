#include "call/bucket_traffic.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/exposition.h"

namespace verbena::call {
namespace {

constexpr size_t slots = 512;         // of a thread's table
constexpr size_t kept_for_each = 16;  // entries in the process's table per shown bucket
constexpr unsigned shown_default = 20;
std::atomic<unsigned> shown_max{shown_default};

struct Counts {
  std::array<uint64_t, 3> requests{};
  uint64_t bytes_in = 0, bytes_out = 0;

  void add(const Counts& more) {
    for (size_t i = 0; i < requests.size(); ++i) requests[i] += more.requests[i];
    bytes_in += more.bytes_in;
    bytes_out += more.bytes_out;
  }
  // The order of buckets: by bytes, with each request counted as 64 KiB.
  uint64_t weight() const { return (requests[0] + requests[1] + requests[2]) * (64 * KiB) + bytes_in + bytes_out; }
};

// Written by its own thread only.
struct LiveCounts {
  std::array<std::atomic<uint64_t>, 3> requests{};
  std::atomic<uint64_t> bytes_in{0}, bytes_out{0};

  static void bump(std::atomic<uint64_t>& cell, uint64_t n) {
    cell.store(cell.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  Counts read() const {
    Counts counts;
    for (size_t i = 0; i < requests.size(); ++i) counts.requests[i] = requests[i].load(std::memory_order_relaxed);
    counts.bytes_in = bytes_in.load(std::memory_order_relaxed);
    counts.bytes_out = bytes_out.load(std::memory_order_relaxed);
    return counts;
  }
};

struct Slot {
  std::string bucket;  // changed by its thread, under the table's mutex; read by others under it
  LiveCounts live;
  Counts moved;  // the part already moved to the process's table; under the mutex
};

class Biggest {
 public:
  void add(const std::string& bucket, const Counts& counts) {
    const std::lock_guard lock(mutex_);
    const auto found = buckets_.find(bucket);
    if (found != buckets_.end()) return found->second.add(counts);
    const size_t most = std::max<size_t>(shown_max.load(std::memory_order_relaxed), 1) * kept_for_each;
    while (buckets_.size() >= most) buckets_.erase(smallest());
    buckets_.emplace(bucket, counts);
  }
  std::vector<std::pair<std::string, Counts>> shown() {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<std::string, Counts>> all(buckets_.begin(), buckets_.end());
    const size_t most = std::min<size_t>(all.size(), shown_max.load(std::memory_order_relaxed));
    std::ranges::partial_sort(all, all.begin() + static_cast<ptrdiff_t>(most), std::greater(),
                              [](const auto& one) { return one.second.weight(); });
    all.resize(most);
    return all;
  }

 private:
  std::map<std::string, Counts>::iterator smallest() {
    return std::ranges::min_element(buckets_, std::less(), [](const auto& one) { return one.second.weight(); });
  }
  std::mutex mutex_;
  std::map<std::string, Counts> buckets_;
};

class Table;

// Never destroyed, because threads may count until the program ends.
struct Process {
  Biggest biggest;
  std::mutex mutex;  // taken before a table's
  std::vector<Table*> tables;

  Process() {
    metrics::collect_counters([this](std::vector<metrics::Collected>& out) { collect(out); });
  }
  void collect(std::vector<metrics::Collected>& out);
};
Process& process() {
  static auto* const instance = new Process;
  return *instance;
}

class Table {
 public:
  Table() {
    auto& p = process();
    const std::lock_guard lock(p.mutex);
    p.tables.push_back(this);
  }
  ~Table() {
    auto& p = process();
    const std::lock_guard lock(p.mutex);
    std::erase(p.tables, this);
    move_all();
  }

  LiveCounts& of(std::string_view bucket) {
    if (last_->bucket == bucket) return last_->live;
    last_ = &slots_[std::hash<std::string_view>{}(bucket) % slots];
    if (last_->bucket != bucket) [[unlikely]]
      take(*last_, bucket);
    return last_->live;
  }
  // Moves what was counted since the last call to the process's table. Any thread.
  void move_all() {
    const std::lock_guard lock(mutex_);
    for (Slot& slot : slots_) {
      if (!slot.bucket.empty()) move(slot);
    }
  }

 private:
  void take(Slot& slot, std::string_view bucket) {
    const std::lock_guard lock(mutex_);
    if (!slot.bucket.empty()) move(slot);
    slot.bucket = bucket;
  }
  void move(Slot& slot) {
    const Counts now = slot.live.read();
    Counts more;
    for (size_t i = 0; i < now.requests.size(); ++i) more.requests[i] = now.requests[i] - slot.moved.requests[i];
    more.bytes_in = now.bytes_in - slot.moved.bytes_in;
    more.bytes_out = now.bytes_out - slot.moved.bytes_out;
    slot.moved = now;
    if (more.weight() != 0) process().biggest.add(slot.bucket, more);
  }

  std::mutex mutex_;
  std::array<Slot, slots> slots_;
  Slot* last_ = &slots_[0];  // consecutive requests are often for one bucket
};

thread_local constinit Table* table_of_thread = nullptr;

[[gnu::noinline]] Table& make_table() {
  thread_local const std::unique_ptr<Table> table = std::make_unique<Table>();
  table_of_thread = table.get();
  return *table;
}

void Process::collect(std::vector<metrics::Collected>& out) {
  {
    const std::lock_guard lock(mutex);
    for (Table* table : tables) table->move_all();
  }
  metrics::Collected requests{
      "verbena_bucket_requests_total", "Requests that succeeded, of the buckets with most traffic", {}};
  metrics::Collected bytes{
      "verbena_bucket_bytes_total", "Payload bytes of objects, of the buckets with most traffic", {}};
  constexpr std::array<const char*, 3> kinds{"get", "put", "other"};
  for (const auto& [bucket, counts] : biggest.shown()) {
    for (size_t i = 0; i < kinds.size(); ++i) {
      requests.samples.push_back({{{"bucket", bucket}, {"op", kinds[i]}}, static_cast<double>(counts.requests[i])});
    }
    bytes.samples.push_back({{{"bucket", bucket}, {"direction", "in"}}, static_cast<double>(counts.bytes_in)});
    bytes.samples.push_back({{{"bucket", bucket}, {"direction", "out"}}, static_cast<double>(counts.bytes_out)});
  }
  out.push_back(std::move(requests));
  out.push_back(std::move(bytes));
}

}  // namespace

void count_traffic(std::string_view bucket, Traffic kind, uint64_t bytes_in, uint64_t bytes_out, uint64_t requests) {
  if (bucket.empty() || shown_max.load(std::memory_order_relaxed) == 0) return;
  LiveCounts& counts = (table_of_thread != nullptr ? *table_of_thread : make_table()).of(bucket);
  LiveCounts::bump(counts.requests[static_cast<size_t>(kind)], requests);
  if (bytes_in != 0) LiveCounts::bump(counts.bytes_in, bytes_in);
  if (bytes_out != 0) LiveCounts::bump(counts.bytes_out, bytes_out);
}

void show_buckets(unsigned most) {
  process();
  shown_max.store(most, std::memory_order_relaxed);
}

}  // namespace verbena::call
