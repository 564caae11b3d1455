// What systemd wants to hear from a service (sd_notify(3)): ready, reloading, stopping, alive. The protocol is one
// datagram of text to the socket that NOTIFY_SOCKET names, and documented as stable: forty lines of ours instead of
// libsystemd, which would bring five libraries more into every process and every image.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::server {

class ServiceManager {
 public:
  // From NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. Where they are not set every call below does nothing.
  static ServiceManager from_environment();

  void ready(std::string_view status) const;
  void reloading() const;
  void stopping() const;
  void alive() const;
  // How often alive() is expected at most; nullopt: never.
  std::optional<std::chrono::microseconds> watchdog() const { return watchdog_; }

 private:
  void send(const std::string& text) const;
  std::string socket_;  // a path, or '@' and an abstract name; empty: nobody listens
  std::optional<std::chrono::microseconds> watchdog_;
};

}  // namespace verbena::server
