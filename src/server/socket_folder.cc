#include "server/socket_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace verbena::server {

std::expected<SocketFolder, std::string> SocketFolder::make() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::error_code ignored;
  std::filesystem::path parent = runtime != nullptr && *runtime != 0 ? runtime : "";
  if (!std::filesystem::is_directory(parent, ignored)) parent = std::filesystem::temp_directory_path(ignored);
  std::string name = (parent / "verbena-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return std::unexpected("cannot make " + name + ": " + std::strerror(errno));
  return SocketFolder(name);
}

SocketFolder::~SocketFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace verbena::server
