// Replay of a recorded cache trace (bench/kv_trace.py): each line as one batch, or object by object.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "base/checksum.h"
#include "cli/bench/loop.h"
#include "cli/bench/runner.h"
#include "client/outcome.h"

namespace verbena::cli {

using client::fault;

namespace {

constexpr uint64_t value_max = 16u << 20, line_bytes_max = 256u << 20;

struct TraceStep {
  enum class Kind { get, put, remove } kind = Kind::get;
  std::vector<std::string> keys;
  std::vector<uint64_t> sizes;
  uint64_t bytes = 0;
};

// "get KEY SIZE KEY SIZE ...", "put ..." and "del ..." likewise.
Outcome<TraceStep> parse_step(const std::string& line) {
  TraceStep step;
  std::istringstream words(line);
  std::string verb, key;
  words >> verb;
  if (verb != "get" && verb != "put" && verb != "del") return fault(ErrorCode::invalid_argument, "trace: " + line);
  step.kind = verb == "get" ? TraceStep::Kind::get : verb == "put" ? TraceStep::Kind::put : TraceStep::Kind::remove;
  uint64_t size = 0;
  while (words >> key) {
    if (!(words >> size) || size == 0 || size > value_max)
      return fault(ErrorCode::invalid_argument, "trace: an invalid size, or one beyond 16 MiB");
    step.keys.push_back(key);
    step.sizes.push_back(size);
    step.bytes += size;
  }
  if (step.keys.empty() || step.keys.size() > batch_items_max || step.bytes > line_bytes_max) {
    return fault(ErrorCode::invalid_argument, "trace: a line with too many fields or none");
  }
  return step;
}

Outcome<std::vector<TraceStep>> read_trace(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fault(ErrorCode::local_error, path + ": cannot be read");
  std::vector<TraceStep> steps;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    OUT_ASSIGN(TraceStep step, parse_step(line));
    steps.push_back(std::move(step));
  }
  if (steps.empty()) return fault(ErrorCode::invalid_argument, path + ": no steps");
  return steps;
}

class Replay {
 public:
  Replay(const Client& client, std::string bucket, Via door, bool batches)
      : client_(client), bucket_(std::move(bucket)), door_(door), batches_(batches) {}

  Outcome<> prepare(const std::vector<TraceStep>& steps) {
    uint64_t largest = 0;
    for (const TraceStep& step : steps) largest = std::max(largest, step.bytes);
    OUT_ASSIGN(buffer_, client_.allocate(largest));
    fill_pattern(buffer_.bytes(), 1);
    return {};
  }

  Outcome<> run(const TraceStep& step) {
    items_.clear();
    size_t at = 0;
    for (size_t i = 0; i < step.keys.size(); ++i) {
      items_.push_back({.bucket = bucket_, .key = step.keys[i], .offset = at, .size = step.sizes[i]});
      at += step.sizes[i];
    }
    results_.resize(items_.size());
    if (step.kind == TraceStep::Kind::put) stamp(step);
    OUT_TRY(batches_ ? as_batch(step.kind) : as_singles(step));
    if (step.kind == TraceStep::Kind::remove) {
      for (const std::string& key : step.keys) stamps_.erase(key);
    }
    moved_ += step.kind == TraceStep::Kind::remove ? 0 : step.bytes;
    return {};
  }
  uint64_t moved() const { return moved_; }
  // Reads a line's remaining objects again: their values must be the last ones put.
  Outcome<> verify(const std::vector<TraceStep>& steps) {
    for (const TraceStep& step : steps) {
      if (step.kind != TraceStep::Kind::get) continue;
      if (std::ranges::any_of(step.keys, [&](const std::string& key) { return !stamps_.contains(key); })) continue;
      OUT_TRY(run(step));
      for (size_t i = 0; i < items_.size(); ++i) {
        if (!has_stamp(items_[i], stamps_[step.keys[i]])) {
          return fault(ErrorCode::checksum_mismatch, step.keys[i] + ": the bytes differ from those that were put");
        }
      }
      return {};
    }
    return {};
  }

 private:
  struct Stamp {
    uint64_t number = 0;
    size_t bytes = 0;  // of the number, in the value
  };
  // Writes a value's number into its first eight bytes, or as much of it as the value has room for.
  void stamp(const TraceStep& step) {
    for (size_t i = 0; i < items_.size(); ++i) {
      const Stamp made{++last_stamp_, std::min(sizeof made.number, items_[i].size)};
      std::memcpy(buffer_.data() + items_[i].offset, &made.number, made.bytes);
      stamps_[step.keys[i]] = made;
    }
  }
  bool has_stamp(const BatchItem& item, const Stamp& stamp) const {
    return std::memcmp(buffer_.data() + item.offset, &stamp.number, std::min(stamp.bytes, item.size)) == 0;
  }

  Outcome<> as_batch(TraceStep::Kind kind) {
    const std::span window(&buffer_, 1);
    OUT_ASSIGN(const Transfer moved, kind == TraceStep::Kind::get   ? client_.get_many(items_, window, results_)
                                     : kind == TraceStep::Kind::put ? client_.put_many(items_, window, results_)
                                                                    : client_.remove_many(items_, results_));
    if (moved.door != door_) return fault(ErrorCode::unsupported, "trace: " + moved.fell_back_reason);
    for (size_t i = 0; i < items_.size(); ++i) {
      if (results_[i].error) return fault(*results_[i].error, std::string(items_[i].key));
    }
    return {};
  }

  Outcome<> as_singles(const TraceStep& step) {
    for (size_t i = 0; i < items_.size(); ++i) {
      const Buffer place = buffer_.slice(items_[i].offset, items_[i].size);
      if (step.kind == TraceStep::Kind::get) {
        OUT_TRY(client_.get(bucket_, step.keys[i], place));
      } else if (step.kind == TraceStep::Kind::put) {
        OUT_TRY(client_.put(bucket_, step.keys[i], place));
      } else {
        OUT_TRY(client_.remove(bucket_, step.keys[i]));
      }
    }
    return {};
  }

  const Client& client_;
  const std::string bucket_;
  const Via door_;
  const bool batches_;
  Buffer buffer_;
  std::vector<BatchItem> items_;
  std::vector<BatchResult> results_;
  std::map<std::string, Stamp> stamps_;
  uint64_t last_stamp_ = 0, moved_ = 0;
};

}  // namespace

Outcome<BenchRow> measure_trace(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                                const std::string& op, const BenchPlan& plan) {
  OUT_ASSIGN(const std::vector<TraceStep> steps, read_trace(plan.trace));
  Replay replay(client, bucket, door, op == "trace_many");
  OUT_TRY(replay.prepare(steps));
  BenchRow row;
  row.door = to_string(door);
  row.op = op;
  size_t at = 0;
  std::vector<BenchCaller> callers;
  callers.push_back({.op = [&] { return replay.run(steps[at++]); }});
  BenchPlan once = plan;
  once.count = steps.size();
  OUT_TRY(run_callers(callers, once, [&] { return server.cpu_seconds(); }, row));
  // Rates are of bytes, since steps differ in size.
  row.bytes_per_s = row.ops_per_s / static_cast<double>(steps.size()) * static_cast<double>(replay.moved());
  row.server_cpu_s_per_gb.reset();
  OUT_TRY(replay.verify(steps));
  return row;
}

}  // namespace verbena::cli
