#include "store/local/test_faulty_file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace verbena::store::local {

class FaultyFile final : public File {
 public:
  // With fs.mutex_ held.
  FaultyFile(FaultyFileSystem& fs, std::shared_ptr<FaultyFileSystem::Node> node, bool counted)
      : fs_(fs), node_(std::move(node)), counted_(counted) {
    fs_.open_ += counted_ ? 1 : 0;
  }
  ~FaultyFile() override {
    std::lock_guard lock(fs_.mutex_);
    fs_.open_ -= counted_ ? 1 : 0;
  }

  Result<size_t> pread(MutableBytes into, uint64_t offset) override {
    std::lock_guard lock(fs_.mutex_);
    if (is_gone()) return fail(Errc::io_error, "faulty: pread", EIO);
    if (node_->made_as == fs_.unreadable_ && offset <= fs_.unreadable_at_ &&
        fs_.unreadable_at_ - offset < into.size()) {
      return fail(Errc::io_error, "faulty: pread", EIO);
    }
    if (fs_.fail_reads_ && into.size() >= disk_alignment) return fail(Errc::io_error, "faulty: pread", EIO);
    const auto& content = node_->now;
    if (offset >= content.size) return 0;
    size_t n = std::min<uint64_t>(into.size(), content.size - offset);
    if (fs_.short_io_ && n > 1) n = 1 + fs_.random_() % n;
    for (size_t done = 0; done < n;) {
      uint64_t page = (offset + done) / fs_.page_size, at = (offset + done) % fs_.page_size;
      size_t piece = std::min<size_t>(n - done, fs_.page_size - at);
      auto it = content.pages.find(page);
      if (it == content.pages.end()) {
        std::memset(into.data() + done, 0, piece);
      } else {
        std::memcpy(into.data() + done, it->second->data() + at, piece);
      }
      done += piece;
    }
    return n;
  }

  Result<size_t> pwrite(Bytes from, uint64_t offset) override {
    std::lock_guard lock(fs_.mutex_);
    bool last = false;
    if (is_gone()) return fail(Errc::io_error, "faulty: pwrite", EIO);
    if (node_->made_as == fs_.unwritable_ && offset <= fs_.unwritable_at_ &&
        fs_.unwritable_at_ - offset < from.size()) {
      return fail(Errc::io_error, "faulty: pwrite", EIO);
    }
    VB_TRY(fs_.begin(&last, &node_->made_as));
    size_t n = from.size();
    if (fs_.short_io_ && n > 1) n = 1 + fs_.random_() % n;
    if (fs_.is_under(node_->made_as, fs_.dropping_folder_)) return n;
    VB_TRY(fs_.write_pages(*node_, from.first(n), offset));
    if (last) return fail(Errc::io_error, "faulty: done, and an error", EIO);
    return n;
  }

  Result<void> datasync() override {
    std::unique_lock lock(fs_.mutex_);
    fs_.wait_while_held(node_->made_as, lock);
    fs_.syncs_.push_back(node_->made_as);
    Result<void> begun;
    if (is_gone() || fs_.is_under(node_->made_as, fs_.failing_folder_)) {
      begun = fail(Errc::io_error, "faulty: datasync", EIO);
    } else {
      begun = fs_.begin(nullptr, &node_->made_as);
    }
    if (!begun) {
      // As a kernel: the pages that it could not write count as clean. They are read until a crash, and a later sync,
      // which does not write them, succeeds.
      if (!fs_.crashed_) node_->dirty.clear();
      return begun;
    }
    for (uint64_t page : node_->dirty) {
      auto it = node_->now.pages.find(page);
      if (it == node_->now.pages.end()) {
        node_->synced.pages.erase(page);
      } else {
        node_->synced.pages[page] = it->second;
      }
    }
    node_->dirty.clear();
    node_->synced.size = node_->now.size;
    return {};
  }

  Result<void> allocate(uint64_t offset, uint64_t length) override {
    std::lock_guard lock(fs_.mutex_);
    VB_TRY(fs_.begin());
    fs_.note_space_change(node_->made_as);
    uint64_t first = offset / fs_.page_size, end = (offset + length + fs_.page_size - 1) / fs_.page_size;
    uint64_t missing = 0;
    for (uint64_t page = first; page < end; ++page) missing += node_->now.pages.contains(page) ? 0 : 1;
    VB_TRY(fs_.reserve_pages(missing));
    static const auto zeros = std::make_shared<const FaultyFileSystem::Page>();
    for (uint64_t page = first; page < end; ++page) {
      if (node_->now.pages.try_emplace(page, zeros).second) node_->dirty.insert(page);
    }
    node_->now.size = std::max(node_->now.size, offset + length);
    return {};
  }

