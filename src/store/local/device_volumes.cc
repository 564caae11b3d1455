#include "store/local/device_volumes.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <set>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "store/local/disk_times.h"
#include "store/local/volume_name.h"

namespace verbena::store::local {
namespace {

constexpr uint64_t discard_piece = 64 * MiB;

// 0: not the name of a volume.
uint64_t volume_of(const FileSystem::Path& path) {
  return parse_volume_file_name(path.filename().string()).value_or(0);
}

}  // namespace

// --- Which extent has which volume ---

struct DeviceVolumes::Extents {
  std::mutex mutex;
  std::condition_variable one_is_free;
  std::map<uint64_t, std::shared_ptr<Held>> by_volume;
  std::set<uint64_t> free;
  std::map<uint64_t, uint64_t> to_discard;  // free extents that held a volume: bytes that are done
  bool discarding = false;                  // one is out of `free` for that
};

// A volume's extent. It is free when the volume is unlinked and no file of it is open.
struct DeviceVolumes::Held {
  Held(std::shared_ptr<Extents> all, uint64_t number) : extents(std::move(all)), extent(number) {}
  ~Held() {
    const auto all = extents.lock();
    if (all == nullptr || !unlinked) return;
    const std::lock_guard lock(all->mutex);
    all->free.insert(extent);
    all->to_discard[extent] = 0;
    all->one_is_free.notify_all();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  const std::weak_ptr<Extents> extents;
  const uint64_t extent;
  std::atomic<bool> unlinked = false;
};

class DeviceVolumes::DeviceFile final : public File {
 public:
  DeviceFile(std::shared_ptr<SharedDevice> device, std::shared_ptr<Held> held, const Superblock& layout)
      : device_(std::move(device)),
        held_(std::move(held)),
        begin_(layout.data_at + held_->extent * layout.extent_size),
        size_(layout.extent_size) {}

  Result<size_t> pread(MutableBytes into, uint64_t offset) override {
    if (offset >= size_ || into.empty()) return 0;
    auto done = device_->file().pread(into.first(std::min<uint64_t>(into.size(), size_ - offset)), begin_ + offset);
    if (done && *done == 0) return std::unexpected(device_->note_end());
    return done;
  }
  Result<size_t> pwrite(Bytes from, uint64_t offset) override {
    if (!is_inside(offset, from.size())) return fail(Errc::insufficient_storage, "device: past the end of a volume");
    return device_->write(from, begin_ + offset);
  }
  Result<void> datasync() override { return device_->flush(); }
  Result<void> allocate(uint64_t offset, uint64_t length) override {
    if (!is_inside(offset, length)) return fail(Errc::insufficient_storage, "device: past the end of a volume");
    return {};
  }
  // The extent is the volume's, whatever of it is in use.
  Result<void> punch(uint64_t, uint64_t) override { return {}; }
  Result<void> truncate(uint64_t) override { return {}; }
  Result<FileStat> stat() override { return FileStat{size_, size_, 0}; }
  Result<std::optional<std::pair<uint64_t, uint64_t>>> data_range(uint64_t from) override {
    if (from >= size_) return std::nullopt;
    return std::pair(from, size_);
  }
  bool direct() const override { return device_->file().direct(); }
  int ring_descriptor() const override { return device_->file().ring_descriptor(); }
  bool takes_writes() const override { return !device_->failed(); }
  std::optional<uint64_t> ring_place(uint64_t offset, size_t length) const override {
    if (!is_inside(offset, length)) return std::nullopt;
    return begin_ + offset;
  }
  int ring_read(MutableBytes into, uint64_t offset, int result) override {
    const int n = device_->file().ring_read(into, begin_ + offset, result);
    return n == 0 && !into.empty() ? -device_->note_end().sys : n;
  }
  int ring_write(Bytes from, uint64_t offset, int result) override {
    device_->note_written();
    return device_->file().ring_write(from, begin_ + offset, result);
  }

 private:
  bool is_inside(uint64_t offset, uint64_t length) const { return offset <= size_ && length <= size_ - offset; }

