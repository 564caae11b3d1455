// Checks of a server's resources, and of kernel settings that affect it.
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "admin/doctor.h"
#include "base/kernel_files.h"

namespace verbena::admin {
namespace {

namespace fs = std::filesystem;

constexpr unsigned backlog = 4096;              // the requested length of a listener's queue
constexpr size_t open_files_counted = 200'000;  // counting more would take too long
constexpr uint64_t scarce_bytes = 5 * GiB;

// Quoted as one word of a shell.
std::string word_of(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out.append(c == '\'' ? "'\\''" : std::string(1, c));
  return out + "'";
}

}  // namespace

Finding check_disk(const std::string& subject, const fs::path& path) {
  struct statvfs found{};
  if (::statvfs(path.c_str(), &found) != 0) {
    return {Health::fail, subject, fmt::format("{}: {}", path.string(), std::strerror(errno)),
            "is the file system mounted, and may the server enter the folder? findmnt --target " + path.string(),
            "findmnt --target " + word_of(path.string())};
  }
  return judge_disk(subject, path,
                    {.bytes = found.f_blocks * found.f_frsize,
                     .free_bytes = found.f_bavail * found.f_frsize,
                     .inodes = found.f_files,
                     .free_inodes = found.f_favail});
}

Finding judge_disk(const std::string& subject, const fs::path& path, const DiskRoom& room) {
  const uint64_t free = room.free_bytes;
  const double share = room.bytes == 0 ? 0 : static_cast<double>(free) / static_cast<double>(room.bytes);
  Finding out{Health::ok,
              subject,
              fmt::format("{}: {} free of {} ({:.0f} %)", path.string(), format_size(free), format_size(room.bytes),
                          share * 100),
              {}};
  // A tenth of a large disk is enough.
  if (share >= 0.1 || free >= 100 * GiB) {
    if (room.inodes == 0 || room.free_inodes > room.inodes / 50) return out;
    out.health = Health::warn;
    out.found += fmt::format(", but {} of {} inodes", room.free_inodes, room.inodes);
    out.mend = "small files have filled the file system: du --inodes -x " + path.string();
    out.command = "du --inodes -x " + word_of(path.string());
    return out;
  }
  out.health = free < scarce_bytes && share < 0.02 ? Health::fail : Health::warn;
  out.mend =
      "writes fail when it is full: `verbena du` shows sizes, a lifecycle rule removes old objects; or use a larger "
      "disk";
  return out;
}

Findings check_open_files(const MachineRoots& roots) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  size_t open = 0;
  std::error_code ec;
  for (fs::directory_iterator it(roots.proc / "self/fd", ec), end; !ec && it != end && open < open_files_counted;
       it.increment(ec)) {
    ++open;
  }
  const bool many = limit.rlim_cur != RLIM_INFINITY && open > limit.rlim_cur / 10 * 8;
  return {
      {many ? Health::warn : Health::ok, "open files",
       fmt::format("{} of {}", open, limit.rlim_cur == RLIM_INFINITY ? "any number" : std::to_string(limit.rlim_cur)),
       many ? "new connections will be refused: LimitNOFILE=1048576 in the service's unit, or ulimit -n; then a restart"
            : ""}};
}

Findings check_kernel(const MachineRoots& roots) {
  Findings out;
  const std::string text = first_line(roots.proc / "sys/net/core/somaxconn");
  unsigned waiting = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), waiting).ec == std::errc()) {
    const bool few = waiting < backlog;
    out.push_back(
        {few ? Health::warn : Health::ok, "net.core.somaxconn", fmt::format("{} connections may wait", waiting),
         few ? fmt::format("many simultaneous new clients are refused: sysctl -w net.core.somaxconn={}, then a restart",
                           backlog)
             : "",
         few ? fmt::format("sysctl -w net.core.somaxconn={}", backlog) : ""});
  }
  const std::string governor = first_line(roots.sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor.empty()) {
    const bool slow = governor == "powersave" || governor == "conservative";
    // intel_pstate and amd-pstate-epp call their load-following governor "powersave".
    const std::string driver = first_line(roots.sys / "devices/system/cpu/cpu0/cpufreq/scaling_driver");
    const bool follows = driver.find("pstate") != std::string::npos;
    out.push_back({slow && !follows ? Health::warn : Health::ok, "processor clock",
                   fmt::format("governor {}", governor),
                   slow ? "for the lowest latencies: cpupower frequency-set -g performance" : "",
                   slow ? "cpupower frequency-set -g performance" : ""});
  }
  return out;
}

Findings check_clock(const MachineRoots& roots) {
  // Sandboxes of services forbid asking the kernel (adjtimex).
  struct Keeper {
    const char *place, *name;
  };
  constexpr Keeper keepers[] = {{"systemd/timesync/synchronized", "systemd-timesyncd, synchronized"},
                                {"chrony/chronyd.pid", "chronyd"},
                                {"chrony/chronyd.sock", "chronyd"},
                                {"chronyd.pid", "chronyd"},
                                {"ntpd.pid", "ntpd"},
                                {"openntpd.pid", "openntpd"}};
  for (const auto& keeper : keepers) {
    std::error_code ec;
    if (fs::exists(roots.run / keeper.place, ec))
      return {{Health::ok, "clock", fmt::format("kept by {}", keeper.name), {}}};
  }
  return {{Health::ok, "clock", "no time synchronization was found (in a container, the host may do it)",
           "signatures that are 15 minutes off are refused: timedatectl set-ntp true", "timedatectl set-ntp true"}};
}

}  // namespace verbena::admin
