// Notifications to systemd (sd_notify(3)): ready, reloading, stopping, alive. The protocol is one datagram of text to
// the socket in NOTIFY_SOCKET, and documented as stable: forty lines of ours instead of libsystemd, which would add
// five libraries to every process and every image.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::server {

class ServiceManager {
 public:
  // From NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. If they are not set every call below does nothing.
  static ServiceManager from_environment();

  void ready(std::string_view status) const;
  void reloading() const;
  void stopping() const;
  void alive() const;
  // The longest expected interval between calls of alive(); nullopt: none.
  std::optional<std::chrono::microseconds> watchdog() const { return watchdog_; }

 private:
  void send(const std::string& text) const;
  std::string socket_;  // a path, or '@' and an abstract name; empty: none
  std::optional<std::chrono::microseconds> watchdog_;
};

}  // namespace verbena::server