  Result<void> punch(uint64_t offset, uint64_t length) override {
    std::lock_guard lock(fs_.mutex_);
    VB_TRY(fs_.begin());
    fs_.note_space_change(node_->made_as);
    drop_pages(align_up(offset), align_down(offset + length));
    return {};
  }

  Result<void> truncate(uint64_t size) override {
    std::lock_guard lock(fs_.mutex_);
    VB_TRY(fs_.begin());
    fs_.note_space_change(node_->made_as);
    drop_pages(align_up(size), UINT64_MAX);
    node_->now.size = size;
    return {};
  }

  Result<FileStat> stat() override {
    std::lock_guard lock(fs_.mutex_);
    return FileStat{node_->now.size, node_->now.pages.size() * fs_.page_size, 0};
  }

  std::expected<std::string, std::string> foreign_contents() override {
    std::lock_guard lock(fs_.mutex_);
    return fs_.foreign_contents_;
  }

  // Reserved pages count as written.
  Result<std::optional<std::pair<uint64_t, uint64_t>>> data_range(uint64_t from) override {
    std::lock_guard lock(fs_.mutex_);
    const auto& pages = node_->now.pages;
    auto at = pages.lower_bound(from / fs_.page_size);
    if (at == pages.end()) return std::nullopt;
    const uint64_t first = at->first;
    uint64_t end = first;
    for (; at != pages.end() && at->first == end; ++at) ++end;
    return std::pair(std::max(from, first * fs_.page_size), end * fs_.page_size);
  }

 private:
  bool is_gone() const { return fs_.is_under(node_->made_as, fs_.vanished_folder_); }
  void drop_pages(uint64_t from, uint64_t to) {
    auto& pages = node_->now.pages;
    for (auto it = pages.lower_bound(from / fs_.page_size); it != pages.end() && it->first < to / fs_.page_size;) {
      node_->dirty.insert(it->first);
      it = pages.erase(it);
    }
  }

  FaultyFileSystem& fs_;
  std::shared_ptr<FaultyFileSystem::Node> node_;
  const bool counted_;
};

class FaultyLock final : public FileLock {
 public:
  FaultyLock(FaultyFileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}
  ~FaultyLock() override {
    std::lock_guard lock(fs_.mutex_);
    fs_.locked_.erase(path_);
  }

 private:
  FaultyFileSystem& fs_;
  std::string path_;
};

FaultyFileSystem::FaultyFileSystem() : directories_{"/"} {}
FaultyFileSystem::~FaultyFileSystem() = default;

