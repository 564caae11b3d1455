// Test support: a peer of libfabric's tcp provider that speaks its protocol by hand, and violates it. The layout is
// that of prov/tcp/src/xnet_proto.h (version 3 of the headers).
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"
#include "fabric/ofi/address.h"

namespace verbena::fabric::ofi::testing {

enum class TcpOp : uint8_t { message, tagged, read_request, read_response, write, tagged_rts, cts, data };

inline void append(std::vector<std::byte>& bytes, const void* from, size_t size) {
  const auto* at = static_cast<const std::byte*>(from);
  bytes.insert(bytes.end(), at, at + size);
}

// One header as the provider's own peers send it on a little-endian host; `size` is header and payload together.
struct TcpHeader {
  uint8_t version = 3;
  TcpOp op = TcpOp::message;
  uint16_t flags = 0;
  uint8_t op_data = 0;
  uint8_t regions = 0;
  uint8_t header_size = 16;
  uint8_t id = 0;
  uint64_t size = 16;
};
static_assert(sizeof(TcpHeader) == 16);

struct TcpRegion {
  uint64_t address = 0, size = 0, key = 0;
};

inline std::vector<std::byte> frame(const TcpHeader& header, const std::vector<TcpRegion>& regions = {},
                                    size_t payload = 0) {
  std::vector<std::byte> bytes;
  append(bytes, &header, sizeof header);
  for (const auto& region : regions) append(bytes, &region, sizeof region);
  bytes.resize(bytes.size() + payload, std::byte{0x5a});
  return bytes;
}

// Opens a connection (type 0), or answers that (1): a control header and the endpoint's own data.
inline std::vector<std::byte> hello(bool request, uint16_t claimed_size = 8, uint64_t endianness = 1) {
  struct {
    uint8_t version = 3, type;
    uint16_t size;
    uint32_t segment = 0;
    uint64_t connection = 0, message = 0, endianness;
    uint8_t protocol = 1, reserved = 0;
    uint16_t port;
    uint32_t pid;
  } wire{.type = static_cast<uint8_t>(request ? 0 : 1),
         .size = htons(claimed_size),
         .endianness = endianness,
         .port = htons(40'001),
         .pid = htonl(4242)};
  if (!request) wire.protocol |= 0x80;
  static_assert(sizeof wire == 40);
  std::vector<std::byte> bytes;
  append(bytes, &wire, sizeof wire);
  return bytes;
}

struct NamedBytes {
  std::string name;
  std::vector<std::byte> bytes;
};

// A valid answer to a write: a peer that acknowledges bytes which it has not taken harms only itself.
constexpr char acknowledgement[] = "an acknowledgement";

// Frames after the hello. The first two ended a process whose library trusts them.
inline std::vector<NamedBytes> hostile_frames() {
  std::vector<NamedBytes> all;
  const auto add = [&all](std::string name, std::vector<std::byte> bytes) {
    all.push_back({std::move(name), std::move(bytes)});
  };
  add("rendezvous data that nobody asked for, in a header that is too short",
      *from_hex("03070000000008000000000000000010"));
  add("clear-to-send of nothing", frame({.op = TcpOp::cts, .op_data = 7}));
  add("rendezvous data of nothing", frame({.op = TcpOp::data, .op_data = 9, .size = 48}, {}, 32));
  add("an operation that is none", frame({.op = static_cast<TcpOp>(200)}));
  add("the first operation that is none", frame({.op = static_cast<TcpOp>(8)}));
  add("another version", frame({.version = 9}));
  for (const int size : {0, 1, 15, 17, 24, 119, 121, 255}) {
    add("a header of " + std::to_string(size),
        frame({.header_size = static_cast<uint8_t>(size), .size = 4096}, {}, 300));
  }
  add("a size below its header", frame({.size = 3}));
  add("a size of 2^64 - 1", frame({.size = UINT64_MAX}, {}, 64));
  add(acknowledgement, frame({.op_data = 2}));
  add("a read response that nobody asked for", frame({.op = TcpOp::read_response, .size = 16 + 64}, {}, 64));
  add("a message larger than any receive", frame({.size = uint64_t{1} << 40}, {}, 100'000));
  add("a tagged message", frame({.op = TcpOp::tagged, .header_size = 24, .size = 40}, {}, 24));
  add("a tagged ready-to-send", frame({.op = TcpOp::tagged_rts, .op_data = 3, .header_size = 32, .size = 32}, {}, 16));
  for (const int regions : {0, 1, 4, 5, 255}) {
    const std::vector<TcpRegion> list(regions < 5 ? static_cast<size_t>(regions) : 4, TcpRegion{0, 16, 1});
    const auto header_size = static_cast<uint8_t>(16 + list.size() * sizeof(TcpRegion));
    const auto count = static_cast<uint8_t>(regions);
    const std::string what = std::to_string(regions) + " regions";
    add("a read of " + what,
        frame({.op = TcpOp::read_request, .regions = count, .header_size = header_size, .size = header_size}, list));
    add("a write to " + what,
        frame({.op = TcpOp::write, .regions = count, .header_size = header_size, .size = header_size + 64u}, list, 64));
    // With completion data (flag 1), which raises a completion at the target.
    add("a write with data to " + what, frame({.op = TcpOp::write,
                                               .flags = 1,
                                               .regions = count,
                                               .header_size = static_cast<uint8_t>(header_size + 8),
                                               .size = header_size + 8u},
                                              list, 8));
  }
  add("a write that wraps around the address space",
      frame({.op = TcpOp::write, .regions = 1, .header_size = 40, .size = UINT64_MAX},
            {{.address = 4096, .size = UINT64_MAX - 4095, .key = 0}}, 4096));
  add("half a header", std::vector<std::byte>(9, std::byte{3}));
  add("zeros", std::vector<std::byte>(4096));
  add("ones", std::vector<std::byte>(4096, std::byte{0xff}));
  // Requests acknowledgements and never reads them.
  std::vector<std::byte> many;
  for (int i = 0; i < 4000; ++i) {
    const auto one = frame({.op = TcpOp::read_request, .regions = 1, .header_size = 40, .size = 40}, {{0, 0, 1}});
    many.insert(many.end(), one.begin(), one.end());
  }
  add("four thousand reads", std::move(many));
  return all;
}

// First bytes of a connection that are no hello.
inline std::vector<NamedBytes> hostile_hellos(bool request) {
  std::vector<NamedBytes> all;
  auto whole = hello(request);
  all.push_back({"a header whose data never comes", {whole.begin(), whole.begin() + 32}});
  all.push_back({"a header whose 256 bytes never come", hello(request, 256)});
  all.push_back({"more data than there may be", hello(request, 0xffff)});
  all.push_back({"no data", [&] {
                   auto bytes = hello(request, 0);
                   bytes.resize(32);
                   return bytes;
                 }()});
  all.push_back({"one byte", {std::byte{3}}});
  all.push_back({"another type", hello(!request)});
  all.push_back({"HTTP", [] {
                   const std::string text = "GET / HTTP/1.1\r\nHost: verbena\r\nAccept: */*\r\n\r\n";
                   std::vector<std::byte> bytes;
                   append(bytes, text.data(), text.size());
                   return bytes;
                 }()});
  return all;
}

// Reads from the peer until it is silent for `limit`, has sent `enough` or hangs up.
inline size_t drain(int fd, int limit_ms, size_t enough = SIZE_MAX) {
  size_t total = 0;
  char bytes[4096];
  for (pollfd entry{fd, POLLIN, 0}; total < enough && ::poll(&entry, 1, limit_ms) == 1;) {
    const ssize_t n = ::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n <= 0) break;
    total += static_cast<size_t>(n);
  }
  return total;
}

// Likewise for a peer that owes an answer: its first byte may take as long as a busy machine needs.
inline size_t drain_answer(int fd, int limit_ms) {
  pollfd entry{fd, POLLIN, 0};
  ::poll(&entry, 1, 5000);
  return drain(fd, limit_ms);
}

// Never waits for a peer that does not read.
inline void send_all(int fd, Bytes bytes) {
  while (!bytes.empty()) {
    pollfd entry{fd, POLLOUT, 0};
    if (::poll(&entry, 1, 200) != 1) return;
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0) return;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

// Connects to an endpoint by its name. Closed when it is not accepted in time.
inline Fd connect_to(std::string_view name, int limit_ms = 300) {
  Fd fd(
      ::socket(name.size() == sizeof(sockaddr_in) ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const std::string kept(name);
  ::connect(fd.get(), reinterpret_cast<const sockaddr*>(kept.data()), static_cast<socklen_t>(kept.size()));
  pollfd entry{fd.get(), POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  if (::poll(&entry, 1, limit_ms) != 1 || ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 ||
      error != 0) {
    return Fd();
  }
  return fd;
}

// A listener on a free port of `address`, which a token can name.
class HostileListener {
 public:
  explicit HostileListener(const std::string& address = "127.0.0.1")
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    ::inet_pton(AF_INET, address.c_str(), &in.sin_addr);
    socklen_t size = sizeof in;
    ::bind(fd_.get(), reinterpret_cast<sockaddr*>(&in), size);
    ::listen(fd_.get(), 16);
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&in), &size);
    name_.assign(reinterpret_cast<const char*>(&in), sizeof in);
  }
  const std::string& name() const { return name_; }
  // Closed when no peer connects in time.
  Fd accept(int limit_ms) {
    pollfd entry{fd_.get(), POLLIN, 0};
    if (::poll(&entry, 1, limit_ms) != 1) return Fd();
    return Fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  Fd fd_;
  std::string name_;
};

// The owner of a window that answers every connection of the server with `hello`, then with `bytes`, as long as this
// lives. A server connects again when its first connection breaks.
class HostileOwner {
 public:
  HostileOwner(HostileListener& listener, std::vector<std::byte> hello, std::vector<std::byte> bytes)
      : listener_(listener), hello_(std::move(hello)), bytes_(std::move(bytes)), thread_([this] { answer(); }) {}
  ~HostileOwner() {
    stopping_ = true;
    thread_.join();
  }
  unsigned calls() const { return calls_; }

 private:
  void answer() {
    while (!stopping_) {
      const Fd fd = listener_.accept(5);
      if (!fd) continue;
      if (drain(fd.get(), 5000, 40) == 0) continue;  // the server has hung up
      ++calls_;
      send_all(fd.get(), hello_);
      drain(fd.get(), 5);
      send_all(fd.get(), bytes_);
      drain(fd.get(), 20);
    }
  }

  HostileListener& listener_;
  const std::vector<std::byte> hello_, bytes_;
  std::atomic<bool> stopping_{false};
  std::atomic<unsigned> calls_{0};
  std::thread thread_;
};

}  // namespace verbena::fabric::ofi::testing
