// Checks of the machine itself: devices, memory, limits, io_uring.
#include <dirent.h>
#include <fmt/core.h>
#include <liburing.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "admin/doctor.h"
#include "base/bytes.h"
#include "base/kernel_files.h"

namespace verbena::admin {
namespace {

namespace fs = std::filesystem;

constexpr size_t gids_shown_max = 4;
constexpr const char* soft_roce_command = "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0";
constexpr const char* soft_roce_mend =
    "a software RDMA device for trying: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0 (as root; `ip "
    "link` names the interface). Without one, everything works over tcp, and on this host over shared memory";

bool is_zero_gid(const std::string& gid) {
  return gid.find_first_not_of("0:") == std::string::npos || gid == "fe80:0000:0000:0000:0000:0000:0000:0000";
}

// RDMA headers and 4096 bytes of payload in one Ethernet frame.
constexpr unsigned roce_mtu = 4200;

// A RoCE port's interface carries RDMA's largest packets only with jumbo frames.
std::string mtu_text(const MachineRoots& roots, const std::string& interface, Finding& finding) {
  if (interface.empty()) return {};
  const std::string mtu = first_line(roots.sys / "class/net" / interface / "mtu");
  unsigned value = 0;
  if (std::sscanf(mtu.c_str(), "%u", &value) != 1) return {};
  if (value < roce_mtu) {
    finding.command = fmt::format("ip link set dev {} mtu {}", interface, roce_mtu);
    finding.mend = "RDMA packets of 4096 bytes need jumbo frames: " + finding.command + " (and on the switch)";
  }
  return fmt::format("; {} has MTU {}", interface, value);
}

// "mlx5_0 port 1".
Finding check_port(const MachineRoots& roots, const fs::path& port, const std::string& device,
                   const std::string& number) {
  Finding out{Health::ok, "rdma device " + device + " port " + number, {}, {}};
  const std::string state = first_line(port / "state"), layer = first_line(port / "link_layer"),
                    rate = first_line(port / "rate");
  size_t gids = 0, roce_v2 = 0, ip_based = 0;
  std::string interface, table;
  for (const std::string& index : entries_of(port / "gids")) {
    const std::string gid = first_line(port / "gids" / index);
    if (gid.empty() || is_zero_gid(gid)) continue;
    ++gids;
    const bool v2 = first_line(port / "gid_attrs" / "types" / index) == "RoCE v2";
    if (v2) ++roce_v2;
    // An IPv4-mapped or global GID belongs to an IP address: rdma_cm can use it.
    if (gid.starts_with("fe80:")) continue;
    interface = first_line(port / "gid_attrs" / "ndevs" / index);
    if (++ip_based <= gids_shown_max) table += fmt::format("{}[{}] {}", table.empty() ? " " : ", ", index, gid);
  }
  out.found = fmt::format("{}, {}, {}, {} GIDs ({} RoCE v2, {} with an IP address)", state.empty() ? "no state" : state,
                          layer.empty() ? "unknown link layer" : layer, rate.empty() ? "unknown rate" : rate, gids,
                          roce_v2, ip_based);
  if (!table.empty()) out.found += ": GID" + table;
  if (layer == "Ethernet") out.found += mtu_text(roots, interface, out);
  if (state.find("ACTIVE") == std::string::npos) {
    out.health = Health::warn;
    out.command.clear();
    out.mend = layer == "InfiniBand" ? "the port is not active: check the cable and the subnet manager (opensm)"
                                     : "the port is not active: ip link set dev INTERFACE up";
  } else if (layer == "Ethernet" && ip_based == 0) {
    out.health = Health::warn;
    out.command.clear();
    out.mend = "RoCE v2 needs a GID of an IP address: ip addr add ADDRESS/24 dev INTERFACE";
  } else if (layer == "InfiniBand" && ip_based == 0) {
    out.mend = "InfiniBand addresses come from IPoIB: modprobe ib_ipoib, then give ib0 an address";
    out.command = "modprobe ib_ipoib";
  }
  return out;
}

std::string module_state(const MachineRoots& roots, const char* name) {
  std::error_code ec;
  if (fs::exists(roots.sys / "module" / name, ec)) return "loaded";
  const std::string release = first_line(roots.proc / "sys/kernel/osrelease");
  std::ifstream index("/lib/modules/" + release + "/modules.dep");
  for (std::string line; std::getline(index, line);) {
    if (line.substr(0, line.find(':')).find(std::string("/") + name + ".ko") != std::string::npos) return "available";
  }
  return "missing";
}

std::string limit_text(rlim_t value, bool bytes) {
  if (value == RLIM_INFINITY) return "unlimited";
  return bytes ? format_size(value) : fmt::format("{}", value);
}

}  // namespace

Findings check_devices(const MachineRoots& roots) {
  Findings out;
  const fs::path folder = roots.sys / "class/infiniband";
  const auto devices = entries_of(folder);
  for (const std::string& device : devices) {
    for (const std::string& port : entries_of(folder / device / "ports")) {
      out.push_back(check_port(roots, folder / device / "ports" / port, device, port));
    }
  }
  if (!devices.empty()) {
    const bool usable = ::access("/dev/infiniband/uverbs0", R_OK | W_OK) == 0;
    out.push_back({usable ? Health::ok : Health::warn, "rdma device files",
                   usable ? "/dev/infiniband/uverbs0 may be opened" : "/dev/infiniband/uverbs0 may not be opened",
                   usable ? "" : "modprobe ib_uverbs rdma_ucm; in a container: --device=/dev/infiniband",
                   usable ? "" : "modprobe ib_uverbs rdma_ucm"});
    return out;
  }
  const std::string rxe = module_state(roots, "rdma_rxe");
  out.push_back({Health::warn, "rdma devices", fmt::format("none (soft-RoCE module rdma_rxe: {})", rxe),
                 rxe == "missing" ? std::string("this kernel has no rdma_rxe module: install the distribution's full "
                                                "kernel (linux-image-amd64, linux-modules-extra); then ") +
                                        soft_roce_mend
                                  : soft_roce_mend,
                 rxe == "missing" ? "" : soft_roce_command});
  return out;
}

// Whether packets are filtered at all; only the rules themselves say which.
Findings check_firewall(const MachineRoots& roots) {
  const std::string legacy = first_line(roots.proc / "net/ip_tables_names");
  const std::string nft = first_line(roots.sys / "module/nf_tables/refcnt");
  const bool filtered = !legacy.empty() || (!nft.empty() && nft != "0");
  Finding out{Health::ok,
              "packet filter",
              filtered ? "packet filter rules are loaded" : "no packet filter rules are loaded",
              {}};
  if (filtered) {
    out.mend =
        "let in TCP 9000 and 9100 and the ports of rdma.fabric_ports (between server and clients, both ways, for "
        "tcp), and UDP 4791 for RoCE v2: nft list ruleset, iptables -S";
    out.command = "nft list ruleset";
  }
  return {out};
}

Findings check_memory(const MachineRoots& roots, const ArenaUse& arena) {
  std::ifstream info(roots.proc / "meminfo");
  uint64_t total = 0, free = 0, available_kib = 0;
  for (std::string line; std::getline(info, line);) {
    unsigned long long value = 0;
    if (std::sscanf(line.c_str(), "HugePages_Total: %llu", &value) == 1) total = value;
    if (std::sscanf(line.c_str(), "HugePages_Free: %llu", &value) == 1) free = value;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &value) == 1) available_kib = value;
  }
  Finding pages{Health::ok, "huge pages", fmt::format("{} of {} free (2 MiB each)", free, total), {}};
  const uint64_t needed = arena.bytes / (2 * MiB);
  if (arena.huge_pages) {
    pages.found += "; the arena lies in them";
  } else if (arena.running || free < needed) {
    const std::string transparent = first_line(roots.sys / "kernel/mm/transparent_hugepage/enabled");
    pages.found += transparent.empty() ? "" : "; transparent: " + transparent;
    pages.command = fmt::format("sysctl -w vm.nr_hugepages={}", std::max(total - free + needed + 32, total));
    pages.mend = fmt::format("optional, for the arena ({}{}): {}", format_size(arena.bytes),
                             arena.running ? ", at the next start" : " by default", pages.command);
  }
  Findings out{std::move(pages)};
  const bool scarce = available_kib < 512 * 1024;
  out.push_back({scarce ? Health::warn : Health::ok, "memory", format_size(available_kib * KiB) + " available",
                 scarce ? fmt::format("the arena {} {}: lower arena_size, or free memory",
                                      arena.running ? "has" : "takes", format_size(arena.bytes))
                        : ""});
  return out;
}

