#include "store/local/fsck.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>

#include "base/checksum.h"
#include "store/local/device_bond.h"
#include "store/local/device_volumes.h"
#include "store/local/index.h"
#include "store/local/index_check.h"
#include "store/local/record.h"
#include "store/local/seam_env.h"
#include "store/local/version_file.h"
#include "store/local/volume_name.h"
#include "store/logic/usage.h"

namespace verbena::store::local {
namespace {

constexpr size_t fsck_read_size = 1 * MiB;  // a multiple of block_size
constexpr size_t open_volumes_max = 64;
constexpr uint64_t index_cache = 32 * MiB;

std::filesystem::path volume_path(const std::filesystem::path& directory, uint64_t id) {
  return directory / "volumes" / volume_file_name(id);
}

// The volumes' bytes.
class Data {
 public:
  Data(FileSystem& fs, std::filesystem::path directory) : fs_(&fs), directory_(std::move(directory)) {}
  void read_from(FileSystem& device) { fs_ = &device; }

  // The defect of `length` bytes of a blob whose blocks have these checksums; "" if none.
  std::string check(const Extent& extent, uint64_t length, const uint32_t* crcs) {
    const Volume* volume = open(extent.volume);
    if (volume->file == nullptr) return volume_file_name(extent.volume) + ": " + volume->trouble;
    if (extent.offset > volume->size || extent.length > volume->size - extent.offset) {
      return fmt::format("{} ends at byte {}, before the object's bytes at {}", volume_file_name(extent.volume),
                         volume->size, extent.offset);
    }
    memory_.resize(fsck_read_size);
    for (uint64_t done = 0; done < length; done += fsck_read_size) {
      const MutableBytes into(memory_.data(), std::min<uint64_t>(fsck_read_size, length - done));
      if (auto read = read_fully(*volume->file, into, extent.offset + done); !read) {
        return volume_file_name(extent.volume) + ": " + describe(read.error());
      }
      for (size_t at = 0; at < into.size(); at += block_size) {
        const Bytes block = Bytes(into).subspan(at, std::min<size_t>(block_size, into.size() - at));
        if (crc32c(block) == crcs[(done + at) / block_size]) continue;
        return fmt::format("{}: the block at byte {} fails its checksum", volume_file_name(extent.volume),
                           extent.offset + done + at);
      }
    }
    return "";
  }

 private:
  struct Volume {
    std::unique_ptr<File> file;
    uint64_t size = 0;
    std::string trouble;
  };

  const Volume* open(uint64_t id) {
    if (const auto found = open_.find(id); found != open_.end()) return &found->second;
    if (open_.size() >= open_volumes_max) open_.clear();
    Volume& volume = open_[id];
    auto file = fs_->open(volume_path(directory_, id), {});
    if (!file) {
      volume.trouble = file.error() == Errc::not_found ? "the file is missing" : describe(file.error());
      return &volume;
    }
    const auto stat = (*file)->stat();
    if (stat) volume.size = stat->size;
    volume.file = std::move(*file);
    return &volume;
  }

  FileSystem* fs_;
  const std::filesystem::path directory_;
  std::map<uint64_t, Volume> open_;
  std::vector<std::byte> memory_;
};

class Check {
 public:
  Check(const FsckOptions& options, FileSystem& fs) : options_(options), fs_(fs), data_(fs, options.directory) {}

  Result<FsckReport> run() {
    VB_ASSIGN(auto lock, take_store());
    VB_TRY(open_device());
    if (options_.fs != nullptr) env_ = make_seam_env(fs_);
    VB_ASSIGN(const bool opened, open_index());
    if (!opened) return std::move(report_);
    std::string trouble;
    if (!index_->check_tables(trouble)) wrong("A table of the index is damaged: " + trouble);
    VB_TRY(check_device());
    report_.has_pmem_log = index_->get(Family::meta, keys::pmem_log()).has_value();
    walk_buckets();
    index_is_whole_ = report_.index.empty();
    for (const auto& [id, name] : buckets_) walk_bucket(id, name);
    walk_dead();
    walk_space();
    return std::move(report_);
  }

