// A directory for tests, on a port of its own: it accepts the password "right" for any name, and returns an entry with
// the requested uid.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "sign_in/directory_settings.h"

namespace verbena::sign_in {

class TestDirectory {
 public:
  TestDirectory() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_.get(), 64) != 0 ||
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      std::abort();
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { accept(); });
  }
  ~TestDirectory() {
    hold(false);
    stopping_ = true;
    thread_.join();
    for (auto& one : serving_) one.join();
  }

  DirectorySettings settings() const {
    DirectorySettings out;
    out.name = "directory";
    out.tag = "tag";
    out.host = "127.0.0.1";
    out.port = port_;
    out.tls = DirectorySettings::Tls::none;
    out.user_dn = "uid=%s,o=x";
    out.user_attribute = "uid";
    out.timeout = std::chrono::seconds(60);
    return out;
  }
  int binds() const { return binds_; }
  // Makes it report, below "ou=groups", that another directory has some.
  void refer(bool on) { refers_ = on; }
  // Holds all answers back while on.
  void hold(bool on) {
    const std::lock_guard lock(mutex_);
    held_ = on;
    let_go_.notify_all();
  }
  bool wait_for_binds(int count) const {
    const Deadline end = deadline_in(std::chrono::seconds(60));
    while (binds_ < count && SteadyClock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return binds_ >= count;
  }

 private:
  static std::string ber(int tag, std::string_view body) {
    std::string out(1, static_cast<char>(tag));
    if (body.size() >= 128) out += '\x81';  // at most 255 here
    return out.append(1, static_cast<char>(body.size())).append(body);
  }
  static std::string result(int tag, char code) {
    return ber(tag, ber(0x0a, std::string_view(&code, 1)) + ber(4, "") + ber(4, ""));
  }
  // Removes the first element from `text` and returns its contents.
  static std::string_view take(std::string_view& text, int* tag = nullptr) {
    if (text.size() < 2) return {};
    if (tag != nullptr) *tag = static_cast<unsigned char>(text[0]);
    size_t size = static_cast<unsigned char>(text[1]), at = 2;
    if (size > 127) {
      size_t digits = size & 127;
      for (size = 0; digits-- > 0 && at < text.size(); ++at) size = size << 8 | static_cast<unsigned char>(text[at]);
    }
    const std::string_view body = text.substr(std::min(at, text.size()), size);
    text.remove_prefix(std::min(at + size, text.size()));
    return body;
  }
  bool wait_for(int fd) const {
    while (!stopping_) {
      pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
      if (::poll(&wanted, 1, 20) > 0) return true;
    }
    return false;
  }
  void accept() {
    while (wait_for(listener_.get())) {
      Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd) continue;
      serving_.emplace_back([this, own = std::move(fd)] { serve(own.get()); });
    }
  }
  void serve(int fd) {
    char bytes[4096];
    while (wait_for(fd)) {
      const ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);  // one message: its peer waits for the answer
      if (n <= 0) return;
      std::string_view text(bytes, static_cast<size_t>(n));
      std::string_view message = take(text);
      const std::string id(take(message));
      int operation = 0;
      const std::string_view request = take(message, &operation);
      const std::string out = answer(operation, id, request);
      if (out.empty() || ::send(fd, out.data(), out.size(), MSG_NOSIGNAL) < 0) return;
    }
  }
  std::string answer(int operation, const std::string& id, std::string_view request) {
    const auto whole = [&](const std::string& body) { return ber(0x30, ber(2, id) + body); };
    if (operation == 0x60) {
      ++binds_;
      std::unique_lock lock(mutex_);
      let_go_.wait(lock, [this] { return !held_; });
      (void)take(request);  // the version
      (void)take(request);  // the name
      return whole(result(0x61, take(request) == "right" ? 0 : 49));
    }
    if (operation != 0x63) return {};
    const std::string base(take(request));
    const std::string done = whole(result(0x65, 0));
    if (base == "ou=groups") {
      const std::string group = whole(ber(0x64, ber(4, "cn=dev,o=x") + ber(0x30, "")));
      return group + (refers_ ? whole(ber(0x73, ber(4, "ldap://elsewhere/ou=groups"))) : "") + done;
    }
    const std::string name = base.substr(4, base.find(',') - 4);
    return whole(ber(0x64, ber(4, base) + ber(0x30, ber(0x30, ber(4, "uid") + ber(0x31, ber(4, name)))))) + done;
  }

  Fd listener_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_ = false, refers_ = false;
  std::atomic<int> binds_ = 0;
  std::mutex mutex_;
  std::condition_variable let_go_;
  bool held_ = false;
  std::vector<std::thread> serving_;
  std::thread thread_;
};

}  // namespace verbena::sign_in
