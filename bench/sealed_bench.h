// The parts of sealed_bench. docs/sealed-rdma.md, "What it costs"
#pragma once

#include <string>
#include <vector>

namespace verbena::bench {

// Sealing and opening `bytes` on one core, by the functions that server and client move payload with (fabric/sealed),
// and by OpenSSL itself in one call for all of them.
struct CipherSpeed {
  std::string cipher;
  std::string way;  // "GET": the client opens its ring; "PUT": the server opens memory of its own
  size_t bytes = 0;
  double ours_bytes_per_cpu_s = 0, openssl_bytes_per_cpu_s = 0;  // of the thread
  double ratio = 0;                                              // the median of the rounds' ratios
};
std::vector<CipherSpeed> measure_ciphers(double seconds_per_turn, unsigned rounds);

// GETs of 1 MiB by the native door, several in flight, from a server on a thread of its own.
struct MoveSpeed {
  std::string way;                              // "plain", "sealed": the same device; "tcp": our own, with TLS
  std::string provider;                         // of the session
  double bytes_per_s = 0, bytes_per_cpu_s = 0;  // the latter of the server's thread
};
struct MovePlace {
  std::string provider = "tcp";  // of libfabric
  std::string address = "127.0.0.1";
};
// A row for each way and round; the ways alternate.
std::vector<MoveSpeed> measure_moves(const MovePlace& place, double seconds_per_turn, unsigned rounds);

}  // namespace verbena::bench