 private:
  Result<std::unique_ptr<FileLock>> take_store() {
    // Taking the lock would create one where there is no store. A store that has lost its VERSION is still a store.
    auto there = fs_.stat(options_.directory / "VERSION");
    if (!there) there = fs_.stat(options_.directory / "index" / "CURRENT");
    if (!there) there = fs_.stat(options_.directory / "volumes");
    if (!there) return std::unexpected(there.error());
    auto lock = fs_.lock(options_.directory / "LOCK");
    if (!lock && lock.error() == Errc::would_block) {
      return fail(Errc::service_unavailable, "a server has the store open");
    }
    return lock;
  }

  std::unexpected<Error> cannot(std::string sentence, Errc code) const {
    if (options_.trouble != nullptr) *options_.trouble = std::move(sentence);
    return fail(code, "fsck: the device of the volumes");
  }

  // Where VERSION names one. If it is lost, or says that there is none, the index decides (check_device).
  Result<void> open_device() {
    const auto version = read_small_file(fs_, options_.directory / "VERSION", 1 * KiB);
    const auto known = version ? parse_version(*version) : Result<VersionFile>(VersionFile{});
    if (!known) return std::unexpected(known.error());
    bond_ = known->bond;
    if (known->cut) wrong("VERSION lacks its second line, which names the device.");
    const std::string name = options_.device.string();
    if (!bond_ && name.empty()) return {};
    names_none_ = !bond_ && version && !known->cut;
    if (name.empty()) {
      return cannot("this store's volumes are on a device (id " + to_text(bond_->device) + "): name it with --device",
                    Errc::invalid_argument);
    }
    std::string trouble;
    auto file = fs_.open_device(name, /*write=*/false, trouble);
    if (!file) return cannot(trouble, file.error().code);
    const auto others = (*file)->foreign_contents();
    auto opened = DeviceVolumes::open(name, std::move(*file), trouble);
    if (!opened && opened.error() == Errc::not_found && bond_) {
      return cannot(name + " holds no volumes, and those of this store are on a device (id " + to_text(bond_->device) +
                        "). Its superblock is missing",
                    Errc::corrupt_object);
    }
    if (!opened) return cannot(trouble, opened.error().code);
    device_ = std::move(*opened);
    const Superblock& facts = device_->superblock();
    if (bond_ && (facts.id != bond_->device || (facts.owned() && facts.owner != bond_->store))) {
      return cannot(name + " is another device than this store's (id " + to_text(bond_->device) + ")",
                    Errc::invalid_argument);
    }
    report_.device = device_->defects();
    if (!others) report_.refusals.push_back("whether other programs have it cannot be told: " + others.error());
    if (others && !others->empty()) report_.refusals.push_back("it holds " + *others + " of another program");
    if (device_->begin_overwritten()) report_.refusals.push_back("its begin was overwritten by another program");
    data_.read_from(*device_);
    return {};
  }

  // Once the index is open.
  Result<void> check_device() {
    const auto row = index_->get(Family::meta, keys::device());
    if (!row && !(row.error() == Errc::not_found)) return std::unexpected(row.error());
    if (!row) {
      if (names_none_) {
        return cannot("VERSION and the index say that this store's volumes are files, and not on " + device_->name(),
                      Errc::invalid_argument);
      }
      if (device_ && device_->superblock().generation != 0) wrong("The index does not know the device.");
      return {};
    }
    if (!device_) {
      return cannot("this store's volumes are on a device: name it with --device", Errc::invalid_argument);
    }
    const auto known = decode_device_row(*row);
    if (!known) {
      wrong("The record of the device is damaged.");
      return {};
    }
    const Superblock& facts = device_->superblock();
    if (known->bond.device != facts.id || (facts.owned() && known->bond.store != facts.owner)) {
      return cannot(device_->name() + " is another device than this index's (id " + to_text(known->bond.device) + ")",
                    Errc::invalid_argument);
    }
    lost_before_ = known->lost_before;
    if (names_none_) wrong("VERSION names no device.");
    const std::string apart = why_apart(*known, facts, device_->changes(), "the index", device_->name());
    if (!apart.empty()) wrong("Index and device are not of one time: " + apart + ".");
    return {};
  }

