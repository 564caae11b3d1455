// The folder of same-host sockets for a server without a data directory: its own, removed with it.
#pragma once

#include <expected>
#include <filesystem>
#include <string>
#include <utility>

namespace verbena::server {

class SocketFolder {
 public:
  // In $XDG_RUNTIME_DIR, or among the temporary files. Mode 0700. The error is a sentence for operators.
  static std::expected<SocketFolder, std::string> make();
  SocketFolder(SocketFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  SocketFolder& operator=(SocketFolder&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~SocketFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit SocketFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace verbena::server