std::string FaultyFileSystem::normal(const Path& path) {
  std::string text = (Path("/") / path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

void FaultyFileSystem::fail_at(uint64_t operation, Fault fault) { fail_at(operation, fault, ""); }

void FaultyFileSystem::fail_at(uint64_t operation, Fault fault, const Path& folder) {
  std::lock_guard lock(mutex_);
  fault_folder_ = folder.empty() ? std::string() : normal(folder);
  operations_ = 0;
  fail_at_ = fault == Fault::none ? UINT64_MAX : operation;
  fault_ = fault;
  happened_ = false;
}

uint64_t FaultyFileSystem::operations() const {
  std::lock_guard lock(mutex_);
  return operations_;
}

bool FaultyFileSystem::fault_happened() const {
  std::lock_guard lock(mutex_);
  return happened_;
}

Result<void> FaultyFileSystem::begin(bool* apply_then_fail, const std::string* name) {
  if (crashed_) return fail(Errc::io_error, "faulty: crashed", EIO);
  if (!fault_folder_.empty() && (name == nullptr || !is_under(*name, fault_folder_))) return {};
  if (operations_++ != fail_at_) return {};
  happened_ = true;
  switch (fault_) {
    case Fault::none:
      return {};
    case Fault::no_space:
      return fail(Errc::insufficient_storage, "faulty: no space", ENOSPC);
    case Fault::io_error_applied:
      if (apply_then_fail != nullptr) {
        *apply_then_fail = true;
        return {};
      }
      [[fallthrough]];
    case Fault::io_error:
      return fail(Errc::io_error, "faulty: I/O error", EIO);
    case Fault::crash:
      crashed_ = true;
      if (apply_then_fail != nullptr) {
        *apply_then_fail = true;  // a write on its way when the machine stops may have arrived
        return {};
      }
      return fail(Errc::io_error, "faulty: crashed", EIO);
  }
  return {};
}

uint64_t FaultyFileSystem::used() const {
  uint64_t pages = 0;
  for (const auto& [name, node] : now_) pages += node->now.pages.size();
  return pages * page_size;
}

uint64_t FaultyFileSystem::used_bytes() const {
  std::lock_guard lock(mutex_);
  return used();
}

Result<void> FaultyFileSystem::reserve_pages(uint64_t n) {
  if (n != 0 && used() + n * page_size > capacity_) return fail(Errc::insufficient_storage, "faulty: full", ENOSPC);
  return {};
}

Result<void> FaultyFileSystem::write_pages(Node& node, Bytes from, uint64_t offset) {
  uint64_t missing = 0;
  for (uint64_t page = offset / page_size; page * page_size < offset + from.size(); ++page) {
    missing += node.now.pages.contains(page) ? 0 : 1;
  }
  VB_TRY(reserve_pages(missing));
  if (missing != 0) note_space_change(node.made_as);
  for (size_t done = 0; done < from.size();) {
    uint64_t page = (offset + done) / page_size, at = (offset + done) % page_size;
    size_t piece = std::min<size_t>(from.size() - done, page_size - at);
    auto& slot = node.now.pages[page];
    auto changed = slot ? std::make_shared<Page>(*slot) : std::make_shared<Page>();
    std::memcpy(changed->data() + at, from.data() + done, piece);
    slot = std::move(changed);
    node.dirty.insert(page);
    done += piece;
  }
  node.now.size = std::max(node.now.size, offset + from.size());
  return {};
}

void FaultyFileSystem::tear(Node& node, std::mt19937_64& random) {
  constexpr size_t sector = 512;
  for (uint64_t page : node.dirty) {
    auto old_it = node.synced.pages.find(page), new_it = node.now.pages.find(page);
    if (new_it == node.now.pages.end()) {  // punched: as a whole or not at all
      if (random() % 2 == 0) node.synced.pages.erase(page);
      continue;
    }
    auto mixed = old_it == node.synced.pages.end() ? std::make_shared<Page>() : std::make_shared<Page>(*old_it->second);
    for (size_t at = 0; at < page_size; at += sector) {
      if (random() % 2 == 0) std::memcpy(mixed->data() + at, new_it->second->data() + at, sector);
    }
    node.synced.pages[page] = std::move(mixed);
  }
  if (random() % 2 == 0) node.synced.size = node.now.size;
  auto& pages = node.synced.pages;
  pages.erase(pages.lower_bound(align_up(node.synced.size) / page_size), pages.end());
}

void FaultyFileSystem::crash(Loss loss, uint64_t seed) {
  std::lock_guard lock(mutex_);
  std::mt19937_64 random(seed);
  if (loss != Loss::nothing) {
    // The journal of a file system keeps the order of names: all recent changes are there, or none.
    if (loss == Loss::torn && random() % 2 == 0) synced_ = now_;
    now_ = synced_;
    for (auto& [name, node] : now_) {
      if (loss == Loss::torn) tear(*node, random);
      node->now = node->synced;
      node->dirty.clear();
    }
  }
  crashed_ = happened_ = false;
  fail_at_ = UINT64_MAX;
  locked_.clear();
}

void FaultyFileSystem::set_capacity(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  capacity_ = bytes;
}

void FaultyFileSystem::set_short_io(bool on) {
  std::lock_guard lock(mutex_);
  short_io_ = on;
}

void FaultyFileSystem::fail_reads_at(const Path& path, uint64_t offset) {
  std::lock_guard lock(mutex_);
  unreadable_ = path.empty() ? std::string() : normal(path);
  unreadable_at_ = offset;
}

void FaultyFileSystem::fail_writes_at(const Path& path, uint64_t offset) {
  std::lock_guard lock(mutex_);
  unwritable_ = path.empty() ? std::string() : normal(path);
  unwritable_at_ = offset;
}

void FaultyFileSystem::vanish(const Path& folder) {
  std::lock_guard lock(mutex_);
  vanished_folder_ = folder.empty() ? std::string() : normal(folder);
}

struct FaultyFileSystem::Copy {
  std::string folder;
  std::map<std::string, Content> files;
};

std::shared_ptr<const FaultyFileSystem::Copy> FaultyFileSystem::copy_of(const Path& folder) {
  std::lock_guard lock(mutex_);
  auto copy = std::make_shared<Copy>();
  copy->folder = normal(folder);
  for (const auto& [name, node] : now_) {
    if (is_under(name, copy->folder)) copy->files[name] = node->now;
  }
  return copy;
}

void FaultyFileSystem::put_back(const Copy& copy) {
  std::lock_guard lock(mutex_);
  const auto is_in = [&](const auto& entry) { return is_under(entry.first, copy.folder); };
  std::erase_if(now_, is_in);
  std::erase_if(synced_, is_in);
  for (const auto& [name, content] : copy.files) {
    auto node = std::make_shared<Node>();
    node->made_as = name;
    node->now = node->synced = content;
    now_[name] = synced_[name] = std::move(node);
  }
}

void FaultyFileSystem::set_foreign_contents(std::expected<std::string, std::string> contents) {
  std::lock_guard lock(mutex_);
  foreign_contents_ = std::move(contents);
}

void FaultyFileSystem::fail_reads(bool on) {
  std::lock_guard lock(mutex_);
  fail_reads_ = on;
}

bool FaultyFileSystem::is_under(const std::string& name, const std::string& folder) {
  return !folder.empty() && name.starts_with(folder + "/");
}

void FaultyFileSystem::hold_syncs(const Path& folder) {
  std::lock_guard lock(mutex_);
  held_folder_ = normal(folder);
  waiting_ = false;
  released_ = 0;
}

void FaultyFileSystem::wait_while_held(const std::string& name, std::unique_lock<std::mutex>& lock) {
  if (!is_under(name, held_folder_)) return;
  waiting_ = true;
  held_.notify_all();
  held_.wait(lock, [this] { return held_folder_.empty() || released_ > 0; });
  if (!held_folder_.empty()) --released_;
}

void FaultyFileSystem::wait_for_held_sync() {
  std::unique_lock lock(mutex_);
  held_.wait(lock, [this] { return waiting_; });
}

void FaultyFileSystem::release_one_sync() {
  std::lock_guard lock(mutex_);
  waiting_ = false;
  ++released_;
  held_.notify_all();
}

void FaultyFileSystem::release_syncs() {
  std::lock_guard lock(mutex_);
  held_folder_.clear();
  held_.notify_all();
}

void FaultyFileSystem::fail_syncs(const Path& folder) {
  std::lock_guard lock(mutex_);
  failing_folder_ = folder.empty() ? std::string() : normal(folder);
}

uint64_t FaultyFileSystem::syncs(const Path& folder) const {
  std::lock_guard lock(mutex_);
  return static_cast<uint64_t>(
      std::ranges::count_if(syncs_, [&](const std::string& name) { return is_under(name, normal(folder)); }));
}

uint64_t FaultyFileSystem::space_changes(const Path& folder) const {
  std::lock_guard lock(mutex_);
  const auto found = space_changes_.find(normal(folder));
  return found == space_changes_.end() ? 0 : found->second;
}

void FaultyFileSystem::drop_writes(const Path& folder) {
  std::lock_guard lock(mutex_);
  dropping_folder_ = folder.empty() ? std::string() : normal(folder);
}

void FaultyFileSystem::set_open_max(const Path& folder, size_t max) {
  std::lock_guard lock(mutex_);
  limited_folder_ = normal(folder);
  open_max_ = max;
}

size_t FaultyFileSystem::open_files() const {
  std::lock_guard lock(mutex_);
  return open_;
}

void FaultyFileSystem::flip_bit(const Path& path, uint64_t offset) {
  std::lock_guard lock(mutex_);
  auto it = now_.find(normal(path));
  if (it == now_.end()) return;
  for (Content* content : {&it->second->now, &it->second->synced}) {
    auto page = content->pages.find(offset / page_size);
    if (page == content->pages.end()) continue;
    auto flipped = std::make_shared<Page>(*page->second);
    (*flipped)[offset % page_size] ^= std::byte{0x10};
    page->second = std::move(flipped);
  }
}

Result<std::unique_ptr<File>> FaultyFileSystem::open(const Path& path, OpenMode mode) {
  std::lock_guard lock(mutex_);
  std::string name = normal(path);
  const bool counted = is_under(name, limited_folder_);
  if (counted && open_ >= open_max_) return fail(Errc::slow_down, "faulty: open", EMFILE);
  auto it = now_.find(name);
  if (it == now_.end()) {
    if (!mode.create) return fail(Errc::not_found, "faulty: open", ENOENT);
    VB_TRY(begin());
    it = now_.emplace(name, std::make_shared<Node>()).first;
    it->second->made_as = name;
    note_space_change(name);
  } else if (mode.truncate) {
    VB_TRY(begin());
    it->second = std::make_shared<Node>();
    it->second->made_as = name;
  }
  return std::make_unique<FaultyFile>(*this, it->second, counted);
}

Result<void> FaultyFileSystem::unlink(const Path& path) {
  std::lock_guard lock(mutex_);
  VB_TRY(begin());
  note_space_change(normal(path));
  if (now_.erase(normal(path)) == 0) return fail(Errc::not_found, "faulty: unlink", ENOENT);
  return {};
}

Result<void> FaultyFileSystem::rename(const Path& from, const Path& to) {
  std::lock_guard lock(mutex_);
  VB_TRY(begin());
  auto it = now_.find(normal(from));
  if (it == now_.end()) return fail(Errc::not_found, "faulty: rename", ENOENT);
  auto node = it->second;
  now_.erase(it);
  now_[normal(to)] = std::move(node);
  return {};
}

Result<void> FaultyFileSystem::make_directory(const Path& path) {
  std::lock_guard lock(mutex_);
  for (Path p = normal(path); p != "/"; p = p.parent_path()) directories_.insert(p.string());
  return {};
}

Result<void> FaultyFileSystem::remove_directory(const Path& path) {
  std::lock_guard lock(mutex_);
  directories_.erase(normal(path));
  return {};
}

Result<void> FaultyFileSystem::sync_directory(const Path& path) {
  std::lock_guard lock(mutex_);
  VB_TRY(begin());
  std::string directory = normal(path);
  auto inside = [&](const auto& entry) { return Path(entry.first).parent_path() == directory; };
  std::erase_if(synced_, inside);
  for (const auto& entry : now_) {
    if (inside(entry)) synced_.insert(entry);
  }
  return {};
}

Result<std::vector<std::string>> FaultyFileSystem::list(const Path& path) {
  std::lock_guard lock(mutex_);
  std::string directory = normal(path);
  if (!directories_.contains(directory)) return fail(Errc::not_found, "faulty: list", ENOENT);
  std::vector<std::string> names;
  for (const auto& [name, node] : now_) {
    if (Path(name).parent_path() == directory) names.push_back(Path(name).filename().string());
  }
  for (const std::string& name : directories_) {
    if (name != "/" && Path(name).parent_path() == directory) names.push_back(Path(name).filename().string());
  }
  return names;
}

Result<FileStat> FaultyFileSystem::stat(const Path& path) {
  std::lock_guard lock(mutex_);
  auto it = now_.find(normal(path));
  if (it != now_.end()) return FileStat{it->second->now.size, it->second->now.pages.size() * page_size, 0};
  if (directories_.contains(normal(path))) return FileStat{};
  return fail(Errc::not_found, "faulty: stat", ENOENT);
}

Result<bool> FaultyFileSystem::is_directory(const Path& path) {
  std::lock_guard lock(mutex_);
  if (directories_.contains(normal(path))) return true;
  if (now_.contains(normal(path))) return false;
  return fail(Errc::not_found, "faulty: is_directory", ENOENT);
}

Result<uint64_t> FaultyFileSystem::free_bytes(const Path&) {
  std::lock_guard lock(mutex_);
  uint64_t in_use = used();
  return capacity_ > in_use ? capacity_ - in_use : 0;
}

bool FaultyFileSystem::overwrites_in_place(const Path&, std::string* name) {
  if (name != nullptr) *name = "memory";
  return true;
}

Result<std::unique_ptr<File>> FaultyFileSystem::open_device(const Path& path, bool write, std::string& trouble) {
  auto file = open(path, {.write = write});
  if (!file) trouble = path.string() + " is missing";
  return file;
}

void FaultyFileSystem::make_device(const Path& path, uint64_t size) {
  auto file = open(path, {.write = true, .create = true});
  const bool made = file && (*file)->truncate(size) && (*file)->datasync() && sync_directory(path.parent_path());
  if (!made) std::abort();
}

Result<std::unique_ptr<FileLock>> FaultyFileSystem::lock(const Path& path) {
  std::lock_guard lock(mutex_);
  if (!locked_.insert(normal(path)).second) return fail(Errc::would_block, "faulty: locked", EWOULDBLOCK);
  return std::make_unique<FaultyLock>(*this, normal(path));
}

}  // namespace verbena::store::local
