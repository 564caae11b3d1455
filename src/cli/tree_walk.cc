#include "cli/tree_walk.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "client/outcome.h"

namespace verbena::cli {

using client::fault;

namespace {

namespace fs = std::filesystem;

// Not to be passed over: `sync --delete` would take it for a file that was removed.
std::unexpected<ClientError> unreadable(const fs::path& path, const char* why) {
  return fault(ErrorCode::local_error, path.string() + ": " + why);
}

TreeEntry entry_of(std::string relative, const struct stat& status) {
  return {std::move(relative), static_cast<uint64_t>(status.st_size),
          status.st_mtim.tv_sec * 1'000'000 + status.st_mtim.tv_nsec / 1'000};
}

class FolderWalk : public TreeWalk {
 public:
  explicit FolderWalk(bool follow_links) : follow_links_(follow_links) {}

  Outcome<> enter(const fs::path& folder, std::string prefix) {
    struct stat status{};
    if (::stat(folder.c_str(), &status) != 0) return unreadable(folder, std::strerror(errno));
    Level level{folder, std::move(prefix), {}, 0, status.st_dev, status.st_ino};
    const auto is_it = [&](const Level& above) { return above.device == level.device && above.inode == level.inode; };
    if (std::ranges::any_of(levels_, is_it)) return unreadable(folder, "is a link to a folder that it lies in");
    std::error_code ec;
    for (fs::directory_iterator at(folder, ec); !ec && at != fs::directory_iterator(); at.increment(ec)) {
      std::error_code unknown;
      std::string name = at->path().filename().string();
      const auto type = at->symlink_status(unknown).type();
      if (type == fs::file_type::not_found) continue;  // removed meanwhile
      if (type == fs::file_type::none) return unreadable(at->path(), unknown.message().c_str());
      const bool followed = follow_links_ && type == fs::file_type::symlink;
      // What cannot be known of a link's target next() finds out again, and reports.
      if (type == fs::file_type::directory || (followed && at->is_directory(unknown))) name += '/';
      level.names.push_back(std::move(name));
    }
    if (ec) return unreadable(folder, ec.message().c_str());
    // In the order of keys: a folder's files have its name and a '/' before theirs.
    std::ranges::sort(level.names);
    levels_.push_back(std::move(level));
    return {};
  }

  Outcome<std::optional<TreeEntry>> next() override {
    while (!levels_.empty()) {
      Level& level = levels_.back();
      if (level.at == level.names.size()) {
        levels_.pop_back();
        continue;
      }
      const std::string& name = level.names[level.at++];
      const fs::path path = level.folder / name;
      if (name.ends_with('/')) {
        OUT_TRY(
            enter(path.parent_path(), level.prefix + name));  // path ends with '/': its parent is itself without that
        continue;
      }
      struct stat status{};
      if (::stat(path.c_str(), &status) != 0) {
        if (errno == ENOENT) continue;  // removed meanwhile, or a link to nothing
        return unreadable(path, std::strerror(errno));
      }
      if (!S_ISREG(status.st_mode)) continue;
      return entry_of(level.prefix + name, status);
    }
    return std::nullopt;
  }

  bool passable() const override { return true; }
  bool exists() const override { return true; }

 private:
  struct Level {
    fs::path folder;
    std::string prefix;
    std::vector<std::string> names;
    size_t at;
    dev_t device;
    ino_t inode;
  };
  const bool follow_links_;
  std::vector<Level> levels_;
};

class PrefixWalk : public TreeWalk {
 public:
  PrefixWalk(const Client& client, S3Address below) : client_(client), below_(std::move(below)) {
    options_.prefix = below_.key;
  }

  Outcome<std::optional<TreeEntry>> next() override {
    for (;;) {
      if (at_ == page_.objects.size()) {
        if (last_) return std::nullopt;
        OUT_ASSIGN(page_, client_.list(below_.bucket, options_));
        at_ = 0;
        last_ = !page_.truncated;
        options_.continuation = page_.continuation;
        continue;
      }
      const ObjectInfo& info = page_.objects[at_++];
      if (!info.key.starts_with(below_.key)) {
        return fault(ErrorCode::malformed_reply, "the server listed keys that were not requested");
      }
      seen_ = true;
      std::string relative = info.key.substr(below_.key.size());
      if (relative.empty() || relative.ends_with('/')) continue;
      const auto when = info.last_modified.time_since_epoch();
      return TreeEntry{std::move(relative), info.size,
                       std::chrono::duration_cast<std::chrono::microseconds>(when).count()};
    }
  }

  bool passable() const override { return false; }  // the listing would fail again
  bool exists() const override { return seen_ || below_.key.empty(); }

 private:
  const Client& client_;
  const S3Address below_;
  bool seen_ = false;
  ListOptions options_;
  ListPage page_;
  size_t at_ = 0;
  bool last_ = false;
};

}  // namespace

std::optional<TreeEntry> file_at(const fs::path& path, std::string relative) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return entry_of(std::move(relative), status);
}

Outcome<std::unique_ptr<TreeWalk>> walk_folder(const fs::path& folder, FolderWalkOptions options) {
  auto walk = std::make_unique<FolderWalk>(options.follow_links);
  std::error_code ec;
  const auto type = fs::status(folder, ec).type();
  if (type == fs::file_type::not_found) {
    if (!options.may_be_missing) return fault(ErrorCode::no_such_key, folder.string() + ": no such folder");
    return walk;
  }
  if (type != fs::file_type::directory) {
    return fault(ErrorCode::invalid_argument, folder.string() + ": is no folder");
  }
  OUT_TRY(walk->enter(folder, ""));
  return walk;
}

std::unique_ptr<TreeWalk> walk_prefix(const Client& client, const S3Address& below) {
  return std::make_unique<PrefixWalk>(client, below);
}

}  // namespace verbena::cli