Findings check_limits() {
  Findings out;
  rlimit memlock{}, files{};
  ::getrlimit(RLIMIT_MEMLOCK, &memlock);
  ::getrlimit(RLIMIT_NOFILE, &files);
  const bool little = ::geteuid() != 0 && memlock.rlim_cur != RLIM_INFINITY && memlock.rlim_cur < GiB;
  out.push_back({little ? Health::warn : Health::ok, "limit memlock", limit_text(memlock.rlim_cur, true),
                 little ? "RDMA locks the memory that it registers: ulimit -l unlimited, or in "
                          "/etc/security/limits.conf: * - memlock unlimited (systemd: LimitMEMLOCK=infinity)"
                        : "",
                 little ? "ulimit -l unlimited" : ""});
  const bool few = files.rlim_cur < 8192;
  out.push_back({few ? Health::warn : Health::ok, "limit nofile", limit_text(files.rlim_cur, false),
                 few ? "each connection takes a descriptor: ulimit -n 65536 (systemd: LimitNOFILE=65536)" : "",
                 few ? "ulimit -n 65536" : ""});
  return out;
}

Findings check_io_uring(const MachineRoots& roots) {
  io_uring ring{};
  const int result = ::io_uring_queue_init(4, &ring, 0);
  if (result == 0) {
    ::io_uring_queue_exit(&ring);
    return {{Health::ok, "io_uring", "works: data is read by it (disk_io)", {}}};
  }
  const std::string disabled = first_line(roots.proc / "sys/kernel/io_uring_disabled");
  Finding out{Health::warn, "io_uring", fmt::format("not usable: {}", std::strerror(-result)), {}};
  const bool off = disabled == "1" || disabled == "2";
  if (off) out.command = "sysctl -w kernel.io_uring_disabled=0";
  out.mend = off ? out.command + "; until then data is read by threads"
                 : "in a container: allow io_uring_setup in the seccomp profile; until then data is read by threads";
  return {out};
}

}  // namespace verbena::admin
