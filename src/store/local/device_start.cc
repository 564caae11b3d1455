// The start's part for volumes on a device: which device, whether it is this store's and of the same time as the index,
// and when it becomes the store's.
//
// A store takes a device that was formatted and has no owner. First VERSION names the device, then the index's row,
// then the superblock names the store; a crash before the last leaves a device without an owner that VERSION names, and
// the next start goes on.
//
// An index that is older than the device (a directory that was restored from a copy) would free the space of everything
// newer, and an older device has other bytes than the index names. Where the numbers of device_bond.h tell, both are
// refused before anything is changed.
//
// A device that is lost for good may be replaced by an empty one (accept_data_loss). Then the index's row is first, so
// that a crash leaves a VERSION of the old device and a new one without an owner: the next start does the same. The row
// also says from then on which volumes are lost with the old device, so no later start has to be told.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "store/local/batch.h"
#include "store/local/engine.h"
#include "store/local/version_file.h"
#include "store/local/volume_name.h"

namespace verbena::store::local {

std::unexpected<Error> Engine::refuse_device(std::string sentence, Errc code) const {
  log::error("store: {}", sentence);
  if (options.trouble != nullptr) *options.trouble = std::move(sentence);
  return fail(code, "store: the device of the volumes");
}

// Refuses, unless accept_data_loss is set. `lost`: what is, if the store goes on.
Result<void> Engine::warn_of_loss(const std::string& sentence, std::string_view lost) const {
  if (!options.accept_data_loss) {
    return refuse_device(
        sentence + " Nothing was changed. " + std::string(lost) + " is lost if the store goes on: accept_data_loss.",
        Errc::corrupt_object);
  }
  log::error("store: {} accept_data_loss is set: going on", sentence);
  return {};
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
  const std::string name = options.device.string();
  VB_TRY(check_no_files());
  std::string trouble;
  auto file = fs->open_device(options.device, /*write=*/true, trouble);
  if (!file) return refuse_device("data.device: " + trouble, file.error().code);
  VB_TRY(check_others(**file));
  auto opened = DeviceVolumes::open(name, std::move(*file), trouble);
  if (!opened && opened.error() == Errc::not_found) return refuse_without_superblock(trouble);
  if (!opened) return refuse_device("data.device: " + trouble, opened.error().code);
  device_volumes = std::move(*opened);
  VB_TRY(check_bond());
  if (device_volumes->begin_overwritten()) {
    VB_TRY(warn_of_loss("the begin of " + name + " was overwritten by another program.",
                        "What it has overwritten of the objects, too,"));
  }
  volume_fs = device_volumes.get();
  const Superblock& facts = device_volumes->superblock();
  log::info("store: volumes on {} (id {}): {} in {} extents of {}, {} in use", name, to_text(facts.id),
            format_size(facts.extents * facts.extent_size), facts.extents, format_size(facts.extent_size),
            device_volumes->volumes());
  return {};
}

// Only where there is no store at all is the sentence followed by the command that makes a device empty.
std::unexpected<Error> Engine::refuse_without_superblock(const std::string& sentence) const {
  const std::string name = options.device.string(), directory = options.directory.string();
  if (bond) {
    return refuse_device("data.device: " + name + " holds no volumes, and those of " + directory +
                             " are on a device (id " + to_text(bond->device) +
                             "). Nothing was changed. Is it the right one? Its superblock is missing",
                         Errc::corrupt_object);
  }
  if (had_index) {
    return refuse_device(
        "data.device: " + sentence + ". Nothing was changed. " + directory + " has a store: is it the right device?",
        Errc::corrupt_object);
  }
  return refuse_device("data.device: " + sentence + ". For a new store run: verbena device format " + name,
                       Errc::not_found);
}

// Whatever VERSION and the device say: on a device that is another store's, the volumes of this one would be missing,
// and those of the other one without an owner, and freed.
Result<void> Engine::check_no_files() const {
  const auto files = fs->list(options.directory / "volumes");
  if (!files && !(files.error() == Errc::not_found)) return std::unexpected(files.error());
  if (!files ||
      std::ranges::none_of(*files, [](const auto& name) { return parse_volume_file_name(name).has_value(); })) {
    return {};
  }
  return refuse_device(options.directory.string() +
                           " has volumes in files. data.device is for a new store: start one beside it and copy the "
                           "buckets (verbena sync)",
                       Errc::unsupported);
}

// A program that does not know the format may have made the device its own since: its bytes are not overwritten, and
// what it has overwritten is not trusted.
Result<void> Engine::check_others(File& file) const {
  const auto others = file.foreign_contents();
  if (!others) {
    const std::string sentence =
        "whether " + options.device.string() + " holds data of other programs cannot be told: " + others.error() + ". ";
    if (!options.accept_data_loss) {
      return refuse_device(
          "data.device: " + sentence + "Nothing was changed. Mend that, or go on with accept_data_loss",
          Errc::unsupported);
    }
    log::error("store: {}accept_data_loss is set: going on", sentence);
    return {};
  }
  if (others->empty()) return {};
  return refuse_device("data.device: " + options.device.string() + " holds " + *others +
                           ", which another program has made. Nothing was changed. If it is not that program's disk, "
                           "look with `verbena device show`, and remove what does not belong there (wipefs)",
                       Errc::corrupt_object);
}

Result<void> Engine::check_bond() {
  const Superblock& facts = device_volumes->superblock();
  const std::string name = options.device.string(), directory = options.directory.string();
  if (!bond) return find_new_bond();
  if (facts.id != bond->device) return replace_device();
  if (facts.owner == bond->store) return {};
  if (!facts.owned() && device_volumes->volumes() == 0) return {};  // it is claimed when VERSION is durable
  return refuse_device(name + " has the volumes of another store than " + directory + ". Nothing was changed",
                       Errc::corrupt_object);
}

// Where the device is lost for good, an empty one takes its place: names, heads and small objects are in the index.
Result<void> Engine::replace_device() {
  const Superblock& facts = device_volumes->superblock();
  const std::string directory = options.directory.string();
  const std::string sentence = options.device.string() + " is another device (id " + to_text(facts.id) +
                               ") than that of " + directory + " (id " + to_text(bond->device) +
                               "), or was formatted since.";
  if (facts.owned() || device_volumes->volumes() != 0 || !had_index) {
    return refuse_device(sentence + " Nothing was changed", Errc::corrupt_object);
  }
  VB_TRY(warn_of_loss(sentence, "All that " + directory + " has on the other device"));
  lost_bond = std::exchange(bond, DeviceBond{facts.id, random_device_id()});
  return {};
}

// VERSION names a device, as far as the superblock knows: it was lost, cut, or replaced by one of another store. The
// index's row confirms it before anything is changed (check_device_row).
std::unexpected<Error> Engine::refuse_lost_bond(const DeviceBond& its) const {
  const std::string name = options.device.string(), version = (options.directory / "VERSION").string();
  const std::string what = had_version ? " names no device" : " is missing beside an index, or lacks its second line";
  return refuse_device(version + what + ". Nothing was changed. If " + name +
                           " has this store's volumes, and not another store's, restore the file with these two lines, "
                           "or go on with accept_data_loss:\n" +
                           version_text(its, /*has_pmem=*/false),
                       Errc::corrupt_object);
}

// VERSION names no device. A device that has an owner is not offered to another one, since the directory that belongs
// to it may only not be mounted, or have lost its VERSION.
Result<void> Engine::find_new_bond() {
  const Superblock& facts = device_volumes->superblock();
  const std::string name = options.device.string(), directory = options.directory.string();
  const bool used = facts.owned() || device_volumes->volumes() != 0;
  if (used && had_index) {
    const DeviceBond its{facts.id, facts.owner};
    if (!options.accept_data_loss) return refuse_lost_bond(its);
    log::error("store: {}/VERSION names no device: accept_data_loss is set: going on with {}", directory, name);
    bond = its;
    bond_adopted = true;
    return {};
  }
  if (used) {
    return refuse_device(name + " has the volumes of another store (device id " + to_text(facts.id) + "), and " +
                             directory +
                             " has no store. Nothing was changed. Is the disk of the data directory not mounted?",
                         Errc::unsupported);
  }
  bond = DeviceBond{facts.id, random_device_id()};
  return {};
}

// Before the index, or the device, is changed. `ids`: of the volumes; `starts`: how many the index knows.
Result<void> Engine::check_device_row(const std::vector<uint64_t>& ids, uint64_t starts) {
  const auto row = index->get(Family::meta, keys::device());
  if (!row && !(row.error() == Errc::not_found)) return std::unexpected(row.error());
  const std::string directory = options.directory.string(), name = options.device.string();
  if (!device_volumes) {
    if (!row) return {};
    return refuse_device("the volumes of " + directory + " are on a device: set data.device", Errc::unsupported);
  }
  const Superblock& facts = device_volumes->superblock();
  device_row = {.bond = *bond, .generation = facts.generation};
  if (!row) {
    if (bond_adopted || lost_bond) {
      return refuse_device("the index of " + directory + " is of no store on a device. Nothing was changed",
                           Errc::unsupported);
    }
    if (facts.generation == 0) return {};
    // An index of before the store took the device has nothing on it: to go on would only free what others have there.
    return refuse_device("the index of " + directory + " knows nothing of " + name +
                             ", which the store has used: it is older, or another one. Nothing was changed",
                         Errc::corrupt_object);
  }
  VB_ASSIGN(const DeviceRow known, decode_device_row(*row));
  // A crash between row and VERSION leaves a row that names the new device.
  const bool of_the_lost_one = lost_bond && (known.bond == *lost_bond || known.bond.device == facts.id);
  if (of_the_lost_one) return {};
  if (known.bond != *bond) {
    return refuse_device("the index of " + directory + " belongs to another device (id " + to_text(known.bond.device) +
                             ") or store than " + name + ". Nothing was changed",
                         Errc::corrupt_object);
  }
  device_row.generation = std::max(known.generation, facts.generation);
  device_row.confirmed = known.confirmed;
  device_row.lost_before = known.lost_before;
  const std::string apart = why_apart(known, facts, device_volumes->changes(), "the index of " + directory, name);
  if (!apart.empty()) return warn_of_loss(apart + ". Was one of them restored from a copy?");
  const auto later = std::ranges::find_if(ids, [&](uint64_t id) { return id >> 40 > starts; });
  if (later == ids.end()) return {};
  return warn_of_loss("the index of " + directory + " is older than " + name +
                      ", which has volumes of a later start. Was it restored from a copy?");
}

// Before VERSION names the new device. All volumes that the index names are of earlier starts, and lost.
Result<void> Engine::note_replaced_device() {
  if (!lost_bond) return {};
  device_row.lost_before = epoch;
  return note_generation(0, 0);
}

Result<void> Engine::repair_device() {
  if (!device_volumes) return {};
  auto repaired = device_volumes->repair();
  return repaired ? repaired : cannot_write(repaired.error());
}

std::unexpected<Error> Engine::cannot_write(const Error& why) const {
  return refuse_device(options.device.string() + " does not take its superblock or table: " + describe(why), why.code);
}

Result<void> Engine::take_device() {
  if (!device_volumes) return {};
  writes_of_generation = device_volumes->writes();
  if (auto begun = begin_generation(); !begun) {
    return device_volumes->failed() ? cannot_write(begun.error()) : std::move(begun);
  }
  device_volumes->note_changes([this](const DeviceVolumes::Change& change) { return note_change(change); });
  next_generation = SteadyClock::now() + options.device_generation_after;
  device_taken = true;
  return {};
}

// --- Generations (device_bond.h) ---

Result<void> Engine::begin_generation() {
  const auto before = [this](uint64_t generation, uint64_t changes) {
    device_row.generation = generation;
    return note_generation(device_row.confirmed, changes);
  };
  const auto after = [this](uint64_t generation, uint64_t changes) { return note_generation(generation, changes); };
  return device_volumes->set_owner(device_row.bond.store, device_row.generation + 1, before, after);
}

Result<void> Engine::note_generation(uint64_t confirmed, uint64_t changes) {
  device_row.confirmed = confirmed;
  device_row.changes = changes;
  Batch batch(*index);
  batch.put(Family::meta, keys::device(), encode(device_row));
  VB_TRY(index->write(batch));
  return index->sync();
}

// A volume that was made is clean: nothing of it is examined at a start.
Result<void> Engine::note_change(const DeviceVolumes::Change& change) {
  device_row.changes = change.number;
  Batch batch(*index);
  batch.put(Family::meta, keys::device(), encode(device_row));
  if (change.made) {
    batch.put(Family::meta, keys::volume_clean(change.volume), "");
  } else {
    batch.erase(Family::meta, keys::volume_clean(change.volume));
  }
  VB_TRY(index->write(batch));
  return index->sync();
}

// About once a second.
void Engine::tend_device(uint64_t bytes) {
  device_volumes->discard(bytes);
  if (SteadyClock::now() >= next_generation) begin_written_generation();
}

// Nothing is written after it.
void Engine::end_device() {
  if (std::exchange(device_taken, false)) begin_written_generation();
}

// After nothing was written an old copy is as good as the new one.
void Engine::begin_written_generation() {
  const uint64_t writes = device_volumes->writes();
  if (device_volumes->failed() || writes == writes_of_generation) return;
  next_generation = SteadyClock::now() + options.device_generation_after;
  if (auto begun = begin_generation(); !begun) {
    log::warn("store: {}: no new generation: {}", options.device.string(), describe(begun.error()));
    return;
  }
  writes_of_generation = writes;
}

namespace {

// What the store holds back is much of a small disk, so that it is full sooner than its size says.
void note_small_disk(const std::filesystem::path& directory, uint64_t free_bytes_min, uint64_t kept) {
  constexpr uint64_t small = 4 * GiB;
  std::error_code unknown;
  const auto space = std::filesystem::space(directory, unknown);
  if (unknown || space.capacity >= small) return;
  log::warn("store: the file system of {} has {}: PUTs are refused when less than {} are free{}", directory.string(),
            format_size(space.capacity), format_size(free_bytes_min),
            kept == 0 ? "" : fmt::format(", and up to {} of freed space is kept", format_size(kept)));
}

}  // namespace

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
                       .index_directory = options.directory,
                       .index_fs = fs,
                       .failed = {},
                       .tend = {}};
  if (!device_volumes) {
    out.keep_free = space_to_keep();
    note_small_disk(options.directory, out.free_bytes_min, out.keep_free);
    return out;
  }
  note_small_disk(options.directory, out.free_bytes_min, /*kept=*/0);  // the index's
  out.whole = true;
  out.directory = options.device;
  out.fs = device_volumes.get();
  out.volume_size_max = device_volumes->superblock().extent_size;
  out.keep_free = UINT64_MAX;
  out.prepare_size = 0;          // a device has no records of its own to spare
  out.pieces_max = 1024 * 1024;  // what is more cannot be given back
  out.failed = [this] { return device_volumes->failed(); };
  out.tend = [this](uint64_t bytes) { tend_device(bytes); };
  return out;
}

}  // namespace verbena::store::local
