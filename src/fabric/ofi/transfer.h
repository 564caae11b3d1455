// One read or write of a window while it is under way. It lives in the frame of the coroutine that waits for it.
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

// The owner of windows, as the data endpoints know it.
struct DataPeer {
  std::string key;                     // in the pool: its lender's kind and its name
  std::string name;                    // its endpoint name, checked
  DataEndpoint* endpoint = nullptr;    // null: not dialled, or its endpoint was recycled
  fi_addr_t address = FI_ADDR_UNSPEC;  // in that endpoint's address vector
  bool connected = false;              // an operation was accepted on this endpoint
  Deadline connect_by{};               // until then, if not connected
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
  fid_mr* region = nullptr;  // that `local` lies in, when it is not arena memory
  uint64_t size = 0;
  uint64_t remote = 0;  // address of its first byte, as the owner's provider reads it
  uint64_t key = 0;
  Deadline deadline;

  uint64_t posted = 0;     // bytes given to the provider
  uint64_t completed = 0;  // bytes whose completion was collected
  unsigned chunks = 0;     // posted and not completed
  // Its last chunk is a fence: a read of no byte, answered only when what was written before it has been placed.
  enum class Fence : uint8_t { none, wanted, posted, passed };
  Fence fence = Fence::none;
  // Its queue pair is gone, but what that had sent may still be on its way to the owner: nobody is told before this.
  SteadyClock::time_point settled_at{};
  unsigned attempts = 1;  // on another endpoint when its own was recycled because of someone else
  Result<void> outcome;
  std::optional<Handler> handler;

  bool unposted() const { return posted < size || fence == Fence::wanted; }
  bool complete() const { return completed == size && (fence == Fence::none || fence == Fence::passed); }
};

}  // namespace verbena::fabric::ofi
