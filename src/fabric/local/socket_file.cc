#include "fabric/local/socket_file.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace verbena::fabric::local {

namespace {

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path || path.find('\0') != std::string::npos) {
    return fail(Errc::bad_config, "local: a socket path has 1 to 107 bytes (103 to listen on)");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<Fd> new_socket() {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail(Errc::io_error, "local: socket", errno);
  return socket;
}

// Succeeds if the path is free, or a socket without a listener.
Result<void> may_replace(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return {};
    return fail(Errc::io_error, "local: stat of the socket path", errno);
  }
  if (!S_ISSOCK(status.st_mode))
    return fail(Errc::bad_config, "local: the socket path is taken by another kind of file");
  auto probe = connect_to(path);
  if (probe || probe.error() == Errc::would_block) {
    return fail(Errc::bad_config, "local: another server listens on the socket path", EADDRINUSE);
  }
  if (probe.error().sys != ECONNREFUSED && probe.error().sys != ENOENT) return std::unexpected(probe.error());
  return {};
}

}  // namespace

Result<Listener> listen_at(const std::string& path) {
  VB_TRY(may_replace(path));
  // Made under another name and renamed: clients see the old file or a ready one.
  const std::string fresh = path + ".new";
  VB_ASSIGN(const sockaddr_un address, address_of(fresh));
  Listener listener;
  VB_ASSIGN(listener.socket, new_socket());
  ::unlink(fresh.c_str());
  if (::bind(listener.socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail(Errc::io_error, "local: bind", errno);
  }
  // Any local user may connect: the signed session on top decides about access.
  struct stat status{};
  if (::chmod(fresh.c_str(), 0666) != 0 || ::listen(listener.socket.get(), 128) != 0 ||
      ::lstat(fresh.c_str(), &status) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(fresh.c_str());
    return fail(Errc::io_error, "local: listen", error);
  }
  listener.device = status.st_dev;
  listener.inode = status.st_ino;
  return listener;
}

void remove_socket_file(const std::string& path, uint64_t device, uint64_t inode) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0 && status.st_dev == device && status.st_ino == inode) ::unlink(path.c_str());
}

Result<Fd> connect_to(const std::string& path) {
  VB_ASSIGN(const sockaddr_un address, address_of(path));
  VB_ASSIGN(Fd socket, new_socket());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail(errno == EAGAIN ? Errc::would_block : Errc::connection_failed, "local: connect", errno);
  }
  return socket;
}

}  // namespace verbena::fabric::local
