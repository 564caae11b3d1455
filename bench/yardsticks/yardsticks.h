// The yardsticks of `verbena bench`, on the same machine and in the same rows: memcpy, MD5, plain sends, nginx,
// libfabric's own tests and perftest. Errors are sentences.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/bench.h"

namespace verbena::yardsticks {

using cli::BenchPlan;
using cli::BenchRow;
using Rows = std::expected<std::vector<BenchRow>, std::string>;

// memcpy of that many bytes between two buffers per caller.
BenchRow measure_memcpy(uint64_t size, unsigned concurrency, const BenchPlan& plan);

// MD5 by one core: of one body after the other by OpenSSL, and of `count` bodies in parallel as in the server.
BenchRow measure_md5_of_one(uint64_t size, const BenchPlan& plan);
BenchRow measure_md5_side_by_side(uint64_t size, unsigned count, const BenchPlan& plan);

// nginx with one process on files of the same sizes (GET, and DAV PUT), read by the client library's HTTP client over
// kept-alive connections; "get_new": each over a connection of its own. With a certificate by TLS 1.3, with session
// tickets.
struct NginxTls {
  std::string certificate = {}, key = {};  // PEM files; empty: plain HTTP
};
bool nginx_is_there();
Rows measure_nginx(const BenchPlan& plan, const NginxTls& tls = {});

// GETs of that many bytes in memory, sent with only recv, sendmsg and epoll on one thread, by the same client.
Rows measure_plain_sends(const BenchPlan& plan);

// libfabric's own fi_rma_bw (writes) and fi_rdm_pingpong (one way) over a provider ("tcp", "verbs") at `address`, from
// PREFIX/bin.
Rows measure_fabtests(const std::string& prefix, uint64_t size, const std::string& provider,
                      const std::string& address);
// Parses the last line of figures of a fabtests program; nullopt if there is none.
std::optional<BenchRow> parse_fabtests(const std::string& output, uint64_t size);

// ib_write_bw, ib_read_bw and ib_write_lat on the RDMA device that has `address`.
Rows measure_perftest(const std::string& address, uint64_t size);
// Parses the last line of figures for `size` of a perftest program; nullopt if there is none.
std::optional<BenchRow> parse_perftest(const std::string& output, uint64_t size, bool latency);

// A free port of 127.0.0.1.
uint16_t free_port();

// Parses the output of `verbena bench --json`, a row a line; the error names the line.
Rows parse_rows(const std::string& text);
// One line per row of the fabric doors for which `rows` has a yardstick (fabtests, perftest) of its size.
std::string ratios(const std::vector<BenchRow>& rows);

}  // namespace verbena::yardsticks
