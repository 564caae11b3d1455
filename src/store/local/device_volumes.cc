#include "store/local/device_volumes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <set>
#include <utility>

#include "base/log.h"
#include "store/local/disk_times.h"

namespace verbena::store::local {
namespace {

constexpr std::string_view volume_suffix = ".volume";
constexpr uint64_t discard_piece = 64 * MiB;

std::string volume_file_name(uint64_t volume) { return fmt::format("{:016x}{}", volume, volume_suffix); }

// 0: not the name of a volume.
uint64_t volume_of(const FileSystem::Path& path) {
  const std::string name = path.filename().string();
  uint64_t id = 0;
  std::from_chars(name.data(), name.data() + name.size(), id, 16);
  return volume_file_name(id) == name ? id : 0;
}

// Memory that direct I/O accepts.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t size) : memory_(size + disk_alignment), size_(size) {}
  MutableBytes bytes() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return MutableBytes(memory_).subspan(align_up(address) - address, size_);
  }

 private:
  std::vector<std::byte> memory_;
  size_t size_;
};

Result<void> write_block(File& device, const DeviceBlock& block, uint64_t place) {
  AlignedBytes memory(device_block);
  std::ranges::copy(block, memory.bytes().begin());
  return write_fully(device, memory.bytes(), place);
}

Result<void> write_zeros(File& device, uint64_t from, uint64_t to) {
  AlignedBytes zeros(1 * MiB);
  for (uint64_t at = from; at < to; at += 1 * MiB) {
    VB_TRY(write_fully(device, zeros.bytes().first(std::min<uint64_t>(1 * MiB, to - at)), at));
  }
  return {};
}

}  // namespace

// --- The device, shared by the files of all volumes ---

class DeviceVolumes::Device {
 public:
  Device(std::string name, std::unique_ptr<File> file) : name_(std::move(name)), file_(std::move(file)) {}
  ~Device() {
    if (failed()) DiskTrouble::get().device_failed.set(0);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }
  File& file() { return *file_; }
  void note_written() { written_.fetch_add(1, std::memory_order_acq_rel); }
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  Result<size_t> write(Bytes from, uint64_t place) {
    if (failed()) return fail(Errc::io_error, "device: an earlier flush failed");
    auto done = file_->pwrite(from, place);
    note_written();
    return done;
  }
  Result<void> write_whole(const DeviceBlock& block, uint64_t place) {
    if (failed()) return fail(Errc::io_error, "device: an earlier flush failed");
    auto done = write_block(*file_, block, place);
    note_written();
    return done;
  }
  // Everything written before the call is durable. One flush serves all volumes. After one that failed the device may
  // have lost any write since the last good one, and the kernel reports that only once: so none succeeds after it.
  Result<void> flush() {
    const std::lock_guard lock(flush_mutex_);
    if (failed()) return fail(Errc::io_error, "device: an earlier flush failed");
    const uint64_t upto = written_.load(std::memory_order_acquire);
    if (flushed_ == upto) return {};
    if (auto done = file_->datasync(); !done) {
      failed_.store(true, std::memory_order_release);
      DiskTrouble::get().device_failed.set(1);
      log::error(
          "store: {} did not flush: {}. What was not acknowledged by then is refused, and nothing is written to it "
          "until "
          "the server starts again; reads go on",
          name_, describe(done.error()));
      return done;
    }
    flushed_ = upto;
    return {};
  }

 private:
  const std::string name_;
  const std::unique_ptr<File> file_;
  std::mutex flush_mutex_;
  std::atomic<uint64_t> written_{1};  // an earlier process may have left unflushed writes
  uint64_t flushed_ = 0;
  std::atomic<bool> failed_{false};
};

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
  DeviceFile(std::shared_ptr<Device> device, std::shared_ptr<Held> held, const Superblock& layout)
      : device_(std::move(device)),
        held_(std::move(held)),
        begin_(layout.data_at + held_->extent * layout.extent_size),
        size_(layout.extent_size) {}

  Result<size_t> pread(MutableBytes into, uint64_t offset) override {
    if (offset >= size_) return 0;
    return device_->file().pread(into.first(std::min<uint64_t>(into.size(), size_ - offset)), begin_ + offset);
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
  std::optional<uint64_t> ring_place(uint64_t offset, size_t length) const override {
    if (!is_inside(offset, length)) return std::nullopt;
    return begin_ + offset;
  }
  int ring_read(MutableBytes into, uint64_t offset, int result) override {
    return device_->file().ring_read(into, begin_ + offset, result);
  }
  int ring_write(Bytes from, uint64_t offset, int result) override {
    device_->note_written();
    return device_->file().ring_write(from, begin_ + offset, result);
  }

 private:
  bool is_inside(uint64_t offset, uint64_t length) const { return offset <= size_ && length <= size_ - offset; }

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Held> held_;
  const uint64_t begin_, size_;
};

