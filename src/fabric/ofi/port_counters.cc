#include "fabric/ofi/port_counters.h"

#include <charconv>
#include <mutex>
#include <string>
#include <vector>

#include "base/kernel_files.h"
#include "base/metrics.h"
#include "fabric/ofi/ofi.h"

namespace verbena::fabric::ofi {
namespace {

namespace fs = std::filesystem;

constexpr size_t devices_max = 64;
constexpr size_t ports_max = 16;
constexpr size_t counters_max = 256;  // in one folder
constexpr size_t name_size_max = 64;  // characters

std::vector<std::string> entries(const fs::path& folder, size_t most) {
  auto names = entries_of(folder, most);
  std::erase_if(names, [](const std::string& name) { return name.size() > name_size_max; });
  return names;
}

void read_folder(const fs::path& folder, const metrics::Labels& port) {
  for (const auto& name : entries(folder, counters_max)) {
    if (name == "lifespan") continue;  // the kernel's cache time of the others, in ms
    const std::string text = first_line(folder / name);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) continue;  // "N/A (no PMA)"
    metrics::Labels labels = port;
    labels.emplace("counter", name);
    metrics::counter("verbena_rdma_port_counter_total", "What the kernel counts of an RDMA port, by its own names",
                     labels)
        .set(value);
  }
}

}  // namespace

void read_port_counters(const fs::path& sysfs) {
  for (const auto& device : entries(sysfs, devices_max)) {
    for (const auto& port : entries(sysfs / device / "ports", ports_max)) {
      const metrics::Labels labels{{"device", device}, {"port", port}};
      const fs::path folder = sysfs / device / "ports" / port;
      metrics::gauge("verbena_rdma_port_active", "Whether an RDMA port is ACTIVE", labels)
          .set(first_line(folder / "state").find("ACTIVE") != std::string::npos ? 1 : 0);
      read_folder(folder / "counters", labels);
      read_folder(folder / "hw_counters", labels);
    }
  }
}

void export_port_counters() {
  static std::once_flag once;
  std::call_once(once, [] { metrics::before_exposition([] { read_port_counters("/sys/class/infiniband"); }); });
}

}  // namespace verbena::fabric::ofi