  // A volume of the space map that the device's table does not have. Of those that were lost with an earlier device the
  // objects alone are told.
  void check_in_table(uint64_t volume) {
    if (device_ == nullptr || volume >> 40 < lost_before_ || device_->stat(volume_file_name(volume))) return;
    wrong(fmt::format("Volume {:016x} holds objects, and the device's table does not have it.", volume));
  }

  FileSystem& volume_fs() { return device_ ? static_cast<FileSystem&>(*device_) : fs_; }

  // False: there is no index to walk.
  Result<bool> open_index() {
    const auto directory = options_.directory / "index";
    const auto first_needed = [&] { return Index::first_log_needed(directory, env_.get()); };
    VB_ASSIGN(const IndexFiles files, check_index_files(fs_, directory, first_needed));
    const bool empty = files.fresh || (files.damage.empty() && Index::is_unfinished(directory, env_.get()));
    const auto volumes = volume_fs().list(options_.directory / "volumes");
    const bool has_volumes = volumes && !volumes->empty();
    if (!fs_.stat(options_.directory / "VERSION")) {
      // A power loss may end the first start after the folder of volumes and before VERSION.
      if (empty && !has_volumes) return fail(Errc::not_found, "there is no store yet");
      wrong("VERSION is missing.");
    }
    for (const IndexDamage& damage : files.damage) {
      wrong(fmt::format("{} is damaged at byte {}: {}.", damage.file.string(), damage.offset, damage.what));
    }
    report_.changes_behind_damage = files.changes_behind;
    report_.torn_end = files.torn_end;
    if (empty && names_none_) {
      return cannot("VERSION says that this store's volumes are files, and not on " + device_->name() +
                        ", and there is no index that could say otherwise",
                    Errc::invalid_argument);
    }
    if (empty) {
      if (has_volumes) {
        wrong(fmt::format("There is no index, but {} volumes that only an index can read.", volumes->size()));
      } else if (device_ && device_->superblock().generation != 0) {
        wrong("There is no index, but " + device_->name() + ", which this store has used.");
      }
      return false;
    }
    if (!files.damage.empty() && !files.log_damaged) return false;
    std::string trouble;
    auto opened = Index::open({.directory = directory,
                               .env = env_.get(),
                               .cache_bytes = index_cache,
                               .log = files.log_damaged ? LogMode::around_damage
                                      : files.torn_end  ? LogMode::up_to_the_end
                                                        : LogMode::whole,
                               .read_only = true,
                               .trouble = &trouble});
    if (!opened) {
      wrong("The index cannot be opened: " + trouble + ".");
      return false;
    }
    index_ = std::move(*opened);
    return true;
  }

  void wrong(std::string sentence) {
    if (report_.index.size() < FsckReport::names_max) report_.index.push_back(std::move(sentence));
  }
  void lose(const std::string& name, std::string why) {
    ++report_.lost_count;
    if (report_.lost.size() < FsckReport::names_max) report_.lost.push_back({name, std::move(why)});
  }
  void ended(const Cursor& cursor, const char* what) {
    if (auto state = cursor.status(); !state) wrong(fmt::format("The {} cannot all be read.", what));
  }

  void walk_buckets() {
    Cursor cursor = index_->cursor(Family::meta, keys::bucket_prefix());
    for (; cursor.valid(); cursor.next()) {
      const auto record = decode_bucket(cursor.value());
      if (!record) {
        wrong("The record of bucket " + std::string(cursor.key().substr(1)) + " is damaged.");
        continue;
      }
      buckets_[record->id] = record->info.name.empty() ? std::string(cursor.key().substr(1)) : record->info.name;
    }
    ended(cursor, "buckets");
    report_.buckets = buckets_.size();
    walk_documents();
  }

  void walk_documents() {
    std::set<uint64_t> strays;
    Cursor cursor = index_->cursor(Family::meta, keys::document_prefix());
    for (; cursor.valid(); cursor.next()) {
      const auto key = keys::parse_document(cursor.key());
      if (!key) wrong("The record of a document of a bucket is damaged.");
      if (key && !buckets_.contains(key->first)) strays.insert(key->first);
    }
    ended(cursor, "documents of buckets");
    if (strays.empty()) return;
    wrong(
        fmt::format("{} buckets have documents and no record. A start with accept_data_loss removes what is left of "
                    "them.",
                    strays.size()));
  }