// --- Opening ---

Result<Superblock> read_superblock(File& device) {
  AlignedBytes memory(device_block);
  std::optional<Superblock> newest;
  std::optional<Error> first_error;
  for (const uint64_t place : superblock_places) {
    auto read = read_fully(device, memory.bytes(), place);
    auto copy = read ? decode_superblock(memory.bytes()) : Result<Superblock>(std::unexpected(read.error()));
    if (copy && (!newest || copy->sequence > newest->sequence)) newest = *copy;
    // What says more than "there is none" is told.
    if (!copy && (!first_error || *first_error == Errc::not_found)) first_error = copy.error();
  }
  if (newest) return *newest;
  return std::unexpected(*first_error);
}

DeviceVolumes::DeviceVolumes(std::shared_ptr<Device> device, const Superblock& superblock)
    : device_(std::move(device)), superblock_(superblock), extents_(std::make_shared<Extents>()) {}

DeviceVolumes::~DeviceVolumes() = default;

Result<std::unique_ptr<DeviceVolumes>> DeviceVolumes::open(std::string name, std::unique_ptr<File> file,
                                                           std::string& trouble) {
  const auto superblock = read_superblock(*file);
  if (!superblock) {
    const Error& why = superblock.error();
    trouble = why == Errc::not_found        ? name + " is not formatted for volumes. Run: verbena device format " + name
              : why == Errc::corrupt_object ? name +
                                                  ": both copies of the superblock are damaged. Nothing was changed. "
                                                  "Without it the volumes cannot be found"
                                            : name + ": " + describe(why);
    return std::unexpected(why);
  }
  VB_ASSIGN(const FileStat now, file->stat());
  if (now.size < superblock->device_size) {
    trouble = fmt::format("{} has {} bytes, and had {} when it was formatted: it has become smaller, or is not whole",
                          name, now.size, superblock->device_size);
    return fail(Errc::corrupt_object, "device: smaller than it was");
  }
  auto device = std::make_shared<Device>(std::move(name), std::move(file));
  std::unique_ptr<DeviceVolumes> volumes(new DeviceVolumes(std::move(device), *superblock));
  VB_TRY(volumes->load_table(trouble));
  return volumes;
}

Result<void> DeviceVolumes::load_table(std::string& trouble) {
  AlignedBytes memory(device_block);
  for (uint64_t number = 0; number < superblock_.pages(); ++number) {
    std::optional<TablePage> newest;
    for (const uint64_t copy : {0, 1}) {
      if (auto read = read_fully(device_->file(), memory.bytes(), page_place(number, copy)); !read) {
        trouble = name() + ": the table of volumes cannot be read: " + describe(read.error());
        return read;
      }
      auto page = decode_page(memory.bytes(), superblock_.id, number);
      if (page && (!newest || page->sequence > newest->sequence)) newest = std::move(*page);
    }
    if (!newest) {
      trouble =
          fmt::format("{}: both copies of page {} of the table of volumes are damaged, at byte {}. Nothing was changed",
                      name(), number, page_place(number, 0));
      return fail(Errc::corrupt_object, "device: table of volumes");
    }
    table_.push_back(std::move(*newest));
  }
  for (uint64_t extent = 0; extent < superblock_.extents; ++extent) {
    const uint64_t volume = table_[extent / entries_of_page].volumes[extent % entries_of_page];
    if (volume == 0) {
      extents_->free.insert(extent);
    } else if (!extents_->by_volume.emplace(volume, std::make_shared<Held>(extents_, extent)).second) {
      trouble = fmt::format("{}: the table of volumes names {:016x} twice. Nothing was changed", name(), volume);
      return fail(Errc::corrupt_object, "device: table of volumes");
    }
  }
  DiskTrouble::get().device_free_bytes.set(static_cast<int64_t>(extents_->free.size() * superblock_.extent_size));
  return {};
}

