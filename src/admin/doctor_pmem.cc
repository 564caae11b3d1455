// Persistent memory: the devices, and whether a folder is on one (data.pmem).
#include <fmt/core.h>

#include <charconv>
#include <fstream>

#include "admin/doctor.h"
#include "base/kernel_files.h"
#include "store/local/persistent_memory.h"

namespace verbena::admin {
namespace {

constexpr uint64_t sector = 512;  // the unit of /sys/block/*/size and of bad blocks

uint64_t number_in(const std::filesystem::path& file) {
  const std::string text = first_line(file);
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Of a device's lines "SECTOR COUNT".
uint64_t bad_bytes(const std::filesystem::path& badblocks) {
  std::ifstream lines(badblocks);
  uint64_t at = 0, count = 0, all = 0;
  while (lines >> at >> count) all += count;
  return all * sector;
}

// What the platform keeps when the power fails, as the region says it (Documentation/ABI/testing/sysfs-bus-nd).
std::string persistence(const std::filesystem::path& device) {
  const std::string domain = first_line(device / "device/../persistence_domain");
  if (domain == "memory_controller") return "what was written back is kept";
  if (domain == "cpu_cache") return "the processor's caches are kept, too";
  return "the platform does not say what it keeps when the power fails";
}

Finding find_pmem(const std::filesystem::path& device) {
  const bool dax = first_line(device / "queue/dax") == "1";
  Finding finding{Health::ok, "persistent memory " + device.filename().string(), {}, {}};
  finding.found = fmt::format("{}, {}, {}", format_size(number_in(device / "size") * sector),
                              dax ? "DAX" : "without DAX", persistence(device));
  if (!dax) finding.mend = "data.pmem needs DAX: ndctl create-namespace --mode=fsdax";
  if (const uint64_t bad = bad_bytes(device / "badblocks"); bad != 0) {
    finding.health = Health::warn;
    finding.found += fmt::format(", {} in bad blocks", format_size(bad));
    finding.mend = "clear them, whose contents are lost (ndctl clear-errors), or replace the module";
  }
  return finding;
}

}  // namespace

Findings check_pmem_devices(const MachineRoots& roots) {
  Findings findings;
  for (const std::string& name : entries_of(roots.sys / "block")) {
    if (name.starts_with("pmem")) findings.push_back(find_pmem(roots.sys / "block" / name));
  }
  for (const std::string& name : entries_of(roots.dev)) {
    const auto size = roots.sys / "bus/dax/devices" / name / "size";
    if (!name.starts_with("dax") || first_line(size).empty()) continue;
    Finding finding{Health::ok, "device-dax node " + name, {}, {}};
    finding.found = format_size(number_in(size)) + ", which data.pmem does not take";
    finding.mend =
        "for data.pmem make a DAX file system of it: ndctl create-namespace --mode=fsdax, mkfs.ext4, mount -o dax";
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
