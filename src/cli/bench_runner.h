// Measures one door at one size: callers in threads, each with its own key and registered buffer.
#pragma once

#include <string>

#include "cli/bench.h"
#include "cli/bench_server.h"

namespace verbena::cli {

// Runs `op` ("get" or "put") through the one door that `client` was connected for. Bytes are verified by checksum
// before and after the timed section. A transfer that went another way is an error.
Outcome<BenchRow> measure(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                          const std::string& op, uint64_t size, unsigned concurrency, const BenchPlan& plan);

// GET over HTTP by requests that nobody has signed. The bucket must let everyone read:
Outcome<BenchRow> measure_anonymous(const Client& client, const BenchServer& server, const std::string& bucket,
                                    uint64_t size, unsigned concurrency, const BenchPlan& plan);
Outcome<> let_everyone_read(const ClientOptions& options, const std::string& bucket);
// Likewise for "range" (random ranges of `size` bytes of an object of plan.object_size bytes, one a request) and
// "ranges" (one caller, `concurrency` of them in each request). The object is made where it is missing; each range's
// bytes are looked at.
Outcome<BenchRow> measure_ranges(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                                 const std::string& op, uint64_t size, unsigned concurrency, const BenchPlan& plan);

// "get_many", "head_many" and "put_many" with plan.batch objects of `size` bytes in each call, and "head" with one.
Outcome<BenchRow> measure_many(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                               const std::string& op, uint64_t size, unsigned concurrency, const BenchPlan& plan);

// Single GETs while another client asks for batches of plan.batch objects of the same size, one after the other.
// `options`: of one door and provider.
Outcome<BenchRow> measure_beside_many(const ClientOptions& options, const std::string& bucket, uint64_t size,
                                      unsigned concurrency, const BenchPlan& plan);

// The lines of plan.trace by one caller: "trace" object by object, "trace_many" a batch a line. Its time is the row's
// count of lines by its rate.
Outcome<BenchRow> measure_trace(const Client& client, const BenchServer& server, const std::string& bucket, Via door,
                                const std::string& op, const BenchPlan& plan);

// The yardsticks beside the doors. memcpy of as many bytes between two buffers per caller:
BenchRow measure_memcpy(uint64_t size, unsigned concurrency, const BenchPlan& plan);
// libfabric's own fi_rma_bw (writes) and fi_rdm_pingpong (one way) over a provider ("tcp", "verbs") at `address`, from
// PREFIX/bin. The error is a sentence.
std::expected<std::vector<BenchRow>, std::string> measure_fabtests(const std::string& prefix, uint64_t size,
                                                                   const std::string& provider,
                                                                   const std::string& address);
// ib_write_bw, ib_read_bw and ib_write_lat on the RDMA device that has `address`.
std::expected<std::vector<BenchRow>, std::string> measure_perftest(const std::string& address, uint64_t size);
// The last line of figures for `size` that a perftest program prints; nullopt when there is none.
std::optional<BenchRow> parse_perftest(const std::string& output, uint64_t size, bool latency);

// nginx with one process on files of the same sizes (GET, and DAV PUT), asked by the same HTTP client over kept-alive
// connections. The error is a sentence.
bool nginx_is_there();
std::expected<std::vector<BenchRow>, std::string> measure_nginx(const BenchPlan& plan);

// A port of 127.0.0.1 that nothing has right now.
uint16_t free_port();

// The last line of figures that a fabtests program prints; nullopt when there is none.
std::optional<BenchRow> parse_fabtests(const std::string& output, uint64_t size);

}  // namespace verbena::cli
