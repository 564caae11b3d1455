#include "fabric/ofi/tcp_sockets.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <vector>

#include "fabric/ofi/address.h"

namespace verbena::fabric::ofi {
namespace {

constexpr int near_descriptors = 64;  // an endpoint opens a handful

bool has_local_name(int fd, const EndpointAddress& address) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return false;
  return decode_socket_name({reinterpret_cast<const char*>(&own), size}) == address;
}

bool is_listener(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
}

std::vector<int> open_descriptors() {
  std::vector<int> fds;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename();
    int fd = -1;
    if (std::from_chars(name.data(), name.data() + name.size(), fd).ec == std::errc{}) fds.push_back(fd);
  }
  return fds;
}

bool drop_everything(int fd) {
  sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

}  // namespace

int next_descriptor() {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) ::close(fd);
  return fd;
}

bool refuse_connections(std::string_view name, int first_descriptor) {
  const auto address = decode_socket_name(name);
  if (!address) return false;
  const int first = first_descriptor < 0 ? 0 : first_descriptor;
  for (int fd = first; fd < first + near_descriptors; ++fd) {
    if (is_listener(fd) && has_local_name(fd, *address)) return drop_everything(fd);
  }
  for (const int fd : open_descriptors()) {
    if (is_listener(fd) && has_local_name(fd, *address)) return drop_everything(fd);
  }
  return false;
}

size_t cut_stalled_connections(std::string_view name, std::chrono::milliseconds limit) {
  const auto address = decode_socket_name(name);
  if (!address) return 0;
  size_t cut = 0;
  for (const int fd : open_descriptors()) {
    if (!has_local_name(fd, *address) || is_listener(fd)) continue;
    tcp_info info{};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    // Probes of a closed window are not data: only a peer that does not read gets here.
    int unsent = 0;
    if (ioctl(fd, SIOCOUTQNSD, &unsent) != 0 || unsent == 0) continue;
    if (info.tcpi_last_data_sent < limit.count()) continue;
    if (shutdown(fd, SHUT_RDWR) == 0) ++cut;
  }
  return cut;
}

}  // namespace verbena::fabric::ofi
