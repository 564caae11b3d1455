#include "cli/bench/runner.h"

#include <cstring>

#include "base/checksum.h"
#include "cli/bench/loop.h"
#include "client/outcome.h"

namespace verbena::cli {

using client::fault;

namespace {

constexpr int warm_up_ops = 10;

struct Caller {
  std::vector<std::string> keys;
  size_t next = 0;  // of the keys
  Buffer buffer;
  uint32_t crc = 0;
};

enum class Work : uint8_t { get, put, put_md5 };

Work work_of(const std::string& op) { return op == "get" ? Work::get : op == "put_md5" ? Work::put_md5 : Work::put; }

Outcome<> one_op(const Client& client, const std::string& bucket, Caller& caller, Work work, Via door) {
  const std::string& key = caller.keys[caller.next];
  caller.next = (caller.next + 1) % caller.keys.size();
  if (work == Work::get) {
    OUT_ASSIGN(const auto got, client.get(bucket, key, caller.buffer));
    if (got.bytes != caller.buffer.size()) return fault(ErrorCode::malformed_reply, "a GET came back short");
    return check_door(got.transfer, door);
  }
  PutOptions options;
  options.md5_etag = work == Work::put_md5;
  OUT_ASSIGN(const auto put, client.put(bucket, key, caller.buffer, options));
  return check_door(put.transfer, door);
}

// A GET into wiped memory must return the bytes of the PUT.
Outcome<> verify(const Client& client, const std::string& bucket, const Caller& caller) {
  for (const std::string& key : caller.keys) {
    std::memset(caller.buffer.data(), 0, caller.buffer.size());
    OUT_TRY(client.get(bucket, key, caller.buffer));
    if (crc32c(caller.buffer.bytes()) != caller.crc) {
      return fault(ErrorCode::checksum_mismatch, key + ": the bytes differ from those that were put");
    }
  }
  return {};
}

Outcome<> prepare(const Client& client, const std::string& bucket, Caller& caller, unsigned index, uint64_t size,
                  unsigned keys, Work work, Via door) {
  for (unsigned i = 0; i < keys; ++i) {
    caller.keys.push_back("bench/" + std::to_string(size) + "/" + std::to_string(index) +
                          (i == 0 ? "" : "/" + std::to_string(i)));
  }
  OUT_ASSIGN(caller.buffer, client.allocate(size));
  fill_pattern(caller.buffer.bytes(), index);
  caller.crc = crc32c(caller.buffer.bytes());
  for (const std::string& key : caller.keys) OUT_TRY(client.put(bucket, key, caller.buffer));
  OUT_TRY(verify(client, bucket, caller));
  for (int i = 0; i < warm_up_ops; ++i) OUT_TRY(one_op(client, bucket, caller, work, door));
  return {};
}

}  // namespace

Outcome<BenchRow> measure(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                          const std::string& op, uint64_t size, unsigned concurrency, const BenchPlan& plan) {
  const Work work = work_of(op);
  std::vector<Caller> callers(concurrency);
  for (unsigned i = 0; i < concurrency; ++i) {
    OUT_TRY(prepare(client, bucket, callers[i], i, size, plan.keys, work, door));
  }

  BenchRow row = row_of(door, op, size, concurrency);
  std::vector<BenchCaller> running;
  for (Caller& caller : callers) {
    running.push_back({.op = [&] { return one_op(client, bucket, caller, work, door); }});
  }
  OUT_TRY(run_callers(running, plan, [&] { return server.cpu_seconds(); }, row));
  for (const Caller& caller : callers) {
    OUT_TRY(verify(client, bucket, caller));
    for (const std::string& key : caller.keys) OUT_TRY(client.remove(bucket, key));
  }
  return row;
}

}  // namespace verbena::cli
