// fabric/ofi: bytes between hosts over libfabric (verbs, tcp, efa, cxi).
//
//   open()      server, once per core: a domain of that core's own, its Port (messages), its data endpoints (windows).
//   connect()   client: a Link to one Port, or a passive Link whose windows go into tokens.
//   discover()  what fi_getinfo offers on this machine, for `verbena doctor`.
//
// A CoreFabric, its Port and its Windows are used on their core's thread alone. `shm` and `sockets` are never offered:
// the keys of the former protect nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core.h"
#include "base/result.h"
#include "fabric/fabric.h"
#include "memory/arena.h"

namespace verbena::fabric::ofi {

struct Options {
  // auto | tcp | verbs | efa | cxi, or several in order of preference, separated by commas. auto: verbs, then tcp.
  std::string provider = "auto";
  // An address of this host, or a wildcard (then the first usable interface). connect() with a server's address ignores
  // it and uses the local address that routes there.
  std::string bind_address = "127.0.0.1";
  // The Port listens on the first free port of this range; 0: any. Data endpoints dial out and need no open port.
  uint16_t port_first = 0;
  uint16_t port_last = 0;

  // Keys that an operator set explicitly. One that the chosen provider does not support is bad_config, with a log line
  // that names the key and the provider.
  std::optional<std::string> device_name;  // verbs: as in /sys/class/infiniband
  std::optional<int> ib_port;              // verbs
  std::optional<std::string> gid_index;    // verbs: "auto" or a number
  std::optional<uint16_t> pkey;            // verbs over InfiniBand: the partition of the address's interface
  std::optional<uint16_t> vlan;            // verbs over Ethernet: its VLAN
  std::optional<size_t> max_send_wr;       // sends and one-sided operations in flight per endpoint; default 128
  std::optional<size_t> max_recv_wr;       // receives posted per Port; default 128
  std::optional<size_t> max_sge;
  // At least max_send_wr + max_recv_wr; the default is that sum. verbs: the size of the device's queue, over all
  // connections of an endpoint (default max_recv_wr + 16 x max_send_wr).
  std::optional<size_t> cq_size;

  // connect(): the Link lends memory of devices, too (fabric/device.h, PeerLink), if the provider has that here.
  bool device_memory = false;

  // No peer connects: no Port, only windows of tokens. On tcp no listening socket can then be reached.
  bool dial_only = false;

  size_t message_size_max = 16 * KiB;                    // bytes, both directions; both sides use the same
  std::chrono::milliseconds operation_deadline{30'000};  // caps the deadline of every one-sided operation
  // The delay between destroying the queue pair of an abandoned operation and reporting its failure: until then the
  // owner's device still serves its packets in flight (0: none; tcp never waits).
  std::chrono::milliseconds settle{500};
  std::chrono::milliseconds connect_deadline{3'000};  // a window whose owner cannot be reached fails after this
  std::chrono::milliseconds send_deadline{10'000};    // tcp: a peer that reads nothing for this long is cut off
  std::chrono::milliseconds idle_peer_keep{60'000};   // connections of windows are cached so long
  size_t data_endpoints_max = 64;  // per core; each serves up to 4 peers, one each while there are enough
  uint64_t transfer_bytes_per_peer_max = 64 * MiB;  // in flight; more waits for the peer's earlier transfers
};

struct ProviderInfo {
  std::string provider;  // as fi_info names it: "tcp", "verbs;ofi_rxm"
  std::string fabric;
  std::string domain;              // device or interface
  std::string address;             // its source address as text; empty when it has none
  uint64_t message_bytes_max = 0;  // of one operation
  bool usable = false;             // whether Verbena would choose it
  bool device_memory = false;      // it registers memory of devices (FI_HMEM)
};
std::vector<ProviderInfo> discover();

// Whether open() would find a provider of these options at this address, or would reject a key. Logs no error if not.
bool available(const Options& options);

// Whether the libfabric in use is built by tools/build-libfabric.sh: it checks what peers of `tcp` and `verbs` send.
bool checks_peers();

// Adds the kernel's counters of RDMA ports to the metrics from now on (port_counters.h).
void export_port_counters();

class CoreFabric {
 public:
  virtual ~CoreFabric() = default;                // ends every operation in flight with `closed`, after flushing it
  virtual std::string_view provider() const = 0;  // "tcp", "verbs;ofi_rxm"
  virtual std::string_view device() const = 0;    // "mlx5_0"; of tcp the network interface
  virtual Port& port() = 0;
  // For tokens: a window of the owner of `endpoint_name` (fi_getname bytes). invalid_rdma_token when that is not an
  // address of the provider's format; slow_down when every data endpoint is taken.
  virtual Result<std::unique_ptr<Window>> open_window(std::string_view endpoint_name, const WindowDescriptor& lent,
                                                      Access access) = 0;
  // The number of connected data endpoints.
  virtual size_t data_endpoints() const = 0;
};

// bad_config: an unsupported key; unsupported: no such provider here; io_error: the provider failed.
Result<std::unique_ptr<CoreFabric>> open(Core& core, memory::Arena& arena, const Options& options);

// `server_address`: from Port::address(). Empty: no peer; such a Link lends windows and makes progress only.
Result<std::unique_ptr<Link>> connect(const Options& options, std::string_view server_address);

}  // namespace verbena::fabric::ofi
