#include "fabric/ofi/data_endpoint.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "fabric/ofi/address.h"
#include "fabric/ofi/tcp_sockets.h"

namespace verbena::fabric::ofi {
namespace {

// Large transfers are split: bounded by the provider's message size, small enough to pipeline.
constexpr uint64_t chunk_size_max = 4 * MiB;
constexpr unsigned chunks_per_transfer_max = 16;
constexpr size_t completions_per_read = 16;
constexpr auto backoff_first = std::chrono::microseconds(20);
constexpr auto backoff_max = std::chrono::microseconds(1000);

}  // namespace

Result<std::unique_ptr<DataEndpoint>> DataEndpoint::open(Domain& domain, size_t depth, std::chrono::milliseconds settle,
                                                         boost::asio::io_context& io) {
  std::unique_ptr<DataEndpoint> self(new DataEndpoint(domain, depth, settle));
  VB_TRY(self->open_handles(io));
  return self;
}

Result<void> DataEndpoint::open_handles(boost::asio::io_context& io) {
  fid_ep* endpoint = nullptr;
  const int first_descriptor = domain_.is_tcp() ? next_descriptor() : -1;
  // The info's source address has port 0: any will do, since no peer connects to this endpoint.
  if (const int ret = fi_endpoint(domain_.domain(), const_cast<fi_info*>(&domain_.info()), &endpoint, nullptr)) {
    return fi_fail(Errc::io_error, "fi_endpoint of a data endpoint", ret);
  }
  FidPtr<fid_ep> owner(endpoint);
  // On tcp the Port's descriptor reports every socket of the domain; elsewhere each queue has its own.
  const bool own_descriptor = !domain_.is_tcp();
  VB_ASSIGN(queue_, open_completion_queue(domain_, depth_, FI_CQ_FORMAT_CONTEXT, own_descriptor));
  VB_ASSIGN(addresses_, open_address_vector(domain_, peers_max));
  int ret = fi_ep_bind(endpoint, &addresses_->fid, 0);
  if (ret == 0) ret = fi_ep_bind(endpoint, &queue_->fid, FI_TRANSMIT | FI_RECV);
  if (ret == 0) ret = fi_enable(endpoint);
  if (ret != 0) return fi_fail(Errc::io_error, "fi_enable of a data endpoint", ret);
  VB_ASSIGN(name_, endpoint_name(endpoint));
  add_own_endpoint(name_);
  if (domain_.is_tcp()) refuse_connections(name_, first_descriptor);
  if (domain_.iwarp()) {
    VB_ASSIGN(fence_region_, domain_.register_landing({&fence_byte_, 1}));
  }
  if (own_descriptor) {
    if (const int fd = wait_descriptor(queue_.get()); fd >= 0) waiter_.emplace(io, fd);
  }
  endpoint_ = std::move(owner);
  return {};
}

DataEndpoint::~DataEndpoint() {
  for (const auto& peer : peers_) {
    if (peer->endpoint == this) peer->endpoint = nullptr;
  }
  if (!name_.empty()) remove_own_endpoint(name_);
  waiter_.reset();
  endpoint_.reset();
}

Result<void> DataEndpoint::add_peer(const std::shared_ptr<DataPeer>& peer) {
  std::array<char, 512> address{};  // providers read a whole address of their own size
  if (peer->name.size() > address.size()) return fail(Errc::malformed, "endpoint name");
  std::memcpy(address.data(), peer->name.data(), peer->name.size());
  const int ret = fi_av_insert(addresses_.get(), address.data(), 1, &peer->address, 0, nullptr);
  if (ret != 1) return fi_fail(Errc::malformed, "fi_av_insert", ret);
  peer->endpoint = this;
  peer->connected = false;
  peers_.push_back(peer);
  return {};
}

void DataEndpoint::start(Transfer& transfer) {
  transfers_.push_back(&transfer);
  // A broken post shows up at the next progress().
  if (SteadyClock::now() >= post_after_) post_all();
}

ssize_t DataEndpoint::post_one(Transfer& transfer) {
  size_t contiguous = SIZE_MAX;
  std::byte* at = transfer.local + transfer.posted;
  void* descriptor = transfer.region != nullptr ? fi_mr_desc(transfer.region) : domain_.descriptor(at, contiguous);
  const uint64_t size = std::min({transfer.size - transfer.posted, chunk_size_max, static_cast<uint64_t>(contiguous),
                                  static_cast<uint64_t>(domain_.info().ep_attr->max_msg_size)});
  const ssize_t ret = post(transfer, {at, size}, descriptor, transfer.remote + transfer.posted, transfer.is_write);
  if (ret == 0) {
    transfer.posted += size;
    transfer.peer->connected = true;
  }
  return ret;
}

// Posted after the writes on the same connection, so the owner's device serves it after them. It has no bytes, so it
// needs no right to read; when a write was refused the connection is gone and the fence fails with it.
ssize_t DataEndpoint::post_fence(Transfer& transfer) {
  const ssize_t ret = post(transfer, {&fence_byte_, 0}, fi_mr_desc(fence_region_.get()), transfer.remote, false);
  if (ret == 0) transfer.fence = Transfer::Fence::posted;
  return ret;
}

ssize_t DataEndpoint::post(Transfer& transfer, MutableBytes local, void* descriptor, uint64_t remote_at, bool write) {
  if (free_chunks_.empty()) free_chunks_.push_back(chunks_.emplace_back(std::make_unique<Chunk>()).get());
  Chunk& chunk = *free_chunks_.back();
  chunk.transfer = &transfer;
  chunk.size = local.size();
  const iovec from{local.data(), local.size()};
  const fi_rma_iov remote{remote_at, local.size(), transfer.key};
  fi_msg_rma message{};
  message.msg_iov = &from;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = transfer.peer->address;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &chunk.context;
  // FI_DELIVERY_COMPLETE: the bytes are in the owner's memory at the completion, so the reply that follows on another
  // connection cannot overtake them. On tcp that is an acknowledgement by the owner's provider (it must poll): one
  // message back per chunk. On verbs the acknowledgement of the reliable connection serves.
  const ssize_t ret = write ? fi_writemsg(endpoint_.get(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE)
                            : fi_readmsg(endpoint_.get(), &message, FI_COMPLETION);
  if (ret == 0) {
    free_chunks_.pop_back();
    ++transfer.chunks;
  }
  return ret;
}

// Chunks of all transfers in turn, so that a large one does not delay a small one.
bool DataEndpoint::post_all() {
  bool posted = true, waiting = false;
  while (posted) {
    posted = false;
    for (Transfer* transfer : transfers_) {
      if (!transfer->unposted() || transfer->chunks >= chunks_per_transfer_max || !transfer->outcome) continue;
      if (chunks_.size() - free_chunks_.size() >= depth_) return true;
      const ssize_t ret = transfer->posted < transfer->size ? post_one(*transfer) : post_fence(*transfer);
      if (ret == 0) {
        posted = true;
      } else if (ret == -FI_EAGAIN) {
        waiting = true;
      } else {
        transfer->outcome = fi_fail(Errc::rdma_transfer_failed, "fabric: post", ret);
        return false;
      }
    }
  }
  if (waiting) {
    backoff_ = std::clamp(backoff_ * 2, backoff_first, backoff_max);
    post_after_ = SteadyClock::now() + backoff_;
  } else {
    backoff_ = {};
    post_after_ = {};
  }
  return true;
}

void DataEndpoint::complete(Chunk& chunk, int error) {
  Transfer& transfer = *chunk.transfer;
  chunk.transfer = nullptr;
  free_chunks_.push_back(&chunk);
  --transfer.chunks;
  if (error == 0) {
    transfer.completed += chunk.size;
    if (chunk.size == 0) transfer.fence = Transfer::Fence::passed;
  } else if (transfer.outcome) {
    transfer.outcome = fi_fail(Errc::rdma_transfer_failed, "fabric: one-sided operation", error);
  }
}

// False when an operation failed.
bool DataEndpoint::collect(size_t& events) {
  for (;;) {
    std::array<fi_cq_entry, completions_per_read> entries;
    const ssize_t n = fi_cq_read(queue_.get(), entries.data(), entries.size());
    if (n > 0) {
      for (ssize_t i = 0; i < n; ++i) {
        if (entries[i].op_context != nullptr) complete(*static_cast<Chunk*>(entries[i].op_context), 0);
      }
      events += static_cast<size_t>(n);
      if (static_cast<size_t>(n) == entries.size()) continue;
      return true;
    }
    if (n == -FI_EAGAIN) return true;
    if (n != -FI_EAVAIL) return false;
    fi_cq_err_entry error{};
    if (fi_cq_readerr(queue_.get(), &error, 0) != 1) return false;
    ++events;
    if (error.op_context != nullptr) {
      complete(*static_cast<Chunk*>(error.op_context), error.err != 0 ? error.err : FI_EIO);
    }
    return false;
  }
}

void DataEndpoint::take_finished(std::vector<Transfer*>& done) {
  std::erase_if(transfers_, [&done](Transfer* transfer) {
    if (!transfer->complete()) return false;
    transfer->outcome = {};
    done.push_back(transfer);
    return true;
  });
}

bool DataEndpoint::progress(std::vector<Transfer*>& done, size_t& events) {
  const bool collected = collect(events);
  take_finished(done);
  if (!collected) return false;
  const bool pending =
      std::any_of(transfers_.begin(), transfers_.end(), [](const Transfer* t) { return t->unposted() || !t->outcome; });
  if (!pending) return true;
  for (const Transfer* transfer : transfers_) {
    if (!transfer->outcome) return false;  // start() found it unpostable
  }
  if (backoff_.count() != 0 && SteadyClock::now() < post_after_) return true;
  return post_all();
}

bool DataEndpoint::check_deadlines(SteadyClock::time_point now) {
  bool fine = true;
  for (Transfer* transfer : transfers_) {
    if (now >= transfer->deadline) {
      transfer->outcome = fail(Errc::rdma_transfer_failed, "fabric: deadline of a one-sided operation", FI_ETIMEDOUT);
      fine = false;
    } else if (!transfer->peer->connected && now >= transfer->peer->connect_by) {
      transfer->outcome = fail(Errc::rdma_transfer_failed, "fabric: cannot reach the window's owner", FI_ETIMEDOUT);
      fine = false;
    }
  }
  return fine;
}

bool DataEndpoint::fail_peer(const DataPeer& peer, const Error& error) {
  bool none = true;
  for (Transfer* transfer : transfers_) {
    if (transfer->peer.get() != &peer) continue;
    if (transfer->outcome) transfer->outcome = std::unexpected(error);
    none = false;
  }
  return none;
}

std::vector<Transfer*> DataEndpoint::close(std::vector<Transfer*>& done) {
  // Closing flushes all peers' operations with errors, so the failing ones are determined first.
  for (const auto& peer : peers_) {
    const auto culprit = std::find_if(transfers_.begin(), transfers_.end(),
                                      [&peer](const Transfer* t) { return t->peer == peer && !t->outcome; });
    if (culprit != transfers_.end()) fail_peer(*peer, (*culprit)->outcome.error());
  }
  const auto settled_at = SteadyClock::now() + settle_;
  std::vector<Transfer*> innocent;
  for (Transfer* transfer : transfers_) {
    if (transfer->outcome) innocent.push_back(transfer);
    if (transfer->posted != 0) transfer->settled_at = settled_at;
  }
  waiter_.reset();
  endpoint_.reset();
  // Completions from before or during the close. An operation without one was flushed.
  size_t events = 0;
  for (int i = 0; i < 1'000'000 && queue_; ++i) {
    const size_t before = events;
    collect(events);
    if (events == before) break;
  }
  for (Transfer* transfer : innocent) transfer->outcome = {};
  take_finished(done);
  queue_.reset();
  addresses_.reset();
  return std::exchange(transfers_, {});
}

bool DataEndpoint::arm() {
  if (!busy()) return true;
  if (domain_.is_tcp()) return true;
  if (!waiter_) return false;
  fid* fids[] = {&queue_->fid};
  if (fi_trywait(domain_.fabric(), fids, 1) != FI_SUCCESS) return false;
  waiter_->arm();
  return true;
}

}  // namespace verbena::fabric::ofi
