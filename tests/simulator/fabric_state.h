// What the parts of the simulated network share.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstring>
#include <deque>
#include <optional>

#include "simulator/fabric.h"
#include "simulator/scheduler.h"

namespace verbena::simulator {

// Belongs to the core's thread, but for `port`.
struct Fabric::PortState {
  Core* core = nullptr;
  fabric::Port* port = nullptr;  // null: it is gone
  std::string address;
  fabric::Port::OnMessage on_message;
  fabric::Port::OnGone on_gone;
  fabric::Port::FindKey find_key;
};

// A message, or to the client a piece of a write (stream).
struct Fabric::Letter {
  int64_t due_ns = 0;
  std::vector<std::byte> bytes;
  fabric::WindowDescriptor window{};
  uint64_t at = 0;
  bool is_write = false;
  std::shared_ptr<void> counted{};  // while it is on its way to a port
};

struct Fabric::Transfer {
  using Handler = boost::asio::async_result<boost::asio::use_awaitable_t<>, void(Result<void>)>::handler_type;
  struct Piece {
    uint64_t from = 0, size = 0;
    bool landed = false;
  };
  fabric::WindowDescriptor window;
  fabric::Access access{};
  uint64_t at = 0;
  std::byte* local = nullptr;
  std::vector<Piece> pieces;
  bool ended = false, refused = false, stalls = false;
  Result<void> outcome;
  std::optional<Handler> handler;
};

struct Fabric::Connection {
  struct LentMemory {
    MutableBytes bytes;
    fabric::Access access;
    uint64_t base;
  };
  uint64_t id = 0, session = 0;
  size_t host = 0;
  std::shared_ptr<PortState> port;
  bool open = true;         // for the client
  bool server_open = true;  // for the server: a device does not notice that a client has gone
  std::deque<Letter> up, down;
  int64_t last_up_ns = 0, last_down_ns = 0;
  std::deque<std::vector<std::byte>> inbox;  // of the client
  std::map<uint64_t, LentMemory> lent;
  uint64_t key_next = 1;
  std::list<std::shared_ptr<Transfer>> transfers;
  std::condition_variable client;
  bool woken = false;
};

}  // namespace verbena::simulator
