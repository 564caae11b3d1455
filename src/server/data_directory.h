// The data directory: made if missing, owned by one server at a time, and home of the root credentials.
#pragma once

#include <expected>
#include <filesystem>
#include <string>

#include "auth/auth.h"

namespace verbena::server {

// Holds an exclusive lock on DIR/server.lock while it lives.
class DataDirectory {
 public:
  // Makes the directory (mode 0700) if it is missing, and removes other users' permissions on it and on its contents:
  // keys, names, policies and small objects are stored unencrypted. From then on the process makes files for its own
  // user alone (umask 077). The error is a sentence for operators.
  static std::expected<DataDirectory, std::string> open(const std::filesystem::path& path);
  DataDirectory(DataDirectory&& other) noexcept;
  DataDirectory& operator=(DataDirectory&&) = delete;
  ~DataDirectory();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path identities() const { return path_ / "identities.json"; }  // accounts, users, keys
  std::filesystem::path master_keys() const { return path_ / "master.keys"; }     // encrypt the secrets in identities
  std::filesystem::path master_key_ids() const { return path_ / "master.ids"; }

 private:
  DataDirectory(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::filesystem::path path_;
  int lock_ = -1;
};

struct RootKeys {
  auth::Credentials credentials;
  enum class From { environment, file, generated } from = From::file;
};

// The root keys: VERBENA_ROOT_ACCESS_KEY and VERBENA_ROOT_SECRET_KEY (both or neither), else DIR/credentials, else new
// ones that are written there with mode 0600 before their first use.
std::expected<RootKeys, std::string> root_keys(const DataDirectory& directory);
// Likewise without a directory: new keys are not written anywhere.
std::expected<RootKeys, std::string> root_keys_in_memory();

}  // namespace verbena::server
