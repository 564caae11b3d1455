// The start's part for volumes on a device: which device, whether it is this store's, and when it becomes so.
//
// A store takes a device that was formatted and has no owner. First VERSION names the device, then the superblock names
// the store; a crash between the two leaves a device without an owner that VERSION names, and the next start goes on.
#include "base/log.h"
#include "store/local/batch.h"
#include "store/local/device_bond.h"
#include "store/local/engine.h"

namespace verbena::store::local {
namespace {

constexpr std::string_view bond_head = "device ", bond_middle = " store ";

}  // namespace

std::string to_text(const DeviceBond& bond) {
  return std::string(bond_head) + to_text(bond.device) + std::string(bond_middle) + to_text(bond.store) + "\n";
}

Result<std::optional<DeviceBond>> find_bond(std::string_view version) {
  const size_t line = version.find('\n');
  if (line == std::string_view::npos || line + 1 == version.size()) return std::nullopt;
  std::string_view text = version.substr(line + 1);
  const auto malformed = fail(Errc::malformed, "store: VERSION file: device");
  constexpr size_t id_digits = 2 * sizeof(DeviceId);
  if (text.size() != bond_head.size() + bond_middle.size() + 2 * id_digits + 1 || !text.starts_with(bond_head) ||
      !text.ends_with('\n')) {
    return malformed;
  }
  text.remove_prefix(bond_head.size());
  const auto device = parse_device_id(text.substr(0, id_digits));
  text.remove_prefix(id_digits);
  if (!text.starts_with(bond_middle)) return malformed;
  const auto store = parse_device_id(text.substr(bond_middle.size(), id_digits));
  if (!device || !store) return malformed;
  return DeviceBond{*device, *store};
}

std::unexpected<Error> Engine::refuse_device(std::string sentence, Errc code) const {
  log::error("store: {}", sentence);
  if (options.trouble != nullptr) *options.trouble = std::move(sentence);
  return fail(code, "store: the device of the volumes");
}

Result<void> Engine::open_volume_place() {
  volume_fs = fs;
  if (!options.device.empty()) return open_device();
  if (!bond) return {};
  return refuse_device("the volumes of " + options.directory.string() + " are on a device (id " +
                           to_text(bond->device) + "): set data.device",
                       Errc::unsupported);
}

Result<void> Engine::open_device() {
  std::string trouble;
  auto file = fs->open_device(options.device, /*write=*/true, trouble);
  if (!file) return refuse_device("data.device: " + trouble, file.error().code);
  auto opened = DeviceVolumes::open(options.device.string(), std::move(*file), trouble);
  if (!opened) return refuse_device("data.device: " + trouble, opened.error().code);
  device_volumes = std::move(*opened);
  VB_TRY(check_bond());
  volume_fs = device_volumes.get();
  const Superblock& facts = device_volumes->superblock();
  log::info("store: volumes on {} (id {}): {} in {} extents of {}, {} in use", options.device.string(),
            to_text(facts.id), format_size(facts.extents * facts.extent_size), facts.extents,
            format_size(facts.extent_size), device_volumes->volumes());
  return {};
}

Result<void> Engine::check_bond() {
  const Superblock& facts = device_volumes->superblock();
  const std::string name = options.device.string(), directory = options.directory.string();
  if (bond) {
    if (facts.id != bond->device) {
      return refuse_device(name + " is another device (id " + to_text(facts.id) + ") than that of " + directory +
                               " (id " + to_text(bond->device) + "), or was formatted since. Nothing was changed",
                           Errc::corrupt_object);
    }
    if (facts.owner == bond->store) return {};
    if (!facts.owned() && device_volumes->volumes() == 0) return {};  // it is claimed when VERSION is durable
    return refuse_device(name + " has the volumes of another store than " + directory + ". Nothing was changed",
                         Errc::corrupt_object);
  }
  if (facts.owned() || device_volumes->volumes() != 0) {
    return refuse_device(name + " has the volumes of another store. Its data directory knows it by id " +
                             to_text(facts.id) + "; `verbena device format --force` makes it empty",
                         Errc::unsupported);
  }
  const auto files = fs->list(options.directory / "volumes");
  if (!files && !(files.error() == Errc::not_found)) return std::unexpected(files.error());
  if (files && !files->empty()) {
    return refuse_device(directory +
                             " has volumes in files. data.device is for a new store: start one beside it and "
                             "copy the buckets (verbena sync)",
                         Errc::unsupported);
  }
  bond = DeviceBond{facts.id, random_device_id()};
  return {};
}

Result<void> Engine::claim_device() {
  if (!device_volumes || device_volumes->superblock().owner == bond->store) return {};
  return device_volumes->set_owner(bond->store);
}

Volumes::Options Engine::volume_options() {
  Volumes::Options out{.directory = options.directory / "volumes",
                       .fs = fs,
                       .volume_size_max = align_down(options.volume_size_max, block_size),
                       .allocate_step = align_up(options.allocate_step),
                       .free_bytes_min = options.free_bytes_min,
                       .open_max = options.open_volumes_max,
                       .keep_free = 0,
                       .prepare_size = options.prepare_size,
                       .prepare_after = options.prepare_after,
                       .next_id = [this] { return next_id(); },
                       .mark_clean = {},
                       .index_directory = options.directory,
                       .index_fs = fs,
                       .discard = {}};
  if (!device_volumes) {
    out.keep_free = space_to_keep();
    return out;
  }
  out.whole = true;
  out.directory = options.device;
  out.fs = device_volumes.get();
  out.volume_size_max = device_volumes->superblock().extent_size;
  out.keep_free = UINT64_MAX;
  out.prepare_size = 0;  // a device has no records of its own to spare
  out.mark_clean = [this](uint64_t id) {
    Batch batch(*index);
    batch.put(Family::meta, keys::volume_clean(id), "");
    return index->write(batch);
  };
  out.discard = [this](uint64_t bytes) { device_volumes->discard(bytes); };
  return out;
}

}  // namespace verbena::store::local
