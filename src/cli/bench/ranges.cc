// Random ranges of one large object: the cold scan. Its bytes are a function of their offset, so that each read is
// checked.
#include <cstring>
#include <random>

#include "base/bytes.h"
#include "cli/bench/loop.h"
#include "cli/bench/runner.h"
#include "client/outcome.h"

namespace verbena::cli {

using client::fault;

namespace {

constexpr uint64_t word = sizeof(uint64_t);

uint64_t word_at(uint64_t offset) { return (offset / word + 1) * 0x9e3779b97f4a7c15ull; }

void fill_from(std::span<std::byte> into, uint64_t offset) {
  for (size_t at = 0; at < into.size(); at += word) {
    const uint64_t value = word_at(offset + at);
    std::memcpy(into.data() + at, &value, std::min<size_t>(word, into.size() - at));
  }
}

bool holds(std::span<const std::byte> bytes, uint64_t offset, size_t stride) {
  for (size_t at = 0; at + word <= bytes.size(); at += stride) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, word);
    if (value != word_at(offset + at)) return false;
  }
  return true;
}

Outcome<> make_object(const Client& client, const std::string& bucket, const std::string& key, uint64_t size) {
  if (const auto there = client.head(bucket, key); there && there->size == size) return {};
  uint64_t at = 0;
  const auto read = [&](std::span<std::byte> into) -> Outcome<size_t> {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(into.size(), size - at));
    fill_from(into.first(n), at);
    at += n;
    return n;
  };
  OUT_TRY(client.put_stream(bucket, key, read));
  return {};
}

struct Scanner {
  Buffer buffer;
  std::mt19937_64 random;
  std::vector<Range> ranges;
};

struct Scan {
  const Client& client;
  const std::string& bucket;
  std::string key;
  Via door;
  uint64_t object_size, size;

  // One operation: the ranges in one message, or a single one. `stride`: distance between checked words.
  Outcome<> read(Scanner& scanner, size_t stride) const {
    for (Range& range : scanner.ranges) range = {scanner.random() % (object_size / size) * size, size};
    GetOptions options;
    options.range = scanner.ranges.front();
    OUT_ASSIGN(const auto got, scanner.ranges.size() > 1
                                   ? client.get_ranges(bucket, key, scanner.ranges, scanner.buffer)
                                   : client.get(bucket, key, scanner.buffer, options));
    if (got.bytes != scanner.buffer.size()) return fault(ErrorCode::malformed_reply, "a range came back short");
    if (got.transfer.door != door) {
      return fault(ErrorCode::unsupported, "the bytes went another way: " + got.transfer.fell_back_reason);
    }
    for (size_t i = 0; i < scanner.ranges.size(); ++i) {
      if (!holds(scanner.buffer.slice(i * size, size).bytes(), scanner.ranges[i].offset, stride)) {
        return fault(ErrorCode::checksum_mismatch, "the bytes differ from those of that range");
      }
    }
    return {};
  }
};

}  // namespace

Outcome<BenchRow> measure_ranges(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                                 const std::string& op, uint64_t size, unsigned concurrency, const BenchPlan& plan) {
  if (size % word != 0 || size > plan.object_size) {
    return fault(ErrorCode::invalid_argument, "ranges are multiples of 8 bytes and no longer than --object-size");
  }
  const bool one_message = op == "ranges";
  Scan scan{client, bucket, "bench/object/" + std::to_string(plan.object_size), door, plan.object_size, size};
  ClientOptions plain = server.options();
  plain.via = Via::http;
  OUT_ASSIGN(const Client maker, Client::connect(plain));
  OUT_TRY(make_object(maker, bucket, scan.key, plan.object_size));

  std::vector<Scanner> scanners(one_message ? 1 : concurrency);
  std::vector<BenchCaller> callers;
  for (size_t i = 0; i < scanners.size(); ++i) {
    Scanner& scanner = scanners[i];
    scanner.random.seed(i + 1);
    scanner.ranges.resize(one_message ? concurrency : 1);
    OUT_ASSIGN(scanner.buffer, client.allocate(scanner.ranges.size() * size));
    OUT_TRY(scan.read(scanner, word));
    callers.push_back({.op = [&scan, &scanner] { return scan.read(scanner, 4 * KiB); }});
  }
  BenchRow row = row_of(door, op, size, concurrency);
  OUT_TRY(run_callers(callers, plan, [&] { return server.cpu_seconds(); }, row));
  if (one_message) {
    row.ops_per_s *= concurrency;
    row.bytes_per_s *= concurrency;
    if (row.server_cpu_s_per_gb) *row.server_cpu_s_per_gb /= concurrency;
  }
  for (Scanner& scanner : scanners) OUT_TRY(scan.read(scanner, word));
  return row;
}

}  // namespace verbena::cli