  void walk_bucket(uint64_t id, const std::string& bucket) {
    const uint64_t lost_before = report_.lost_count;
    usage_ = {};
    walk_rows(id, bucket);
    // Records that cannot be read have an unknown share of the count; after damage of the log the next start counts
    // again.
    if (report_.lost_count == lost_before && index_is_whole_) check_usage(id, bucket);
  }

  void check_usage(uint64_t id, const std::string& bucket) {
    const auto row = index_->get(Family::meta, keys::usage(id));
    if (!row && row.error() == Errc::not_found) return;  // the next start counts it
    const auto kept = row ? decode_usage(*row) : Result<Usage>(std::unexpected(row.error()));
    if (!kept) return wrong("The record of what bucket " + bucket + " holds is damaged.");
    if (*kept == usage_) return;
    wrong(fmt::format("Bucket {} is counted with {} objects, versions and uploads of {} bytes, but holds {} of {}.",
                      bucket, kept->all_objects(), kept->all_bytes(), usage_.all_objects(), usage_.all_bytes()));
  }

  void walk_rows(uint64_t id, const std::string& bucket) {
    const std::string prefix = keys::object_prefix(id);
    Cursor objects = index_->cursor(Family::objects, prefix);
    for (; objects.valid(); objects.next()) {
      ++report_.objects;
      check_record(bucket + "/" + std::string(objects.key().substr(prefix.size())), objects.value(), as_current);
    }
    ended(objects, "objects");
    Cursor versions = index_->cursor(Family::versions, keys::version_bucket(id));
    for (; versions.valid(); versions.next()) {
      ++report_.old_versions;
      const auto key = keys::parse_version(versions.key());
      const auto record = decode_object(versions.value());
      const std::string version = record && !record->info.version_id.empty() ? record->info.version_id : "null";
      check_record(bucket + "/" + (key ? key->first : "?") + " version " + version, versions.value(), as_version);
    }
    ended(versions, "versions");
    Cursor uploads = index_->cursor(Family::uploads, keys::upload_prefix(id));
    for (; uploads.valid(); uploads.next()) {
      const auto key = keys::parse_upload(uploads.key());
      const auto record = decode_upload(uploads.value());
      const std::string name = bucket + "/" + (key ? key->first + " upload " + key->second : "?");
      if (!record) {
        lose(name, "its record is damaged");
        continue;
      }
      usage_ += {.uploads = 1};
      walk_parts(record->id, name);
    }
    ended(uploads, "uploads");
  }

  void walk_parts(uint64_t upload, const std::string& name) {
    Cursor cursor = index_->cursor(Family::uploads, keys::part_prefix(upload));
    for (; cursor.valid(); cursor.next()) {
      ++report_.parts;
      const auto part = decode_part(cursor.value());
      if (!part) {
        lose(name, "the record of a part is damaged");
        continue;
      }
      usage_ += as_parts(part->info.size);
      if (auto why = check_blob(part->blob); !why.empty()) {
        lose(name + " part " + std::to_string(part->info.number), std::move(why));
      }
    }
    ended(cursor, "parts");
  }

  void check_record(const std::string& name, std::string_view value, Usage (*counts_as)(const ObjectRecord&)) {
    const auto record = decode_object(value);
    if (!record) return lose(name, "its record is damaged");
    usage_ += counts_as(*record);
    if (record->part_count == 0) {
      if (auto why = check_blob(record->blob); !why.empty()) lose(name, std::move(why));
      return;
    }
    const auto stored = index_->get(Family::uploads, keys::object_parts(record->id));
    if (!stored) return lose(name, "the list of its parts is missing");
    const auto parts = decode_parts(*stored);
    if (!parts || parts->size() != record->part_count) return lose(name, "the list of its parts is damaged");
    std::string why;
    for (const StoredPart& part : *parts) {
      auto of_part = check_blob(part.blob);  // check all: each blob has an owner
      if (why.empty()) why = std::move(of_part);
    }
    if (!why.empty()) lose(name, std::move(why));
  }

  std::string check_blob(const BlobRef& blob) {
    report_.bytes += blob.size;
    if (blob.kind == BlobKind::empty) return blob.size == 0 ? "" : "its record is damaged";
    named_.insert(blob.id);
    if (blob.kind == BlobKind::in_index) return check_in_index(blob);
    std::string why;
    for (uint64_t at = 0; at < blob.size; at += segment_size) {
      auto of_segment = check_segment(blob, at);
      if (why.empty()) why = std::move(of_segment);
    }
    return why;
  }

