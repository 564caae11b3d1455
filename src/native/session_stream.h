// A session's messages on one endpoint. A stream has its own keys, sequence numbers and credits, so that serving a
// message takes no lock. Used on its endpoint's core alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "fabric/fabric.h"
#include "native/leases.h"
#include "native/session_table.h"
#include "native/wire/message.h"
#include "s3/types.h"

namespace verbena::native {

// The work in progress of all sessions of one client (an address, or an IPv6 /64) on an endpoint. Credits bound each
// session, but a client may have hundreds.
struct ClientLoad {
  static constexpr uint32_t units_max = 2048;
  uint32_t units = 0;
  // Writes and read-aheads of its batches in progress; an endpoint has a bounded number of them for all clients
  // together.
  size_t writes = 0, readers = 0;
};
// A request holds a reply buffer while it is served; a batch also a copy of its message and its items. Requests of
// watches wait without either and are bounded by the number of watches, so that a client that is busy with other
// requests is still notified.
inline bool takes_no_credit(uint8_t type) {
  return type == static_cast<uint8_t>(wire::Type::watch_next) || type == static_cast<uint8_t>(wire::Type::watch_end);
}
inline uint32_t load_of(uint8_t type) {
  if (takes_no_credit(type)) return 0;
  return wire::version_of(type) == 2 || type == static_cast<uint8_t>(wire::Type::match) ? 8 : 1;
}

struct SessionStream {
  std::shared_ptr<Session> session;
  std::shared_ptr<ClientLoad> client;
  wire::StreamKeys keys;
  wire::ReplayWindow seen;
  uint64_t last_sequence = 0;  // of the server's messages
  fabric::PeerId peer = 0;
  bool closed = false;  // kept until the session ends, so that its sequence numbers stay used
  // Likewise, for changes that are being made by other threads.
  std::shared_ptr<std::atomic<bool>> withdrawn = std::make_shared<std::atomic<bool>>(false);
  bool sealed = false;             // every message must come sealed by this session's keys
  uint64_t full_at = 0;            // the endpoint's last poll that found the peer's queue full
  bool touched = false;            // a message came since the last sweep
  std::unique_ptr<Leases> leases;  // null: none yet
  uint32_t in_flight = 0;
  uint32_t questions = 0;       // further requests in flight, which take no credit: takes_no_credit()
  uint32_t watches = 0;         // that are open
  uint64_t watches_from = 0;    // numbers of its watches are above this
  uint32_t listings = 0;        // LIST_VALUES among them: each keeps its listing until the values have been sent
  size_t message_size_max = 0;  // both ends' limit
  call::Caller caller;
  uint64_t generation = 0;  // of the credentials when `caller` was made
  // Payload of answered requests, and windows that were lent for it.
  struct Moved {
    uint64_t requests = 0, bytes_in = 0, bytes_out = 0, windows = 0;
    uint32_t in_flight = 0;
  };
  Moved moved;
  Moved told;  // the part already added to the session's totals
};

// Session id -> its stream on this endpoint. Ids are random, so they are their own hash.
class StreamMap {
 public:
  SessionStream* find(uint64_t session) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = session & mask();; i = (i + 1) & mask()) {
      if (slots_[i] == nullptr) return nullptr;
      if (slots_[i]->session->id == session) return slots_[i].get();
    }
  }
  std::shared_ptr<SessionStream> share(uint64_t session) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = session & mask(); slots_[i] != nullptr; i = (i + 1) & mask()) {
      if (slots_[i]->session->id == session) return slots_[i];
    }
    return nullptr;
  }
  void add(std::shared_ptr<SessionStream> stream) {
    if ((count_ + 1) * 2 > slots_.size())
      rebuild(std::max<size_t>(16, slots_.size() * 2), [](const SessionStream&) { return true; });
    place(std::move(stream));
  }
  template <class Predicate>
  void keep_if(Predicate keep) {
    rebuild(slots_.size(), keep);
  }
  template <class Visitor>
  void each(Visitor visit) const {
    for (const auto& stream : slots_) {
      if (stream != nullptr) visit(stream);
    }
  }
  size_t size() const { return count_; }

 private:
  size_t mask() const { return slots_.size() - 1; }
  void place(std::shared_ptr<SessionStream> stream) {
    size_t i = stream->session->id & mask();
    while (slots_[i] != nullptr) i = (i + 1) & mask();
    slots_[i] = std::move(stream);
    ++count_;
  }
  template <class Predicate>
  void rebuild(size_t size, Predicate keep) {
    auto old = std::move(slots_);
    slots_.assign(size, nullptr);
    count_ = 0;
    for (auto& stream : old) {
      if (stream != nullptr && keep(*stream)) place(std::move(stream));
    }
  }

  std::vector<std::shared_ptr<SessionStream>> slots_;  // a power of two, at most half full
  size_t count_ = 0;
};

}  // namespace verbena::native
