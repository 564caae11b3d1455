// Start: takes the directory, opens the index, frees the space that no index record names.
//
// Cost: only volumes that were not marked clean are examined, and of those only the space map's keys (one per extent,
// so at most about 50,000 for 1 GiB of the smallest extents). The number of objects does not matter.
//
// Nothing is changed before it is certain that the index has everything acknowledged: if it does not, acknowledged
// bytes would have no owner in its space map. Engine::check_index() and check_volumes() refuse such a start.
#include <algorithm>
#include <charconv>
#include <set>

#include "base/log.h"
#include "store/local/disk_times.h"
#include "store/local/engine.h"
#include "store/local/index_check.h"
#include "store/local/pmem_log.h"
#include "store/local/reader.h"
#include "store/local/recount.h"
#include "store/local/scrub.h"
#include "store/local/seam_env.h"
#include "store/local/version_file.h"
#include "store/local/volume_prepare.h"
#include "store/local/write_behind.h"
#include "store/logic/usage.h"

namespace verbena::store::local {
namespace {

// The most starts that the index may have forgotten because of damage to the log.
constexpr uint64_t starts_forgotten_max = 1024;

}  // namespace

Engine::Engine(Options o) : options(std::move(o)) {}
Engine::~Engine() { stop(); }

Result<void> Engine::start() {
  DiskTimes::get();
  DiskTrouble::get();
  fs = options.fs != nullptr ? options.fs : &real_file_system();
  VB_TRY(open_directory());
  VB_TRY(open_volume_place());
  auto ids = [this] { return next_id(); };
  volumes = std::make_unique<Volumes>(volume_options());
  VB_TRY(map_pmem());
  VB_TRY(open_index());
  VB_TRY(open_pmem());
  garbage = std::make_unique<Garbage>(*index, *volumes, [this](const auto& blobs) { kept.release(blobs); });
  committer = std::make_unique<Committer>(*index, *volumes, *garbage,
                                          Committer::Options{.clock = options.clock, .next_id = ids});
  io = std::make_unique<DataIo>(*options.pool);
  behind = std::make_unique<WriteBehind>(*this);
  supply_seams();
  if (options.accept_data_loss) {
    VB_TRY(abandon_lost_buckets());
    VB_TRY(remove_lost_parts());
  }
  IndexView all(*index, Tier::disk, Visible::newest);
  VB_TRY(load_buckets(all));
  VB_TRY(load_usage());
  VB_TRY(recover_volumes());
  VB_TRY(load_kept_space());
  VB_TRY(queue_dead_blobs());
  VB_TRY(queue_removed_buckets());
  VB_TRY(begin_pmem());
  garbage->start();
  recount = std::make_unique<Recount>(*this);  // it counts the state before the first change
  committer->start();
  VB_TRY(keep_lost_objects());
  recount->start();
  behind->start();
  scrub = std::make_unique<Scrub>(*this);
  scrub->start();
  preparer = std::make_unique<VolumePreparer>(*index, *volumes);
  preparer->start();
  return {};
}

// Connects the logic to the engine.
void Engine::supply_seams() {
  catalogue = std::make_unique<IndexCatalogue>(*this);
  volume_blobs = std::make_unique<VolumeBlobs>(*this);
  rows = catalogue.get();
  blobs = volume_blobs.get();
  early = behind.get();
  clock = options.clock;
  buckets.keep_ends(*clock);
  keeps_usage = true;
  keeps_events = true;
  tells_changes = true;
  whole_put_max = options.inline_max;
}

void Engine::stop() {
  kept.close();
  if (preparer) preparer->stop();
  if (recount) recount->stop();
  if (scrub) scrub->stop();
  if (behind) behind->stop();  // first: it hands its work to the committer
  if (committer) committer->stop();
  leave_pmem();
  if (garbage) garbage->stop();
  end_device();
}

Result<void> Engine::open_directory() {
  const auto& directory = options.directory;
  VB_TRY(fs->make_directory(directory));
  auto held = fs->lock(directory / "LOCK");
  if (!held && held.error() == Errc::would_block) {
    return fail(Errc::service_unavailable, "store: the directory is in use by another process", held.error().sys);
  }
  if (!held) return std::unexpected(held.error());
  lock = std::move(*held);
  had_index = fs->stat(directory / "index" / "CURRENT").has_value();
  auto version = read_small_file(*fs, directory / "VERSION", 1 * KiB);
  if (version) {
    VB_ASSIGN(const VersionFile known, parse_version(*version));
    bond = known.bond;
    had_version = !known.cut;
    // With an index it is a VERSION that was lost: what it named can be confirmed.
    if (known.cut && !had_index) return fail(Errc::malformed, "store: VERSION file: it names no device");
  } else if (!(version.error() == Errc::not_found)) {
    return std::unexpected(version.error());
  }
  VB_TRY(fs->make_directory(directory / "volumes"));
  VB_TRY(fs->make_directory(directory / "index"));
  return {};
}

Result<void> Engine::load_usage() {
  for (const auto& bucket : buckets.all()) {
    auto row = index->get(Family::meta, keys::usage(bucket->id));
    if (!row && !(row.error() == Errc::not_found)) return std::unexpected(row.error());
    if (!row) {
      bucket->set_uncounted(true);
      continue;
    }
    VB_ASSIGN(const Usage usage, decode_usage(*row));
    bucket->count(usage);
  }
  return {};
}

std::unexpected<Error> Engine::refuse(std::string sentence) const {
  log::error("store: {}", sentence);
  if (options.trouble != nullptr) *options.trouble = std::move(sentence);
  return fail(Errc::corrupt_object, "store: acknowledged changes are damaged or missing");
}

// Examines the log before RocksDB does, which would take damage for the end of the log.
Result<LogMode> Engine::check_index(std::vector<std::string>& behind_damage) {
  const auto directory = options.directory / "index";
  const auto first_needed = [&] { return Index::first_log_needed(directory, env.get()); };
  const auto keep = [&](std::string_view batch) {
    if (options.accept_data_loss) behind_damage.emplace_back(batch);
  };
  VB_ASSIGN(const IndexFiles files, check_index_files(*fs, directory, first_needed, keep));
  VB_ASSIGN(const auto ids, volumes->on_disk());
  if (files.fresh && !ids.empty()) {
    return refuse(directory.string() + " holds no index, but " + volumes->place() + " holds " +
                  std::to_string(ids.size()) +
                  " volumes that only an index can read. Nothing was changed. Is a disk not mounted? Otherwise restore "
                  "the index, or move the volumes away to begin anew.");
  }
  if (files.fresh && device_volumes && device_volumes->superblock().generation != 0) {
    return refuse(directory.string() + " holds no index, but this store has used " + volumes->place() +
                  ". Nothing was changed. Is a disk not mounted? Otherwise restore the index from a copy.");
  }
  if (!files.fresh && files.damage.empty() && !had_version && !options.accept_data_loss) {
    return refuse((options.directory / "VERSION").string() +
                  " is missing beside an index, or lacks its second line. Nothing was changed. Restore it, or go on "
                  "with accept_data_loss.");
  }
  if (files.damage.empty()) return files.torn_end ? LogMode::up_to_the_end : LogMode::whole;
  const IndexDamage& first = files.damage.front();
  const std::string where =
      first.file.string() + " is damaged at byte " + std::to_string(first.offset) + ": " + first.what;
  if (!files.log_damaged) {
    return refuse(where + ". Without it the objects are unknown. Nothing was changed. Restore " + directory.string() +
                  " from a copy.");
  }
  const std::string lost = where + ". Changes that were acknowledged are lost there; " +
                           std::to_string(files.changes_behind) + " later ones can be read.";
  if (!options.accept_data_loss) {
    return refuse(lost + " Nothing was changed. Restore the file from a copy, look with `verbena fsck " +
                  options.directory.string() +
                  "`, or go on with what can be read: accept_data_loss (the space of lost objects is freed then).");
  }
  log::error("store: {} accept_data_loss is set: going on", lost);
  return LogMode::around_damage;
}

Result<void> Engine::open_index() {
  if (options.fs != nullptr) env = make_seam_env(*fs);
  std::vector<std::string> behind_damage;
  VB_ASSIGN(const LogMode log, check_index(behind_damage));
  // Before anything is written that an older program would misread; but where there is an index, not before it has
  // confirmed what VERSION is to say about a device.
  if (!had_index) VB_TRY(write_version());
  VB_TRY(fs->sync_directory(options.directory));
  // The directory's own name, too: it may have been made just now.
  auto parent = std::filesystem::absolute(options.directory).parent_path();
  if (auto synced = fs->sync_directory(parent); !synced) log::warn("store: {}", describe(synced.error()));

  std::string trouble;
  auto opened = Index::open({.directory = options.directory / "index",
                             .env = env.get(),
                             .cache_bytes = options.index_cache,
                             .open_files_max = options.open_index_files_max,
                             .log = log,
                             .log_ahead = log_ahead(),
                             .create = true,
                             .trouble = &trouble});
  if (!opened) {
    if (options.trouble != nullptr) *options.trouble = "the index cannot be opened: " + trouble;
    return std::unexpected(opened.error());
  }
  index = std::move(*opened);
  // RocksDB drops the rest of a block after damage in it: the readable batches are written again.
  VB_TRY(index->replay(behind_damage));
  VB_TRY(read_epoch());
  const bool changes_lost = log == LogMode::around_damage;
  if (changes_lost) VB_TRY(resolve_overlaps());
  if (changes_lost) epoch += starts_forgotten_max;
  // Last of what may refuse: a device that was not read well this time, or another directory, may still be right.
  VB_TRY(check_volumes());
  VB_TRY(note_replaced_device());
  if (had_index) VB_TRY(write_version());
  VB_TRY(repair_device());
  Batch batch(*index);
  if (changes_lost) VB_TRY(forget_usages(batch));
  batch.put(Family::meta, keys::epoch(), std::to_string(epoch));
  VB_TRY(index->write(batch));
  VB_TRY(index->sync());
  return take_device();
}

Result<void> Engine::write_version() {
  const auto path = options.directory / "VERSION";
  const auto version = read_small_file(*fs, path, 1 * KiB);
  const bool had_pmem = version && *version == version_text(std::nullopt, /*has_pmem=*/true);
  const std::string text = version_text(bond, pmem != nullptr || had_pmem);
  if (version && *version == text) return {};
  return replace_file(*fs, path, text);
}

Result<void> Engine::read_epoch() {
  VB_ASSIGN(const auto ids, volumes->on_disk());
  auto stored = index->get(Family::meta, keys::epoch());
  if (stored) {
    uint64_t previous = 0;
    auto [end, ec] = std::from_chars(stored->data(), stored->data() + stored->size(), previous);
    if (ec != std::errc()) return fail(Errc::corrupt_object, "store: epoch record");
    epoch = previous + 1;
  } else if (stored.error() == Errc::not_found && ids.empty()) {
    epoch = 1;
  } else if (stored.error() == Errc::not_found) {
    return refuse("the index in " + options.directory.string() + " is empty, but there are " +
                  std::to_string(ids.size()) + " volumes. Nothing was freed. Restore the index from a copy.");
  } else {
    return std::unexpected(stored.error());
  }
  VB_TRY(check_device_row(ids, epoch - 1));
  // Ids are never reused, whatever the index may have forgotten.
  for (const uint64_t id : ids) epoch = std::max(epoch, (id >> 40) + 1);
  epoch = std::max(epoch, options.ids_above == 0 ? 0 : (options.ids_above >> 40) + 1);
  return {};
}

// A volume that the space map names must exist: its file is unlinked only after its last extent is durably gone. Those
// that were lost with a device whose place another one took stay there until their objects are gone.
Result<void> Engine::check_volumes() {
  VB_ASSIGN(const auto ids, volumes->on_disk());
  const std::set<uint64_t> there(ids.begin(), ids.end());
  std::vector<uint64_t> missing;
  Cursor cursor = index->cursor(Family::extents, "");
  while (cursor.valid()) {
    if (cursor.key().empty()) {  // the mark that Index::recover() leaves
      cursor.next();
      continue;
    }
    const auto place = keys::parse_extent(cursor.key());
    if (!place) return fail(Errc::corrupt_object, "store: space map");
    const bool known_as_lost = place->first >> 40 < device_row.lost_before;
    if (!known_as_lost && !there.contains(place->first)) missing.push_back(place->first);
    cursor.seek(keys::extent_prefix(place->first + 1));
  }
  VB_TRY(cursor.status());
  if (missing.empty()) return {};
  const std::string sentence = std::to_string(missing.size()) +
                               " volumes that hold objects are missing, the first is " +
                               volumes->path(missing.front()).string() + ". ";
  if (options.accept_data_loss) {
    log::error("store: {}accept_data_loss is set: going on", sentence);
    return {};
  }
  return refuse(sentence +
                "No space was freed. Is a disk not mounted? Else restore the file from a copy, look with "
                "`verbena fsck " +
                options.directory.string() + "`, or go on without it: accept_data_loss.");
}

Result<void> Engine::recover_volumes() {
  VB_ASSIGN(auto ids, volumes->on_disk());
  Batch batch(*index);
  for (uint64_t id : ids) {
    auto clean = index->get(Family::meta, keys::volume_clean(id));
    if (clean) continue;
    if (!(clean.error() == Errc::not_found)) return std::unexpected(clean.error());
    VB_TRY(recover_volume(id));
    batch.put(Family::meta, keys::volume_clean(id), "");
  }
  if (batch.empty()) return {};
  return index->write(batch);
}

// Punches the gaps between the space map's extents, and cuts off everything after them. Reads all of the map first.
Result<void> Engine::recover_volume(uint64_t id) {
  VB_ASSIGN(auto volume, volumes->open(id));
  VB_ASSIGN(FileStat stat, volume->file().stat());
  uint64_t end = 0, punched = 0;
  std::vector<std::pair<uint64_t, uint64_t>> gaps;  // offset, length
  Cursor cursor = index->cursor(Family::extents, keys::extent_prefix(id));
  for (; cursor.valid(); cursor.next()) {
    auto place = keys::parse_extent(cursor.key());
    VB_ASSIGN(ExtentOwner owner, decode_extent_owner(cursor.value()));
    if (!place) return fail(Errc::corrupt_object, "store: space map");
    if (place->second > end) gaps.emplace_back(end, place->second - end);
    end = std::max(end, place->second + owner.length);
  }
  VB_TRY(cursor.status());
  for (const auto& [offset, length] : gaps) {
    auto hole = volume->file().punch(offset, length);
    if (!hole && !(hole.error() == Errc::unsupported)) return hole;
    punched += length;
  }
  if (stat.size < end) {
    log::error("store: volume {:016x} ends at {} where the index names bytes up to {}", id, stat.size, end);
  } else {
    // Even if the size is right: blocks may have been reserved past the end.
    VB_TRY(volume->file().truncate(end));
  }
  VB_TRY(volume->sync_holes());
  log::info("store: recovered volume {:016x}: {} in use, {} of gaps freed", id, format_size(end - punched),
            format_size(punched));
  garbage->reconsider(id);
  return {};
}

LogAheadOptions Engine::log_ahead() const {
  const bool in_place = fs->overwrites_in_place(options.directory / "index", nullptr);
  return {.fs = fs, .step = in_place ? options.log_ahead : 0, .free_bytes_min = options.free_bytes_min};
}

// 0: freed space goes back to the file system at once.
uint64_t Engine::space_to_keep() const {
  if (options.keep_free == 0) return 0;
  std::string name;
  if (fs->overwrites_in_place(options.directory / "volumes", &name)) {
    log::info("store: on {}: up to {} of freed space is kept and used again in place", name,
              format_size(options.keep_free));
    return options.keep_free;
  }
  log::info("store: on {}, which does not overwrite in place: freed space goes back to it at once", name);
  return 0;
}

// The volumes' free space is what the space map does not name. Only a start that may have kept some leaves any. One
// that keeps some looks at the volumes in any case: of what was dead at a crash, a start that kept none may have given
// the blocks back, and only their removal from the index was lost.
Result<void> Engine::load_kept_space() {
  const std::string mark = keys::space_kept();
  const auto marked = index->get(Family::meta, mark);
  if (!marked && !(marked.error() == Errc::not_found)) return std::unexpected(marked.error());
  const bool keeps = volumes->keeps_any();
  if (!marked && !keeps) return {};
  if (!marked) {
    Batch batch(*index);
    batch.put(Family::meta, mark, "");
    VB_TRY(index->write(batch));
    VB_TRY(index->sync());
  }
  VB_ASSIGN(const auto ids, volumes->on_disk());
  garbage->load_later(ids, [this, keeps, mark] {
    if (keeps) return;
    Batch batch(*index);
    batch.erase(Family::meta, mark);
    (void)index->write(batch);
  });
  return {};
}

Result<void> Engine::queue_dead_blobs() {
  std::vector<uint64_t> blobs;
  Cursor cursor = index->cursor(Family::meta, keys::dead_prefix());
  for (; cursor.valid(); cursor.next()) {
    auto blob = keys::parse_dead(cursor.key());
    if (!blob) return fail(Errc::corrupt_object, "store: dead record");
    blobs.push_back(*blob);
  }
  VB_TRY(cursor.status());
  garbage->add_dead(blobs, /*durable=*/true);
  return {};
}

Result<void> Engine::queue_removed_buckets() {
  Cursor cursor = index->cursor(Family::meta, keys::removed_bucket_prefix());
  for (; cursor.valid(); cursor.next()) {
    auto bucket = keys::parse_removed_bucket(cursor.key());
    if (!bucket) return fail(Errc::corrupt_object, "store: removed bucket record");
    garbage->add_removed_bucket(*bucket);
  }
  return cursor.status();
}

}  // namespace verbena::store::local
