// The file of a Unix socket.
#pragma once

#include <string>

#include "base/result.h"
#include "fabric/local/fd.h"

namespace verbena::fabric::local {

struct Listener {
  Fd socket;
  uint64_t device = 0, inode = 0;  // of the socket file, so that only our own is removed at the end
};

// Listens at `path` (SOCK_SEQPACKET, non-blocking, mode 0666). A socket file without a listener is replaced atomically;
// one with a listener, or a file of another kind, is an error and stays.
Result<Listener> listen_at(const std::string& path);
void remove_socket_file(const std::string& path, uint64_t device, uint64_t inode);

// Connects a new non-blocking SOCK_SEQPACKET socket. would_block when the listener's backlog is full.
Result<Fd> connect_to(const std::string& path);

}  // namespace verbena::fabric::local
