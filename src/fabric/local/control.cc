#include "fabric/local/control.h"

#include <errno.h>
#include <sys/socket.h>

#include <cstring>

namespace verbena::fabric::local {

namespace {

// SCM_MAX_FD of the kernel. Always enough room, so that the kernel never has to drop (and close, on our thread) some.
constexpr size_t descriptors_max = 253;

bool is_right(const ControlMessage& message, size_t descriptors) {
  switch (message.type) {
    case ControlType::welcome:
      return descriptors == 2;
    case ControlType::share:
      return descriptors == 1;
    case ControlType::hand_over:
      return descriptors != 0 && descriptors <= handed_over_max && message.a == descriptors;
    default:
      return descriptors == 0;
  }
}

}  // namespace

Result<ControlMessage> parse_control(Bytes packet) {
  ControlMessage message;
  if (packet.size() != sizeof message) return fail(Errc::malformed, "local: control packet size");
  std::memcpy(static_cast<void*>(&message), packet.data(), sizeof message);
  if (message.magic != ControlMessage::magic_value) return fail(Errc::malformed, "local: control packet magic");
  if (message.version != ControlMessage::version_value) return fail(Errc::unsupported, "local: protocol version");
  if (message.type < ControlType::hello || message.type > ControlType::hand_over) {
    return fail(Errc::malformed, "local: control packet type");
  }
  return message;
}

Result<ControlMessage> parse_control(Bytes packet, size_t descriptors) {
  VB_ASSIGN(const ControlMessage message, parse_control(packet));
  if (!is_right(message, descriptors)) return fail(Errc::malformed, "local: control packet descriptors");
  return message;
}

Result<Packet> receive_packet(int socket) {
  std::byte buffer[sizeof(ControlMessage) + 1];
  alignas(cmsghdr) char control[CMSG_SPACE(descriptors_max * sizeof(int)) + CMSG_SPACE(sizeof(ucred))];
  iovec io{buffer, sizeof buffer};
  msghdr header{};
  header.msg_iov = &io;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t received;
  do {
    received = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return fail(Errc::would_block, "local: receive");

  Packet packet;
  packet.cut_off = received >= 0 && (header.msg_flags & MSG_CTRUNC) != 0;
  if (received > 0) packet.bytes.assign(buffer, buffer + received);
  for (cmsghdr* c = received < 0 ? nullptr : CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      packet.descriptors.emplace_back(fd);
    }
  }
  // No valid packet is empty, so an empty one is treated as the end; with descriptors it is malformed.
  if (received < 0 || (received == 0 && packet.descriptors.empty())) {
    return fail(Errc::closed, "local: peer closed the socket", received < 0 ? errno : 0);
  }
  return packet;
}

Result<void> send_control(int socket, const ControlMessage& message, std::span<const int> descriptors) {
  alignas(cmsghdr) char control[CMSG_SPACE(handed_over_max * sizeof(int))] = {};
  if (descriptors.size() > handed_over_max) return fail(Errc::invalid_argument, "local: too many descriptors");
  iovec io{const_cast<ControlMessage*>(&message), sizeof message};
  msghdr header{};
  header.msg_iov = &io;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(c), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent;
  do {
    sent = ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {};
  // ETOOMANYREFS: too many descriptors of this user are in flight in sockets; the number drops as they are received.
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS) {
    return fail(Errc::would_block, "local: send", errno);
  }
  return fail(Errc::closed, "local: send", errno);
}

}  // namespace verbena::fabric::local
