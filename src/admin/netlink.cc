#include "admin/netlink.h"

#include <linux/genetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <span>
#include <string>

namespace verbena::admin {

Netlink::Netlink(int protocol) : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol)) {
  const timeval second{.tv_sec = 1, .tv_usec = 0};
  if (fd_) ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
}

Netlink::~Netlink() { ::explicit_bzero(answer_.data(), answer_.size()); }

bool Netlink::send(uint16_t type, uint16_t flags, Bytes body) {
  if (!fd_) return false;
  std::vector<std::byte> message(NLMSG_HDRLEN + body.size());
  const nlmsghdr head{.nlmsg_len = static_cast<uint32_t>(message.size()),
                      .nlmsg_type = type,
                      .nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags),
                      .nlmsg_seq = 1,
                      .nlmsg_pid = 0};
  std::memcpy(message.data(), &head, sizeof head);
  std::ranges::copy(body, message.begin() + NLMSG_HDRLEN);
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  return ::sendto(fd_.get(), message.data(), message.size(), 0, reinterpret_cast<const sockaddr*>(&kernel),
                  sizeof kernel) == static_cast<ssize_t>(message.size());
}

// Other processes may send to this socket, too: what they say is passed over.
Bytes Netlink::receive() {
  for (int i = 0; fd_ && i < answers_max; ++i) {
    sockaddr_nl from{};
    socklen_t from_size = sizeof from;
    const ssize_t got = ::recvfrom(fd_.get(), answer_.data(), answer_.size(), MSG_TRUNC,
                                   reinterpret_cast<sockaddr*>(&from), &from_size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || static_cast<size_t>(got) > answer_.size()) return {};
    if (from_size == sizeof from && from.nl_pid == 0) return Bytes(answer_).first(static_cast<size_t>(got));
  }
  return {};
}

int error_of(Bytes message) {
  nlmsghdr head{};
  int error = 0;
  if (message.size() < NLMSG_HDRLEN + sizeof error) return 0;
  std::memcpy(&head, message.data(), sizeof head);
  if (head.nlmsg_type != NLMSG_ERROR) return 0;
  std::memcpy(&error, message.data() + NLMSG_HDRLEN, sizeof error);
  return -error;
}

std::vector<std::byte> netlink_attribute(uint16_t type, Bytes value) {
  const nlattr head{.nla_len = static_cast<uint16_t>(NLA_HDRLEN + value.size()), .nla_type = type};
  std::vector<std::byte> out(NLA_HDRLEN + NLA_ALIGN(value.size()));
  std::memcpy(out.data(), &head, sizeof head);
  std::ranges::copy(value, out.begin() + NLA_HDRLEN);
  return out;
}

std::optional<uint16_t> netlink_family(std::string_view name) {
  Netlink netlink(NETLINK_GENERIC);
  const genlmsghdr head{.cmd = CTRL_CMD_GETFAMILY, .version = 1, .reserved = 0};
  const auto head_bytes = std::as_bytes(std::span(&head, 1));
  std::vector<std::byte> request(head_bytes.begin(), head_bytes.end());
  const std::string with_end = std::string(name) + '\0';
  const auto attribute = netlink_attribute(CTRL_ATTR_FAMILY_NAME, as_bytes(with_end));
  request.insert(request.end(), attribute.begin(), attribute.end());
  if (!netlink.send(GENL_ID_CTRL, 0, request)) return std::nullopt;
  const Bytes answer = netlink.receive();
  if (error_of(answer) == ENOENT) return 0;
  std::optional<uint16_t> family;
  each_message<genlmsghdr>(answer, GENL_ID_CTRL, [&](const genlmsghdr&, Bytes attributes) {
    each_attribute(attributes, [&](int type, Bytes body) {
      if (type == CTRL_ATTR_FAMILY_ID) family = number_in<uint16_t>(body);
    });
    return true;
  });
  return family;
}

}  // namespace verbena::admin
