#include "server/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/fd.h"
#include "base/log.h"

namespace verbena::server {
namespace {

std::optional<uint64_t> number_of(const char* text) {
  if (text == nullptr) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  if (error != std::errc() || *end != '\0') return std::nullopt;
  return value;
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  ServiceManager manager;
  const char* socket = std::getenv("NOTIFY_SOCKET");
  if (socket != nullptr && (socket[0] == '/' || socket[0] == '@') &&
      std::strlen(socket) < sizeof(sockaddr_un::sun_path)) {
    manager.socket_ = socket;
  }
  const auto interval = number_of(std::getenv("WATCHDOG_USEC"));
  const char* pid = std::getenv("WATCHDOG_PID");
  const bool ours = pid == nullptr || number_of(pid) == static_cast<uint64_t>(::getpid());
  // At most a day.
  if (!manager.socket_.empty() && ours && interval && *interval >= 1000 && *interval <= 86'400'000'000) {
    manager.watchdog_ = std::chrono::microseconds(*interval);
  }
  return manager;
}

void ServiceManager::ready(std::string_view status) const { send("READY=1\nSTATUS=" + log::printable(status, 512)); }

void ServiceManager::reloading() const {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto us = static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
  send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(us));
}

void ServiceManager::stopping() const { send("STOPPING=1\nSTATUS=waiting for requests in flight"); }

void ServiceManager::alive() const { send("WATCHDOG=1"); }

void ServiceManager::send(const std::string& text) const {
  if (socket_.empty()) return;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  socket_.copy(to.sun_path, sizeof to.sun_path - 1);
  if (socket_[0] == '@') to.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd ||
      ::sendto(fd.get(), text.data(), text.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), size) < 0) {
    log::warn("server: NOTIFY_SOCKET: {}", std::strerror(errno));
  }
}

}  // namespace verbena::server