  std::string check_in_index(const BlobRef& blob) {
    const auto value = index_->get(Family::in_index, keys::in_index(blob.id));
    if (!value)
      return value.error() == Errc::not_found ? "its bytes are missing in the index" : "its bytes cannot be read";
    const auto bytes = decode_inline(*value);
    return bytes && bytes->size() == blob.size ? "" : "its bytes fail their checksum";
  }

  std::string check_segment(const BlobRef& blob, uint64_t at) {
    const auto value = index_->get(Family::segments, keys::segment(blob.id, static_cast<uint32_t>(at / segment_size)));
    if (!value) return value.error() == Errc::not_found ? "its extents are missing" : "its extents cannot be read";
    const auto segment = decode_segment(*value);
    const uint64_t length = std::min(segment_size, blob.size - at);
    if (!segment || segment->block_crcs.size() != (length + block_size - 1) / block_size) {
      return "the record of its extents is damaged";
    }
    uint64_t done = 0;
    for (const Extent& extent : segment->extents) {
      if (done >= length || done % block_size != 0 || extent.length == 0) return "the record of its extents is damaged";
      const auto owner = index_->get(Family::extents, keys::extent(extent.volume, extent.offset));
      const auto decoded = owner ? decode_extent_owner(*owner) : Result<ExtentOwner>(fail(Errc::not_found));
      if (!decoded || decoded->blob != blob.id || decoded->length != extent.length) {
        wrong(fmt::format("The space map does not keep volume {:016x} from byte {} for the object that lies there.",
                          extent.volume, extent.offset));
      }
      const uint64_t bytes = std::min(extent.length, length - done);
      if (options_.read_data) {
        if (auto why = data_.check(extent, bytes, segment->block_crcs.data() + done / block_size); !why.empty()) {
          return why;
        }
      }
      done += bytes;
    }
    return done == length ? "" : "extents are missing";
  }

  void walk_dead() {
    Cursor cursor = index_->cursor(Family::meta, keys::dead_prefix());
    for (; cursor.valid(); cursor.next()) {
      if (const auto blob = keys::parse_dead(cursor.key())) named_.insert(*blob);  // it is being collected
    }
    ended(cursor, "blobs to be collected");
  }

  void walk_space() {
    uint64_t volume = 0, end = 0;
    Cursor cursor = index_->cursor(Family::extents, "");
    for (; cursor.valid(); cursor.next()) {
      if (cursor.key().empty()) continue;  // the mark that Index::recover() leaves
      const auto place = keys::parse_extent(cursor.key());
      const auto owner = decode_extent_owner(cursor.value());
      if (!place || !owner) {
        wrong("A record of the space map is damaged.");
        continue;
      }
      if (place->first == volume && place->second < end) {
        wrong(fmt::format("Two extents of volume {:016x} overlap at byte {}.", volume, place->second));
      }
      if (place->first != volume) check_in_table(place->first);
      volume = place->first;
      end = place->second + owner->length;
      report_.extent_bytes += owner->length;
      if (named_.contains(owner->blob)) continue;
      ++report_.orphan_extents;
      report_.orphan_bytes += owner->length;
    }
    ended(cursor, "extents");
  }

  const FsckOptions& options_;
  FileSystem& fs_;
  Data data_;
  std::optional<DeviceBond> bond_;         // as VERSION has it
  bool names_none_ = false;                // VERSION is whole, and names no device, and --device does
  std::unique_ptr<DeviceVolumes> device_;  // null: volumes are files
  uint64_t lost_before_ = 0;               // DeviceRow::lost_before
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<Index> index_;
  std::map<uint64_t, std::string> buckets_;
  Usage usage_;  // of the bucket being walked
  bool index_is_whole_ = false;
  std::unordered_set<uint64_t> named_;  // blobs with an owner
  FsckReport report_;
};

}  // namespace

Result<FsckReport> fsck(const FsckOptions& options) {
  return Check(options, options.fs != nullptr ? *options.fs : real_file_system()).run();
}

}  // namespace verbena::store::local
