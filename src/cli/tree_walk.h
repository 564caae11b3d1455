// The files below a folder or a prefix, in byte order of the names: two of these walks side by side give the
// differences.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/s3_address.h"
#include "verbena/client.h"

namespace verbena::cli {

struct TreeEntry {
  std::string relative;  // "sub/file", relative to the folder or prefix
  uint64_t size = 0;
  int64_t modified_us = 0;  // since the Unix epoch
};

class TreeWalk {
 public:
  virtual ~TreeWalk() = default;
  // nullopt at the end. If errors are `passable()`, the next call goes on behind the file or folder that had one.
  virtual Outcome<std::optional<TreeEntry>> next() = 0;
  virtual bool passable() const = 0;
  // At the end: whether the place exists, empty or not. A prefix without keys may be a typing error.
  virtual bool exists() const = 0;
};

struct FolderWalkOptions {
  bool may_be_missing = false;  // else a missing folder is no_such_key
  // Links to folders: followed, and one to a folder that it lies in is an error; or passed over, since what is behind
  // them does not belong to this folder.
  bool follow_links = true;
};
// The regular file there, also through links. nullopt: there is none, or nothing can be said of it.
std::optional<TreeEntry> file_at(const std::filesystem::path& path, std::string relative);
// Regular files, also through links.
Outcome<std::unique_ptr<TreeWalk>> walk_folder(const std::filesystem::path& folder, FolderWalkOptions options);

// Objects whose key begins with `below.key`, which is empty or ends with '/'. Folder markers are left out.
std::unique_ptr<TreeWalk> walk_prefix(const Client& client, const S3Address& below);

}  // namespace verbena::cli
