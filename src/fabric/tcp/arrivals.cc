#include "fabric/tcp/arrivals.h"

#include <errno.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "fabric/tcp/counters.h"

namespace verbena::fabric::tcp {
namespace {

constexpr size_t named_per_session_max = 4;

}  // namespace

std::string counted_as(const sockaddr_storage& address) {
  const auto* raw = reinterpret_cast<const char*>(&address);
  if (address.ss_family == AF_INET) return {raw + offsetof(sockaddr_in, sin_addr), 4};
  const char* bytes = raw + offsetof(sockaddr_in6, sin6_addr);
  static constexpr char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '\xff', '\xff'};
  if (std::memcmp(bytes, mapped, sizeof mapped) == 0) return {bytes + 12, 4};
  return {bytes, 8};
}

void Arrivals::add(Fd socket, uint64_t id, const sockaddr_storage& address) {
  Arrival arrival;
  arrival.socket = std::move(socket);
  arrival.id = id;
  arrival.address = counted_as(address);
  arrival.deadline = deadline_in(options_.arrival_timeout);
  make_room(arrival.address);
  ++per_address_[arrival.address];
  silent_.push_back(std::move(arrival));
  by_id_.emplace(id, std::prev(silent_.end()));
}

void Arrivals::make_room(const std::string& address) {
  const auto known = per_address_.find(address);
  const bool too_many = known != per_address_.end() && known->second >= options_.arrivals_per_address_max;
  if (!too_many && size() < options_.arrivals_max) return;
  const std::string* of = too_many ? &address : nullptr;
  if (!refuse_oldest(silent_, of)) refuse_oldest(named_, of);
}

bool Arrivals::refuse_oldest(List& list, const std::string* address) {
  const auto oldest = address == nullptr ? list.begin() : std::ranges::find(list, *address, &Arrival::address);
  if (oldest == list.end()) return false;
  refuse(oldest);
  return true;
}

// Bounds the connections that named a session, too, to a few per session.
void Arrivals::note_named(List::iterator arrival) {
  const uint64_t session = arrival->session;
  if (std::ranges::count(named_, session, &Arrival::session) >= static_cast<ptrdiff_t>(named_per_session_max)) {
    refuse(std::ranges::find(named_, session, &Arrival::session));
  }
  arrival->named = true;
  named_.splice(named_.end(), silent_, arrival);
}

std::optional<Arrivals::Welcome> Arrivals::progress(uint64_t id, const Port::FindKey& find_key) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  Arrival& arrival = *found->second;
  for (;;) {
    // Reads no further than expected: later bytes belong to the connection.
    const size_t wanted = arrival.handshake ? proof_size : hello_size;
    const ssize_t got =
        ::recv(arrival.socket.get(), arrival.bytes.data() + arrival.filled, wanted - arrival.filled, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
    if (got <= 0) break;
    arrival.filled += static_cast<size_t>(got);
    if (arrival.filled < wanted) continue;
    arrival.filled = 0;
    if (!arrival.handshake) {
      if (!answer_hello(arrival, find_key)) break;
      note_named(found->second);
      continue;
    }
    const Proof expected = arrival.handshake->proof();
    if (!equal_constant_time(Bytes(arrival.bytes).first(proof_size), expected)) break;
    Welcome welcome{std::move(arrival.socket), id, arrival.session, std::move(arrival.handshake)};
    remove(found->second);
    return welcome;
  }
  refuse(found->second);
  return std::nullopt;
}

// A client that names no existing session gets no answer.
bool Arrivals::answer_hello(Arrival& arrival, const Port::FindKey& find_key) {
  Hello hello;
  std::copy_n(arrival.bytes.begin(), hello_size, hello.begin());
  const auto fields = parse_hello(hello);
  ConnectionKey key;
  if (!fields || fields->encrypt != options_.encrypt || !find_key || !find_key(fields->session, &key)) return false;
  std::array<std::byte, random_size> random;
  fill_random(random);
  arrival.session = fields->session;
  arrival.handshake.emplace(key, hello, random);
  const Challenge challenge = arrival.handshake->challenge();
  // An empty send buffer takes 48 bytes.
  return ::send(arrival.socket.get(), challenge.data(), challenge.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(challenge.size());
}

void Arrivals::expire(Deadline now) {
  while (!silent_.empty() && silent_.front().deadline <= now) refuse(silent_.begin());
  // Ordered by the time at which they named a session, not by arrival.
  for (auto arrival = named_.begin(); arrival != named_.end();) {
    const auto next = std::next(arrival);
    if (arrival->deadline <= now) refuse(arrival);
    arrival = next;
  }
}

void Arrivals::refuse(List::iterator arrival) {
  Counters::get().refused.add();
  remove(arrival);
}

void Arrivals::remove(List::iterator arrival) {
  const auto count = per_address_.find(arrival->address);
  if (--count->second == 0) per_address_.erase(count);
  by_id_.erase(arrival->id);
  (arrival->named ? named_ : silent_).erase(arrival);
}

}  // namespace verbena::fabric::tcp
