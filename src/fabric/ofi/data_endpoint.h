// A disposable endpoint for the windows of few peers. One-sided operations cannot be cancelled; only closing the
// endpoint ends one. So after any failure the endpoint is closed, its flushed completions are collected, and only then
// do its operations resume. Its address vector only grows, to `peers_max`; then the endpoint is retired with its last
// peer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "fabric/ofi/domain.h"
#include "fabric/ofi/transfer.h"
#include "fabric/ofi/waiter.h"

namespace verbena::fabric::ofi {

class DataEndpoint {
 public:
  static constexpr size_t peers_max = 4;

  // `depth`: chunks in flight. `io`: woken by completions, if the domain's own descriptor does not report them.
  // `settle`: the delay between close() and reporting failed operations.
  static Result<std::unique_ptr<DataEndpoint>> open(Domain& domain, size_t depth, std::chrono::milliseconds settle,
                                                    boost::asio::io_context& io);
  ~DataEndpoint();
  DataEndpoint(const DataEndpoint&) = delete;

  Result<void> add_peer(const std::shared_ptr<DataPeer>& peer);
  const std::vector<std::shared_ptr<DataPeer>>& peers() const { return peers_; }
  bool has_room() const { return peers_.size() < peers_max; }

  void start(Transfer& transfer);
  bool busy() const { return !transfers_.empty(); }

  // Posts what fits and collects completions. Finished transfers move to `done`. False: the endpoint is broken and must
  // be closed; the transfers that broke it carry an error in their outcome.
  bool progress(std::vector<Transfer*>& done, size_t& events);
  // Marks transfers past their deadline as failed. False as above.
  bool check_deadlines(SteadyClock::time_point now);
  // Fails all transfers of one peer; false when there were any: the endpoint must then be closed.
  bool fail_peer(const DataPeer& peer, const Error& error);
  // Closes and flushes. Afterwards local memory is not touched any more, and the owner's not once the transfer has
  // settled (Transfer::settled_at): its device still serves packets in flight. Returns the unfinished transfers: those
  // that caused the failure with an error, the others without one.
  std::vector<Transfer*> close(std::vector<Transfer*>& done);

  bool arm();  // as Pollable::arm()

 private:
  struct Chunk {
    fi_context2 context{};  // first: a completion's context is the chunk's address
    Transfer* transfer = nullptr;
    uint64_t size = 0;  // 0: a fence
  };
  DataEndpoint(Domain& domain, size_t depth, std::chrono::milliseconds settle)
      : domain_(domain), depth_(depth), settle_(settle) {}
  Result<void> open_handles(boost::asio::io_context& io);
  bool post_all();
  ssize_t post_one(Transfer& transfer);
  ssize_t post_fence(Transfer& transfer);
  ssize_t post(Transfer& transfer, MutableBytes local, void* descriptor, uint64_t remote_at, bool write);
  bool collect(size_t& events);
  void complete(Chunk& chunk, int error);
  void take_finished(std::vector<Transfer*>& done);

  Domain& domain_;
  size_t depth_;
  std::chrono::milliseconds settle_;
  FidPtr<fid_cq> queue_;
  FidPtr<fid_av> addresses_;
  FidPtr<fid_ep> endpoint_;
  std::byte fence_byte_{};
  FidPtr<fid_mr> fence_region_;  // iWARP only
  std::optional<Waiter> waiter_;
  std::string name_;
  std::vector<std::shared_ptr<DataPeer>> peers_;
  std::vector<Transfer*> transfers_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Chunk*> free_chunks_;
  SteadyClock::time_point post_after_{};  // while a connection is being made: no post at every poll
  std::chrono::microseconds backoff_{0};
};

}  // namespace verbena::fabric::ofi
