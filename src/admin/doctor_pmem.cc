// Persistent memory: the devices, and whether data.pmem names one.
#include <fmt/core.h>

#include <charconv>

#include "admin/doctor.h"
#include "base/kernel_files.h"
#include "store/local/dax_node.h"
#include "store/local/persistent_memory.h"

namespace verbena::admin {
namespace {

constexpr uint64_t sector = 512;  // the unit of /sys/block/*/size

uint64_t number_in(const std::filesystem::path& file) {
  const std::string text = first_line(file);
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void name_bad_blocks(Finding& finding, uint64_t bad) {
  if (bad == 0) return;
  finding.health = Health::warn;
  finding.found += fmt::format(", {} in bad blocks", format_size(bad));
  finding.mend = "clear them, whose contents are lost (ndctl clear-errors), or replace the module";
}

Finding find_pmem(const std::filesystem::path& device) {
  const bool dax = first_line(device / "queue/dax") == "1";
  Finding finding{Health::ok, "persistent memory " + device.filename().string(), {}, {}};
  finding.found = fmt::format("{}, {}, {}", format_size(number_in(device / "size") * sector),
                              dax ? "DAX" : "without DAX", store::local::what_is_kept(device / "device/.."));
  if (!dax) finding.mend = "data.pmem needs DAX: ndctl create-namespace --mode=fsdax";
  name_bad_blocks(finding, store::local::bad_bytes(device / "badblocks"));
  return finding;
}

Finding find_node(const std::filesystem::path& device) {
  const store::local::DaxFacts facts = store::local::dax_facts(device);
  Finding finding{Health::ok, "device-dax node " + device.filename().string(), {}, {}};
  finding.found = fmt::format("{}, {}: {}", format_size(facts.size),
                              facts.persistent ? "persistent" : "which data.pmem does not take", facts.kept);
  name_bad_blocks(finding, facts.bad_bytes);
  return finding;
}

}  // namespace

Findings check_pmem_devices(const MachineRoots& roots) {
  Findings findings;
  for (const std::string& name : entries_of(roots.sys / "block")) {
    if (name.starts_with("pmem")) findings.push_back(find_pmem(roots.sys / "block" / name));
  }
  for (const std::string& name : entries_of(roots.dev)) {
    const auto device = roots.sys / "bus/dax/devices" / name;
    if (name.starts_with("dax") && !first_line(device / "size").empty()) findings.push_back(find_node(device));
  }
  return findings;
}

Finding check_pmem(const std::filesystem::path& where) {
  Finding finding{Health::ok, "persistent memory of the store", {}, {}};
  std::string trouble;
  if (const auto found = store::local::check_persistent_memory(where, trouble)) {
    finding.found =
        fmt::format("{} {}, lines are written back by {}", where.string(), *found, store::local::line_write_back());
    return finding;
  }
  finding.health = Health::fail;
  finding.found = trouble;
  finding.mend =
      "mount ext4 or XFS with -o dax on persistent memory, or format a device-dax node of it (verbena device format), "
      "or leave data.pmem out";
  return finding;
}

}  // namespace verbena::admin
