// The data endpoints of one core and the peers that they serve: connected on demand, kept while a peer is used,
// bounded, recycled on failure.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/core.h"
#include "fabric/ofi/data_endpoint.h"
#include "fabric/ofi/ofi.h"

namespace verbena::fabric::ofi {

class DataPool {
 public:
  DataPool(Core& core, Domain& domain, const memory::Arena& arena, const Options& options, size_t depth);
  ~DataPool();  // requires close()
  DataPool(const DataPool&) = delete;

  // The lender of a window. The end of a session must not affect windows that a token lent from the same endpoint, and
  // the two never share one of the server's: a token may name any port, and what fails there closes it.
  enum class Lender : char { session = 's', token = 't' };

  // A window of the peer with this (checked) endpoint name. slow_down when every endpoint is taken. A quarter of them
  // is kept for sessions, and the sessions of one client have a fair share (base/fair_share.h).
  Result<std::unique_ptr<Window>> open_window(Lender lender, std::string_view name, const WindowDescriptor& lent,
                                              Access access);
  // Fails the session's operations in flight.
  void forget_session(std::string_view name);

  size_t poll();
  bool busy() const { return transfers_ - settling_.size() + waiting_ != 0; }
  bool arm();
  // Ends everything with `closed`. Windows may outlive this; their operations then return `closed`.
  void close();
  size_t endpoints() const { return endpoints_.size(); }

 private:
  friend class PoolWindow;
  Result<void> start(Transfer& transfer);
  void forget_hung_up(const std::shared_ptr<DataPeer>& peer);
  void begin(Transfer& transfer);
  void begin_waiting(DataPeer& peer);
  void end_unbegun(Transfer& transfer, const Result<void>& outcome);
  void fail_waiting(DataPeer& peer, const Error& error);
  void expire_waiting(SteadyClock::time_point now);
  bool fits(const DataPeer& peer, const Transfer& transfer) const;
  Result<void> bind(const std::shared_ptr<DataPeer>& peer);
  using Among = std::function<bool(const DataEndpoint&)>;
  DataEndpoint* room_for_one_more(const Among& among);
  bool drop_least_used(const Among& among);
  void recycle(DataEndpoint& endpoint, const char* reason);
  void recycle_all(const std::vector<DataEndpoint*>& endpoints, const char* reason);
  std::vector<Transfer*> retire(DataEndpoint& endpoint, const char* reason);
  void restart(std::vector<Transfer*> transfers);
  void scan(SteadyClock::time_point now);
  void take_settled(SteadyClock::time_point now);
  void resume_finished();
  void close_window(const std::shared_ptr<DataPeer>& peer);
  bool tokens_have_their_part() const;
  struct Part {
    bool has_its_endpoints = false, has_its_peers = false;
  };
  Part part_of(const DataPeer& peer) const;  // of a session

  Core& core_;
  Domain& domain_;
  const memory::Arena& arena_;
  const Options options_;
  const size_t depth_;
  std::chrono::milliseconds settle_{0};
  // Windows hold it to learn that the pool is gone.
  std::shared_ptr<DataPool*> self_ = std::make_shared<DataPool*>(this);
  std::unordered_map<std::string, std::shared_ptr<DataPeer>> peers_;
  std::vector<std::unique_ptr<DataEndpoint>> endpoints_;
  std::vector<Transfer*> done_;      // finished, to be resumed at the end of a poll
  std::vector<Transfer*> settling_;  // ended, not reported yet
  size_t transfers_ = 0;             // begun and not resumed
  size_t waiting_ = 0;               // transfers that wait for their peer's others
  bool closed_ = false;
  SteadyClock::time_point next_scan_{};
  SteadyClock::time_point next_idle_scan_{};
};

}  // namespace verbena::fabric::ofi
