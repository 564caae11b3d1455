// One read or write of a window in progress. It is in the frame of the coroutine that waits for it.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/task.h"
#include "fabric/fabric.h"
#include "fabric/ofi/fid.h"

namespace verbena::fabric::ofi {

class DataEndpoint;

// The owner of windows, in the data endpoints.
struct DataPeer {
  std::string key;                     // in the pool: its lender's kind and its name
  std::string name;                    // its endpoint name, checked
  std::string client;                  // whose it is: a client may have any number of names
  DataEndpoint* endpoint = nullptr;    // null: not connected, or its endpoint was recycled
  fi_addr_t address = FI_ADDR_UNSPEC;  // in that endpoint's address vector
  bool connected = false;              // an operation was accepted on this endpoint
  Deadline connect_by{};               // the deadline, if not connected
  size_t windows = 0;                  // open
  uint64_t bytes_in_flight = 0;
  std::deque<struct Transfer*> waiting;  // for bytes in flight to end, in order
  SteadyClock::time_point used_at{};
};

struct Transfer {
  using Handler = boost::asio::async_result<boost::asio::use_awaitable_t<>, void(Result<void>)>::handler_type;

  std::shared_ptr<DataPeer> peer;
  bool is_write = false;
  std::byte* local = nullptr;
  fid_mr* region = nullptr;  // of `local`, when it is not arena memory
  uint64_t size = 0;
  uint64_t remote = 0;  // address of its first byte in the owner's provider
  uint64_t key = 0;
  Deadline deadline;

  uint64_t posted = 0;     // bytes given to the provider
  uint64_t completed = 0;  // bytes whose completion was collected
  unsigned chunks = 0;     // posted and not completed
  // Its last chunk is a fence: a read of no byte, answered only when everything written before it has been placed.
  enum class Fence : uint8_t { none, wanted, posted, passed };
  Fence fence = Fence::none;
  // Its queue pair is gone, but packets may still be in flight to the owner: the result is reported only after this.
  SteadyClock::time_point settled_at{};
  unsigned attempts = 1;  // on another endpoint when its own was recycled because of another transfer
  Result<void> outcome;
  std::optional<Handler> handler;

  bool unposted() const { return posted < size || fence == Fence::wanted; }
  bool complete() const { return completed == size && (fence == Fence::none || fence == Fence::passed); }
};

}  // namespace verbena::fabric::ofi