const std::string& DeviceVolumes::name() const { return device_->name(); }

uint64_t DeviceVolumes::volumes() const {
  const std::lock_guard lock(extents_->mutex);
  return extents_->by_volume.size();
}

Result<void> DeviceVolumes::set_owner(const DeviceId& owner) {
  const std::lock_guard changing(change_mutex_);
  // Both copies, one after the other: when one is damaged later, the other names the owner, too.
  for (int copy = 0; copy < 2; ++copy) {
    Superblock next = superblock_;
    next.owner = owner;
    ++next.sequence;
    VB_TRY(device_->write_whole(encode(next), superblock_places[next.sequence % 2]));
    VB_TRY(device_->flush());
    superblock_ = next;
  }
  return {};
}

// After a failure the number stays, so that the next try writes the same copy: the other one is the good one.
Result<void> DeviceVolumes::write_entry(uint64_t extent, uint64_t volume) {
  TablePage next = table_[extent / entries_of_page];
  next.volumes[extent % entries_of_page] = volume;
  ++next.sequence;
  VB_TRY(device_->write_whole(encode(next, superblock_.id), page_place(next.number, next.sequence % 2)));
  VB_TRY(device_->flush());
  table_[next.number] = std::move(next);
  return {};
}

// --- Files ---

Result<std::shared_ptr<DeviceVolumes::Held>> DeviceVolumes::find(uint64_t volume) {
  const std::lock_guard lock(extents_->mutex);
  const auto it = extents_->by_volume.find(volume);
  if (it == extents_->by_volume.end()) return fail(Errc::not_found, "device: no such volume");
  return it->second;
}

Result<std::shared_ptr<DeviceVolumes::Held>> DeviceVolumes::make(uint64_t volume) {
  const std::lock_guard changing(change_mutex_);
  uint64_t extent = 0;
  {
    std::unique_lock lock(extents_->mutex);
    extents_->one_is_free.wait(lock, [this] { return !extents_->free.empty() || !extents_->discarding; });
    if (extents_->free.empty()) return fail(Errc::insufficient_storage, "device: no extent is free");
    extent = *extents_->free.begin();
    extents_->free.erase(extent);
  }
  auto written = write_entry(extent, volume);
  const std::lock_guard lock(extents_->mutex);
  if (!written) {
    extents_->free.insert(extent);
    return std::unexpected(written.error());
  }
  extents_->to_discard.erase(extent);
  DiskTrouble::get().device_free_bytes.set(static_cast<int64_t>(extents_->free.size() * superblock_.extent_size));
  return extents_->by_volume.emplace(volume, std::make_shared<Held>(extents_, extent)).first->second;
}

Result<std::unique_ptr<File>> DeviceVolumes::open(const Path& path, OpenMode mode) {
  const uint64_t volume = volume_of(path);
  if (volume == 0) return fail(Errc::unsupported, "device: no name of a volume");
  auto held = find(volume);
  if (!held && mode.create) held = make(volume);
  if (!held) return std::unexpected(held.error());
  return std::make_unique<DeviceFile>(device_, std::move(*held), superblock_);
}

Result<void> DeviceVolumes::unlink(const Path& path) {
  std::shared_ptr<Held> held;  // destroyed without the locks
  const std::lock_guard changing(change_mutex_);
  VB_ASSIGN(held, find(volume_of(path)));
  VB_TRY(write_entry(held->extent, 0));
  const std::lock_guard lock(extents_->mutex);
  extents_->by_volume.erase(volume_of(path));
  held->unlinked = true;
  return {};
}

