// For tests: messages as the kernel's netlink sends them, whole and damaged.
#pragma once

#include <linux/netlink.h>

#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace verbena::admin {

inline void append_bytes(std::vector<std::byte>& to, const void* from, size_t size, size_t padded) {
  const auto* const bytes = static_cast<const std::byte*>(from);
  to.insert(to.end(), bytes, bytes + size);
  to.resize(to.size() + padded - size);
}

// A netlink attribute with that content.
template <class T>
void append_attribute(std::vector<std::byte>& to, uint16_t type, const T& content) {
  const nlattr head{.nla_len = NLA_HDRLEN + sizeof content, .nla_type = type};
  append_bytes(to, &head, sizeof head, NLA_HDRLEN);
  append_bytes(to, &content, sizeof content, NLA_ALIGN(sizeof content));
}

inline void append_attribute(std::vector<std::byte>& to, uint16_t type, const std::vector<std::byte>& content) {
  const nlattr head{.nla_len = static_cast<uint16_t>(NLA_HDRLEN + content.size()), .nla_type = type};
  append_bytes(to, &head, sizeof head, NLA_HDRLEN);
  append_bytes(to, content.data(), content.size(), NLA_ALIGN(content.size()));
}

inline std::vector<std::byte> message(uint16_t type, const std::vector<std::byte>& body, uint16_t flags = NLM_F_MULTI) {
  std::vector<std::byte> out;
  const nlmsghdr head{.nlmsg_len = static_cast<uint32_t>(NLMSG_HDRLEN + body.size()),
                      .nlmsg_type = type,
                      .nlmsg_flags = flags,
                      .nlmsg_seq = 1,
                      .nlmsg_pid = 0};
  append_bytes(out, &head, sizeof head, NLMSG_HDRLEN);
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

// The end of a dump; with an error's number: it broke off.
inline std::vector<std::byte> end_of_dump(int error = 0) {
  std::vector<std::byte> body;
  append_bytes(body, &error, sizeof error, sizeof error);
  return message(NLMSG_DONE, body);
}

// Calls `read` with many versions of the bytes: cut anywhere, and with bytes changed. Each has memory of its own exact
// size, so that the address sanitizer sees a read past it.
template <class Read>
void with_damage(const std::vector<std::byte>& good, Read read) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bad(good.begin(), good.begin() + static_cast<ptrdiff_t>(random() % (good.size() + 1)));
    for (int n = 0; n < 3 && !bad.empty(); ++n) bad[random() % bad.size()] = static_cast<std::byte>(random());
    bad.shrink_to_fit();
    read(Bytes(bad));
  }
}

}  // namespace verbena::admin
