// Measures one door at one size: callers in threads, each with its own key and registered buffer.
#pragma once

#include <string>

#include "cli/bench/bench.h"
#include "cli/bench/server.h"

namespace verbena::cli {

// Runs `op` ("get" or "put") through the one door that `client` was connected for. Bytes are verified by checksum
// before and after the timed section. A transfer through another door is an error.
Outcome<BenchRow> measure(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                          const std::string& op, uint64_t size, unsigned concurrency, const BenchPlan& plan);

// Unsigned GETs over HTTP: "get", or "get_new", each over a connection of its own. The bucket must be public:
Outcome<BenchRow> measure_anonymous(const Client& client, const BenchServer& server, const std::string& bucket,
                                    const std::string& op, uint64_t size, unsigned concurrency, const BenchPlan& plan);
Outcome<> let_everyone_read(const ClientOptions& options, const std::string& bucket);
// Likewise for "range" (random ranges of `size` bytes of an object of plan.object_size bytes, one a request) and
// "ranges" (one caller, `concurrency` of them in each request). The object is made if missing; each range's bytes are
// checked.
Outcome<BenchRow> measure_ranges(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                                 const std::string& op, uint64_t size, unsigned concurrency, const BenchPlan& plan);

// "get_many", "head_many" and "put_many" with plan.batch objects of `size` bytes in each call, and "head" with one.
Outcome<BenchRow> measure_many(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                               const std::string& op, uint64_t size, unsigned concurrency, const BenchPlan& plan);

// Single GETs while another client reads batches of plan.batch objects of the same size, one after the other.
// `options`: of one door and provider.
Outcome<BenchRow> measure_beside_many(const ClientOptions& options, const std::string& bucket, uint64_t size,
                                      unsigned concurrency, const BenchPlan& plan);

// The time from a PUT of `size` bytes to its event at a watch. `options`: of one door and provider.
Outcome<BenchRow> measure_watch(const ClientOptions& options, const std::string& bucket, uint64_t size,
                                const BenchPlan& plan);

// Replays plan.trace with one caller: "trace" object by object, "trace_many" one batch per line. The total time is the
// row's count of lines divided by its rate.
Outcome<BenchRow> measure_trace(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                                const std::string& op, const BenchPlan& plan);

}  // namespace verbena::cli
