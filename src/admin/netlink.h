// Questions to the kernel by netlink, and how its answers are read. Nothing is read past a length that a message or an
// attribute lies about. Internal to admin/.
#pragma once

#include <linux/netlink.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"

namespace verbena::admin {

// A datagram of a dump.
enum class Dump : uint8_t {
  goes_on,     // more follow
  done,        // the last message was in it
  unreadable,  // a message lies about its length, is an error, or says that the dump is not whole
};

// One socket. The kernel works on most questions inside send(); an answer is then waited for at most a second.
class Netlink {
 public:
  explicit Netlink(int protocol);
  ~Netlink();  // wipes what came: IPsec's associations have keys
  Netlink(const Netlink&) = delete;
  Netlink& operator=(const Netlink&) = delete;
  bool send(uint16_t type, uint16_t flags, Bytes body);
  // The next datagram of the kernel, valid until the next call; empty: none came, or one that is too large.
  Bytes receive();

 private:
  Fd fd_;
  alignas(nlmsghdr) std::array<std::byte, 32 * 1024> answer_{};
};

// The error number of a message of type NLMSG_ERROR; 0: an acknowledgement, or another message.
int error_of(Bytes message);

// The number of a family of generic netlink. 0: the kernel has none of that name; nullopt: it does not say.
std::optional<uint16_t> netlink_family(std::string_view name);

// A request's attribute, padded.
std::vector<std::byte> netlink_attribute(uint16_t type, Bytes value);

// Calls `use` with type and body of each attribute, until one lies about its length.
template <class Use>
void each_attribute(Bytes attributes, Use use) {
  while (attributes.size() >= NLA_HDRLEN) {
    nlattr head{};
    std::memcpy(&head, attributes.data(), sizeof head);
    if (head.nla_len < NLA_HDRLEN || head.nla_len > attributes.size()) return;
    use(head.nla_type & NLA_TYPE_MASK, attributes.first(head.nla_len).subspan(NLA_HDRLEN));
    attributes = attributes.subspan(std::min<size_t>(NLA_ALIGN(head.nla_len), attributes.size()));
  }
}

// A number of exactly that width; nullopt: the attribute has another.
template <class Number>
std::optional<Number> number_in(Bytes attribute) {
  if (attribute.size() != sizeof(Number)) return std::nullopt;
  Number value{};
  std::memcpy(&value, attribute.data(), sizeof value);
  return value;
}

// Reads messages of `type`, which begin with an `Info`. `make` gets it and the attributes behind it, and returns false
// for what it does not take.
template <class Info, class Make>
Dump each_message(Bytes messages, uint16_t type, Make make) {
  while (messages.size() >= NLMSG_HDRLEN) {
    nlmsghdr head{};
    std::memcpy(&head, messages.data(), sizeof head);
    if (head.nlmsg_len < NLMSG_HDRLEN || head.nlmsg_len > messages.size()) return Dump::unreadable;
    if ((head.nlmsg_flags & NLM_F_DUMP_INTR) != 0 || head.nlmsg_type == NLMSG_ERROR) return Dump::unreadable;
    const Bytes body = messages.first(head.nlmsg_len).subspan(NLMSG_HDRLEN);
    // A dump that breaks off ends with an error's number in its last message.
    if (head.nlmsg_type == NLMSG_DONE) {
      return body.size() >= sizeof(int32_t) && number_in<int32_t>(body.first(sizeof(int32_t))) == 0 ? Dump::done
                                                                                                    : Dump::unreadable;
    }
    if (head.nlmsg_type == type) {
      Info info{};
      if (body.size() < sizeof info) return Dump::unreadable;
      std::memcpy(&info, body.data(), sizeof info);
      if (!make(info, body.subspan(std::min<size_t>(NLMSG_ALIGN(sizeof info), body.size())))) return Dump::unreadable;
    }
    messages = messages.subspan(std::min<size_t>(NLMSG_ALIGN(head.nlmsg_len), messages.size()));
  }
  return Dump::goes_on;
}

inline constexpr int answers_max = 10'000;  // of one dump: datagrams of several messages each

// All that the kernel has, by a dump of `type` whose datagrams `read` takes. nullopt: it does not answer, may not be
// asked, or not all of the answer can be read.
template <class One, class Read>
std::optional<std::vector<One>> dump_of(int protocol, uint16_t type, Bytes request, Read read) {
  Netlink netlink(protocol);
  if (!netlink.send(type, NLM_F_DUMP, request)) return std::nullopt;
  std::vector<One> out;
  for (int i = 0; i < answers_max; ++i) {
    const Bytes answer = netlink.receive();
    if (answer.empty()) return std::nullopt;
    const Dump outcome = read(answer, out);
    if (outcome == Dump::unreadable) return std::nullopt;
    if (outcome == Dump::done) return out;
  }
  return std::nullopt;
}

}  // namespace verbena::admin
