// The block device of data.device: whether volumes can be there, and are.
#include <fmt/core.h>

#include "admin/doctor.h"
#include "store/local/block_device.h"
#include "store/local/device_volumes.h"

namespace verbena::admin {

Finding check_device(const std::filesystem::path& device) {
  using namespace store::local;
  Finding out{Health::fail, "device of the data", {}, {}};
  std::string trouble;
  auto file = open_block_device(device, DeviceUse::look, trouble);
  if (file) return judge_device(device.string(), std::move(*file));
  out.found = trouble;
  out.mend = "data.device takes a disk, a partition or a namespace that this user may open and nothing else uses";
  return out;
}

Finding judge_device(const std::string& name, std::unique_ptr<store::local::File> device) {
  using namespace store::local;
  Finding out{Health::fail, "device of the data", {}, {}};
  const auto others = device->foreign_contents();
  const bool has_others = others && !others->empty();
  std::string trouble;
  auto opened = DeviceVolumes::open(name, std::move(device), trouble);
  if (!opened || has_others) {
    out.found = opened ? name + " holds " + *others + " beside volumes" : trouble;
    if (out.found.empty()) out.found = describe(opened.error());
    if (has_others) out.mend = "another program has made its " + *others + " there: is this the right device?";
    return out;
  }
  if ((*opened)->begin_overwritten()) {
    out.found = "the begin of " + name + " was overwritten by another program";
    out.mend = "a server does not start there: find out which program it was (docs/raw-device.md)";
    return out;
  }
  if (!others) {
    out.found = "whether " + name + " holds data of other programs cannot be told: " + others.error();
    out.mend = "a server does not start there (docs/raw-device.md)";
    return out;
  }
  const Superblock& facts = (*opened)->superblock();
  const uint64_t used = (*opened)->volumes();
  const auto& defects = (*opened)->defects();
  out.health = used * 10 >= facts.extents * 9 || !defects.empty() ? Health::warn : Health::ok;
  out.found = fmt::format("{}: {}, {} of {} extents in use", name, format_size(facts.extents * facts.extent_size), used,
                          facts.extents);
  if (!defects.empty()) {
    out.mend = defects.front() + ": the next start writes it again from the other copy; watch the device";
  } else if (out.health == Health::warn) {
    out.mend = "extents in use have free space, too: verbena_store_kept_bytes tells how much";
  }
  return out;
}

}  // namespace verbena::admin
