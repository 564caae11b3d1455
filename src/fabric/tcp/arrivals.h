// Connections that have not authenticated yet. Bounded, overall and per address; each has room for a hello, and a few
// seconds. A new connection over the limit replaces the oldest, so that silent clients cannot keep others out; those
// that have named a session, whose id cannot be guessed, are replaced last, so that a flood of unauthenticated clients
// cannot either.
#pragma once

#include <sys/socket.h>

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/fd.h"
#include "fabric/tcp/handshake.h"
#include "fabric/tcp/tcp.h"

namespace verbena::fabric::tcp {

// The unit of the limit per address: an IPv4 address, or the /64 of an IPv6 one.
std::string counted_as(const sockaddr_storage& address);

class Arrivals {
 public:
  struct Arrival {
    Fd socket;
    uint64_t id = 0;
    std::string address;
    Deadline deadline;
    std::array<std::byte, std::max(hello_size, proof_size)> bytes;
    size_t filled = 0;
    uint64_t session = 0;
    std::optional<Handshake> handshake;  // the challenge was sent
    bool named = false;                  // in the list of those that named a session
  };

  explicit Arrivals(const Options& options) : options_(options) {}

  // `id`: the connection's id in the port's epoll.
  void add(Fd socket, uint64_t id, const sockaddr_storage& address);
  bool has(uint64_t id) const { return by_id_.contains(id); }
  size_t size() const { return by_id_.size(); }

  // Reads the connection's socket. A returned connection has shown the key of its session, and is not here any more.
  struct Welcome {
    Fd socket;
    uint64_t id = 0;
    uint64_t session = 0;
    std::optional<Handshake> handshake;
  };
  std::optional<Welcome> progress(uint64_t id, const Port::FindKey& find_key);
  void expire(Deadline now);

 private:
  using List = std::list<Arrival>;  // the oldest first
  bool answer_hello(Arrival& arrival, const Port::FindKey& find_key);
  void make_room(const std::string& address);
  void note_named(List::iterator arrival);
  bool refuse_oldest(List& list, const std::string* address);
  void refuse(List::iterator arrival);
  void remove(List::iterator arrival);

  const Options options_;
  List silent_, named_;  // named_: with an existing session
  std::unordered_map<uint64_t, List::iterator> by_id_;
  std::unordered_map<std::string, size_t> per_address_;
};

}  // namespace verbena::fabric::tcp