Result<std::vector<std::string>> DeviceVolumes::list(const Path&) {
  const std::lock_guard lock(extents_->mutex);
  std::vector<std::string> names;
  for (const auto& [volume, held] : extents_->by_volume) names.push_back(volume_file_name(volume));
  return names;
}

Result<FileStat> DeviceVolumes::stat(const Path& path) {
  VB_ASSIGN(const auto held, find(volume_of(path)));
  return FileStat{superblock_.extent_size, superblock_.extent_size, 0};
}

Result<bool> DeviceVolumes::is_directory(const Path&) { return false; }

Result<uint64_t> DeviceVolumes::free_bytes(const Path&) {
  const std::lock_guard lock(extents_->mutex);
  const uint64_t free = (extents_->free.size() + (extents_->discarding ? 1 : 0)) * superblock_.extent_size;
  DiskTrouble::get().device_free_bytes.set(static_cast<int64_t>(free));
  return free;
}

bool DeviceVolumes::overwrites_in_place(const Path&, std::string* name) {
  if (name != nullptr) *name = device_->name();
  return true;
}

// An extent is not given out while it is being discarded, and one that is given out is no longer discarded.
bool DeviceVolumes::discard(uint64_t bytes) {
  if (!discards_ || device_->failed()) return false;
  uint64_t extent = 0, from = 0;
  {
    const std::lock_guard lock(extents_->mutex);
    if (extents_->to_discard.empty()) return false;
    std::tie(extent, from) = *extents_->to_discard.begin();
    if (extents_->free.erase(extent) == 0) return false;  // it is being given out
    extents_->discarding = true;
  }
  const uint64_t begin = superblock_.data_at + extent * superblock_.extent_size;
  const uint64_t to = std::min(superblock_.extent_size, from + bytes);
  for (; from < to && discards_; from += std::min(discard_piece, to - from)) {
    const auto done = device_->file().punch(begin + from, std::min(discard_piece, to - from));
    if (done) continue;
    discards_ = false;
    if (!(done.error() == Errc::unsupported)) log::warn("store: {}: no discards: {}", name(), describe(done.error()));
  }
  const std::lock_guard lock(extents_->mutex);
  extents_->free.insert(extent);
  extents_->discarding = false;
  extents_->to_discard[extent] = from;
  if (from == superblock_.extent_size || !discards_) extents_->to_discard.erase(extent);
  extents_->one_is_free.notify_all();
  return true;
}

Result<void> DeviceVolumes::rename(const Path&, const Path&) { return fail(Errc::unsupported, "device: rename"); }
Result<void> DeviceVolumes::make_directory(const Path&) { return fail(Errc::unsupported, "device: directory"); }
Result<void> DeviceVolumes::remove_directory(const Path&) { return fail(Errc::unsupported, "device: directory"); }
Result<std::unique_ptr<FileLock>> DeviceVolumes::lock(const Path&) {
  return fail(Errc::unsupported, "device: lock of a name");
}

// --- Formatting ---

Result<Superblock> format_device(File& device, uint64_t extent_size) {
  constexpr uint64_t tail = 1 * MiB;  // partition tables, RAID and ZFS have copies of their labels there
  VB_ASSIGN(const FileStat stat, device.stat());
  VB_ASSIGN(Superblock superblock, plan_device(align_down(stat.size), extent_size));
  // First what was there goes, and the superblock is last: whatever is interrupted is not taken for a whole format.
  VB_TRY(write_zeros(device, 0, superblock.data_at));
  VB_TRY(write_zeros(device, std::max(superblock.data_at, align_down(stat.size) - tail), align_down(stat.size)));
  VB_TRY(device.datasync());
  for (const uint64_t copy : {0, 1}) {
    for (uint64_t number = 0; number < superblock.pages(); ++number) {
      const TablePage page{number, copy, std::vector<uint64_t>(entries_of_page)};
      VB_TRY(write_block(device, encode(page, superblock.id), page_place(number, copy)));
    }
  }
  VB_TRY(device.datasync());
  for (const uint64_t copy : {0, 1}) {
    superblock.sequence = copy;
    VB_TRY(write_block(device, encode(superblock), superblock_places[copy]));
  }
  VB_TRY(device.datasync());
  return superblock;
}

}  // namespace verbena::store::local
