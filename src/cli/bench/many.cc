// Batches: --batch objects in each call, and single requests for comparison or beside them.
#include <cstring>
#include <thread>

#include "base/checksum.h"
#include "cli/bench/loop.h"
#include "cli/bench/runner.h"
#include "client/outcome.h"

namespace verbena::cli {

using client::fault;

namespace {

struct BatchCaller {
  std::vector<std::string> keys;
  std::vector<BatchItem> items;
  std::vector<BatchResult> results;
  Buffer buffer;
  uint32_t crc = 0;
};

Outcome<> check_batch(const Outcome<Transfer>& moved, const BatchCaller& caller, Via door) {
  if (!moved) return std::unexpected(moved.error());
  if (moved->door != door || !moved->fell_back_reason.empty()) {
    return fault(ErrorCode::unsupported,
                 "the batch went by " + std::string(to_string(moved->door)) + ": " + moved->fell_back_reason);
  }
  return check_items(caller.results, caller.keys);
}

Outcome<> one_batch(const Client& client, BatchCaller& caller, const std::string& op, Via door) {
  if (op == "head") {
    OUT_TRY(client.head(std::string(caller.items[0].bucket), caller.keys[0]));
    return {};
  }
  const std::span window(&caller.buffer, 1);
  if (op == "head_many") return check_batch(client.head_many(caller.items, caller.results), caller, door);
  if (op == "put_many") return check_batch(client.put_many(caller.items, window, caller.results), caller, door);
  return check_batch(client.get_many(caller.items, window, caller.results), caller, door);
}

// GETs into wiped memory must return the bytes of the PUT.
Outcome<> verify_batch(const Client& client, BatchCaller& caller, Via door) {
  std::memset(caller.buffer.data(), 0, caller.buffer.size());
  OUT_TRY(one_batch(client, caller, "get_many", door));
  if (crc32c(caller.buffer.bytes()) != caller.crc) {
    return fault(ErrorCode::checksum_mismatch, "the bytes of a batch differ from those that were put");
  }
  return {};
}

Outcome<> prepare_batch(const Client& client, const std::string& bucket, BatchCaller& caller, unsigned index,
                        uint64_t size, unsigned batch, const std::string& op, Via door) {
  OUT_ASSIGN(caller.buffer, client.allocate(size * batch));
  fill_pattern(caller.buffer.bytes(), index);
  caller.crc = crc32c(caller.buffer.bytes());
  for (unsigned i = 0; i < batch; ++i) {
    caller.keys.push_back("bench/many/" + std::to_string(size) + "/" + std::to_string(index) + "/" + std::to_string(i));
  }
  for (unsigned i = 0; i < batch; ++i) {
    caller.items.push_back({.bucket = bucket, .key = caller.keys[i], .offset = i * size, .size = size});
  }
  caller.results.resize(batch);
  OUT_TRY(one_batch(client, caller, "put_many", door));
  OUT_TRY(verify_batch(client, caller, door));
  for (int i = 0; i < 10; ++i) OUT_TRY(one_batch(client, caller, op, door));
  return {};
}

}  // namespace

Outcome<BenchRow> measure_many(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                               const std::string& op, uint64_t size, unsigned concurrency, const BenchPlan& plan) {
  const unsigned batch = op == "head" ? 1 : plan.batch;
  std::vector<BatchCaller> callers(concurrency);
  for (unsigned i = 0; i < concurrency; ++i) {
    OUT_TRY(prepare_batch(client, bucket, callers[i], i, size, batch, op, door));
  }
  BenchRow row = row_of(door, op, size, concurrency, batch);
  std::vector<BenchCaller> running;
  for (BatchCaller& caller : callers) {
    running.push_back({.op = [&] { return one_batch(client, caller, op, door); }});
  }
  OUT_TRY(run_callers(running, plan, [&] { return server.cpu_seconds(); }, row));
  count_objects(row);
  for (BatchCaller& caller : callers) {
    OUT_TRY(verify_batch(client, caller, door));
    OUT_TRY(check_batch(client.remove_many(caller.items, caller.results), caller, door));
  }
  return row;
}

namespace {

// Reads one batch after the other, on a connection of its own, until it goes out of scope.
class Busy {
 public:
  Busy(const Client& client, BatchCaller& caller, Via door)
      : thread_([this, &client, &caller, door](const std::stop_token& stop) {
          while (!stop.stop_requested() && !failure_) {
            if (auto done = one_batch(client, caller, "get_many", door); !done) failure_ = std::move(done).error();
          }
        }) {}
  Outcome<> end() {
    thread_.request_stop();
    thread_.join();
    if (failure_) return std::unexpected(std::move(*failure_));
    return {};
  }

 private:
  std::optional<ClientError> failure_;  // of the thread; read after it has ended
  std::jthread thread_;
};

}  // namespace

Outcome<BenchRow> measure_beside_many(const ClientOptions& options, const std::string& bucket, uint64_t size,
                                      unsigned concurrency, const BenchPlan& plan) {
  OUT_ASSIGN(const Client single, Client::connect(options));
  OUT_ASSIGN(const Client other, Client::connect(options));
  BatchCaller batches;
  OUT_TRY(prepare_batch(other, bucket, batches, concurrency, size, plan.batch, "get_many", options.via));
  std::vector<BatchCaller> callers(concurrency);
  for (unsigned i = 0; i < concurrency; ++i) {
    OUT_TRY(prepare_batch(single, bucket, callers[i], i, size, 1, "get_many", options.via));
  }
  BenchRow row = row_of(options.via, "get_beside_many", size, concurrency);
  std::vector<BenchCaller> running;
  for (BatchCaller& caller : callers) {
    running.push_back({.op = [&]() -> Outcome<> {
      OUT_ASSIGN(const auto got, single.get(bucket, caller.keys[0], caller.buffer));
      return got.transfer.door == options.via ? Outcome<>()
                                              : fault(ErrorCode::unsupported, "the GET used another door");
    }});
  }
  Busy busy(other, batches, options.via);
  OUT_TRY(run_callers(running, plan, [] { return std::optional<double>(); }, row));
  OUT_TRY(busy.end());
  OUT_TRY(verify_batch(other, batches, options.via));
  OUT_TRY(check_batch(other.remove_many(batches.items, batches.results), batches, options.via));
  for (BatchCaller& caller : callers) OUT_TRY(single.remove(bucket, caller.keys[0]));
  return row;
}

}  // namespace verbena::cli
