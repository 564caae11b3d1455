// Persistent memory: the devices, and whether a folder is on one (data.pmem).
#include <fmt/core.h>

#include <charconv>

#include "admin/doctor.h"
#include "base/kernel_files.h"
#include "store/local/persistent_memory.h"

namespace verbena::admin {

Findings check_pmem_devices(const MachineRoots& roots) {
  constexpr uint64_t sector = 512;  // the unit of /sys/block/*/size
  Findings findings;
  for (const std::string& name : entries_of(roots.sys / "block")) {
    if (!name.starts_with("pmem")) continue;
    const std::string size = first_line(roots.sys / "block" / name / "size");
    uint64_t sectors = 0;
    std::from_chars(size.data(), size.data() + size.size(), sectors);
    const bool dax = first_line(roots.sys / "block" / name / "queue/dax") == "1";
    Finding finding{Health::ok, "persistent memory " + name, {}, {}};
    finding.found = fmt::format("{}, {}", format_size(sectors * sector), dax ? "DAX" : "without DAX");
    if (!dax) finding.mend = "data.pmem needs DAX: ndctl create-namespace --mode=fsdax";
    findings.push_back(std::move(finding));
  }
  return findings;
}

Finding check_pmem(const std::filesystem::path& folder) {
  Finding finding{Health::ok, "persistent memory of the store", {}, {}};
  std::string trouble;
  if (store::local::check_persistent_memory(folder, trouble)) {
    finding.found = fmt::format("{} is on a DAX file system, lines are written back by {}", folder.string(),
                                store::local::line_write_back());
    return finding;
  }
  finding.health = Health::fail;
  finding.found = trouble;
  finding.mend = "mount ext4 or XFS with -o dax on persistent memory, or leave data.pmem out";
  return finding;
}

}  // namespace verbena::admin