  const std::shared_ptr<SharedDevice> device_;
  const std::shared_ptr<Held> held_;
  const uint64_t begin_, size_;
};

// --- Opening ---

DeviceVolumes::DeviceVolumes(std::shared_ptr<SharedDevice> device)
    : device_(std::move(device)), table_(device_), extents_(std::make_shared<Extents>()) {}

DeviceVolumes::~DeviceVolumes() = default;

Result<std::unique_ptr<DeviceVolumes>> DeviceVolumes::open(std::string name, std::unique_ptr<File> file,
                                                           std::string& trouble) {
  auto device = std::make_shared<SharedDevice>(std::move(name), std::move(file));
  std::unique_ptr<DeviceVolumes> volumes(new DeviceVolumes(std::move(device)));
  VB_TRY(volumes->load(trouble));
  return volumes;
}

Result<void> DeviceVolumes::load(std::string& trouble) {
  VB_TRY(table_.load(trouble));
  layout_ = superblock();
  for (uint64_t extent = 0; extent < layout_.extents; ++extent) {
    const uint64_t volume = table_.volume_of(extent);
    if (volume == 0) {
      extents_->free.insert(extent);
    } else if (!extents_->by_volume.emplace(volume, std::make_shared<Held>(extents_, extent)).second) {
      trouble = fmt::format("{}: the table of volumes names {:016x} twice. Nothing was changed", name(), volume);
      return fail(Errc::corrupt_object, "device: table of volumes");
    }
  }
  DiskTrouble::get().device_bytes.set(static_cast<int64_t>(layout_.extents * layout_.extent_size));
  tell_free_locked();
  return {};
}

uint64_t DeviceVolumes::volumes() const {
  const std::lock_guard lock(extents_->mutex);
  return extents_->by_volume.size();
}

// --- Changes ---

// What is noted late is noted before the next change.
Result<void> DeviceVolumes::note_locked() {
  if (!unnoted_) return {};
  if (note_) VB_TRY(note_(*unnoted_));
  unnoted_.reset();
  return {};
}

Result<void> DeviceVolumes::change_locked(uint64_t extent, uint64_t volume, bool made) {
  VB_TRY(note_locked());
  VB_TRY(table_.set_volume(extent, made ? volume : 0));
  unnoted_ = Change{table_.changes(), volume, made};
  return {};
}

Result<std::shared_ptr<DeviceVolumes::Held>> DeviceVolumes::find(uint64_t volume) {
  const std::lock_guard lock(extents_->mutex);
  const auto it = extents_->by_volume.find(volume);
  if (it == extents_->by_volume.end()) return fail(Errc::not_found, "device: no such volume");
  return it->second;
}

Result<uint64_t> DeviceVolumes::take_free_extent() {
  std::unique_lock lock(extents_->mutex);
  extents_->one_is_free.wait(lock, [this] { return !extents_->free.empty() || !extents_->discarding; });
  if (extents_->free.empty()) return fail(Errc::insufficient_storage, "device: no extent is free");
  return extents_->free.extract(extents_->free.begin()).value();
}

Result<void> DeviceVolumes::set_owner(const DeviceId& owner, uint64_t generation, const NoteGeneration& before,
                                      const NoteGeneration& after) {
  const std::lock_guard changing(change_mutex_);
  VB_TRY(note_locked());
  if (before) VB_TRY(before(generation, table_.changes()));
  VB_TRY(table_.set_owner(owner, generation));
  return after ? after(generation, table_.changes()) : Result<void>();
}

// An earlier call may have made the volume and not noted it.
Result<std::shared_ptr<DeviceVolumes::Held>> DeviceVolumes::find_or_make(uint64_t volume) {
  const std::lock_guard changing(change_mutex_);
  auto found = find(volume);
  if (!found) return make_locked(volume);
  VB_TRY(note_locked());
  return found;
}

Result<std::shared_ptr<DeviceVolumes::Held>> DeviceVolumes::make_locked(uint64_t volume) {
  if (failed()) return fail(Errc::io_error, "device: given up after a failure");  // whether or not an extent is free
  const auto taken = take_free_extent();
  if (!taken) {
    // A device that vanished is not told as full.
    VB_TRY(table_.check_still_ours());
    return std::unexpected(taken.error());
  }
  const uint64_t extent = *taken;
  std::shared_ptr<Held> held;
  {
    auto changed = change_locked(extent, volume, /*made=*/true);
    const std::lock_guard lock(extents_->mutex);
    if (!changed) {
      extents_->free.insert(extent);
      return std::unexpected(changed.error());
    }
    extents_->to_discard.erase(extent);
    tell_free_locked();
    held = extents_->by_volume.emplace(volume, std::make_shared<Held>(extents_, extent)).first->second;
  }
  // A volume that could not be noted stays. The caller may ask for it again; else the next start frees it.
  VB_TRY(note_locked());
  return held;
}

Result<void> DeviceVolumes::unlink(const Path& path) {
  std::shared_ptr<Held> held;  // destroyed without the locks
  const std::lock_guard changing(change_mutex_);
  VB_ASSIGN(held, find(volume_of(path)));
  VB_TRY(change_locked(held->extent, volume_of(path), /*made=*/false));
  {
    const std::lock_guard lock(extents_->mutex);
    extents_->by_volume.erase(volume_of(path));
    held->unlinked = true;
  }
  if (auto noted = note_locked(); !noted) log::warn("store: {}: {}", name(), describe(noted.error()));
  return {};
}

// --- Files ---

Result<std::unique_ptr<File>> DeviceVolumes::open(const Path& path, OpenMode mode) {
  const uint64_t volume = volume_of(path);
  if (volume == 0 || volume >= device_number_max) return fail(Errc::unsupported, "device: no name of a volume");
  auto held = mode.create ? find_or_make(volume) : find(volume);
  if (!held) return std::unexpected(held.error());
  return std::make_unique<DeviceFile>(device_, std::move(*held), layout_);
}

Result<std::vector<std::string>> DeviceVolumes::list(const Path&) {
  const std::lock_guard lock(extents_->mutex);
  std::vector<std::string> names;
  for (const auto& [volume, held] : extents_->by_volume) names.push_back(volume_file_name(volume));
  return names;
}

Result<FileStat> DeviceVolumes::stat(const Path& path) {
  VB_ASSIGN(const auto held, find(volume_of(path)));
  return FileStat{layout_.extent_size, layout_.extent_size, 0};
}

Result<bool> DeviceVolumes::is_directory(const Path&) { return false; }

Result<uint64_t> DeviceVolumes::free_bytes(const Path&) {
  const std::lock_guard lock(extents_->mutex);
  return tell_free_locked();
}

uint64_t DeviceVolumes::tell_free_locked() const {
  const uint64_t free = (extents_->free.size() + (extents_->discarding ? 1 : 0)) * layout_.extent_size;
  DiskTrouble::get().device_free_bytes.set(static_cast<int64_t>(free));
  return free;
}

bool DeviceVolumes::overwrites_in_place(const Path&, std::string* name) {
  if (name != nullptr) *name = device_->name();
  return true;
}

// --- Discards ---

// An extent is not given out while it is being discarded, and one that is given out is no longer discarded.
bool DeviceVolumes::discard(uint64_t bytes) {
  if (!discards_ || device_->failed()) return false;
  uint64_t extent = 0, from = 0;
  {
    const std::lock_guard lock(extents_->mutex);
    if (extents_->to_discard.empty()) return false;
  }
  {
    // A discard is not part of a change of the table, which asks this, too. Unlike a change it can wait: a path that
    // does not answer for a moment is no reason to give the device up.
    const std::lock_guard changing(change_mutex_);
    if (!table_.look_whether_ours()) return false;
  }
  {
    const std::lock_guard lock(extents_->mutex);
    if (extents_->to_discard.empty()) return false;
    std::tie(extent, from) = *extents_->to_discard.begin();
    if (extents_->free.erase(extent) == 0) return false;  // it is being given out
    extents_->discarding = true;
  }
  const uint64_t upto = discard_within(extent, from, std::min(layout_.extent_size, from + bytes));
  const std::lock_guard lock(extents_->mutex);
  extents_->free.insert(extent);
  extents_->discarding = false;
  extents_->to_discard[extent] = upto;
  if (upto == layout_.extent_size || !discards_) extents_->to_discard.erase(extent);
  extents_->one_is_free.notify_all();
  return true;
}

// After an error of the device the rest of the extent is left alone: a bad place says nothing about the others.
uint64_t DeviceVolumes::discard_within(uint64_t extent, uint64_t from, uint64_t to) {
  const uint64_t begin = layout_.data_at + extent * layout_.extent_size;
  while (from < to) {
    const uint64_t piece = std::min(discard_piece, to - from);
    if (const auto done = device_->file().punch(begin + from, piece); !done) {
      discards_ = !(done.error() == Errc::unsupported);
      if (discards_) log::warn("store: {}: not discarded: {}", name(), describe(done.error()));
      return layout_.extent_size;
    }
    from += piece;
  }
  return from;
}

Result<void> DeviceVolumes::rename(const Path&, const Path&) { return fail(Errc::unsupported, "device: rename"); }
Result<void> DeviceVolumes::make_directory(const Path&) { return fail(Errc::unsupported, "device: directory"); }
Result<void> DeviceVolumes::remove_directory(const Path&) { return fail(Errc::unsupported, "device: directory"); }
Result<std::unique_ptr<FileLock>> DeviceVolumes::lock(const Path&) {
  return fail(Errc::unsupported, "device: lock of a name");
}

}  // namespace verbena::store::local
