#include "fabric/local/window.h"

#include <algorithm>
#include <array>
#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>

#include "base/bus_guard.h"
#include "base/copy.h"
#include "fabric/local/agreements.h"
#include "fabric/local/recent_targets.h"

namespace verbena::fabric::local {

Task<> CopyQueue::wait_for_turn() {
  auto initiate = [this](auto handler) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));  // std::function copies what it holds
    waiting_.push_back([shared] { (*shared)(); });
  };
  co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void()>(std::move(initiate),
                                                                                      boost::asio::use_awaitable);
}

bool CopyQueue::resume_one() {
  if (waiting_.empty()) return false;
  auto next = std::move(waiting_.front());
  waiting_.pop_front();
  next();
  return true;
}

LocalWindow::LocalWindow(std::shared_ptr<PeerMemory> peer, std::shared_ptr<ClientMemory> memory,
                         std::shared_ptr<CopyQueue> queue, const WindowDescriptor& lent, Access access)
    : peer_(std::move(peer)),
      memory_(std::move(memory)),
      queue_(std::move(queue)),
      data_(memory_->data() + lent.base),
      size_(lent.size),
      key_(WindowKey::unpack(lent.key)),
      access_(access) {}

Result<void> check_range(Access lent, uint64_t window_size, Access wanted, size_t size, uint64_t at) {
  if (lent != wanted) return fail(Errc::access_denied, "local: window is lent for the other direction");
  if (at > window_size || size > window_size - at) {
    return fail(Errc::invalid_argument, "local: past the end of the window");
  }
  return {};
}

Result<void> LocalWindow::check(Access wanted, size_t size, uint64_t at) const {
  return check_range(access_, size_, wanted, size, at);
}

namespace {

// A core's thread copies for all its clients, and that core's caches matter.
using CopyBytes = void (*)(std::byte* to, const std::byte* from, size_t size);
CopyBytes way_to(const std::byte* client_memory, size_t size) {
  constexpr size_t worth_a_look = 64 * KiB;
  if (size < worth_a_look) return copy_bytes;
  // Allocated separately: this is in the client library, too, whose thread-local bytes must fit into programs that load
  // it.
  static thread_local std::unique_ptr<RecentTargets> recent;
  if (recent == nullptr) recent = std::make_unique<RecentTargets>();
  return recent->note(client_memory, size) ? static_cast<CopyBytes>(copy_bytes) : copy_past_caches;
}

}  // namespace

template <class Copying>
Result<void> LocalWindow::permitted(Copying copy) {
  if (peer_->gone) return fail(Errc::closed, "local: the window's client is gone");
  Permit& permit = peer_->region.permit(key_.slot);
  const uint64_t wanted = key_.permit(access_);
  bool permitted = false;
  const bool whole =
      survives_bus_error([&] { permitted = use_window<NativePlatform>(permit.permit, permit.busy, wanted, copy); });
  if (!whole) {
    survives_bus_error([&] { end_use(permit.busy); });
    return fail(Errc::rdma_transfer_failed, "local: a page of the window is gone");
  }
  if (!permitted) return fail(Errc::cancelled, "local: the client withdrew the window");
  return {};
}

Result<void> LocalWindow::copy_in(std::span<const Write> writes) {
  std::array<CopyBytes, writes_max> ways;
  for (size_t i = 0; i < writes.size(); ++i) ways[i] = way_to(data_ + writes[i].at, writes[i].from.size());
  return permitted([&] {
    for (size_t i = 0; i < writes.size(); ++i) {
      const auto& [from, at] = writes[i];
      ways[i](data_ + at, from.data(), from.size());
    }
  });
}

// The server processes these bytes next: they should be in its caches.
Result<void> LocalWindow::copy_out(MutableBytes into, uint64_t at) {
  return permitted([&] { copy_bytes(into.data(), data_ + at, into.size()); });
}

Result<void> LocalWindow::write_all_now(std::span<const Write> writes) {
  if (writes.size() > writes_max) return fail(Errc::invalid_argument, "local: too many writes at once");
  size_t size = 0;
  for (const Write& write : writes) {
    VB_TRY(check(Access::server_writes, write.from.size(), write.at));
    size += write.from.size();
  }
  return size == 0 ? Result<void>{} : copy_in(writes);
}

Result<void> LocalWindow::read_now(MutableBytes into, uint64_t at) {
  VB_TRY(check(Access::server_reads, into.size(), at));
  return into.empty() ? Result<void>{} : copy_out(into, at);
}

Task<Result<void>> LocalWindow::write(Bytes from, uint64_t at, Deadline deadline) {
  VB_CO_TRY(check(Access::server_writes, from.size(), at));
  for (size_t done = 0; done < from.size();) {
    const size_t size = std::min(slice_size, from.size() - done);
    const Write slice{from.subspan(done, size), at + done};
    VB_CO_TRY(copy_in(std::span(&slice, 1)));
    done += size;
    if (done == from.size()) break;
    co_await queue_->wait_for_turn();
    if (SteadyClock::now() > deadline) co_return fail(Errc::timed_out, "local: window write");
  }
  co_return Result<void>{};
}

Task<Result<void>> LocalWindow::read(MutableBytes into, uint64_t at, Deadline deadline) {
  VB_CO_TRY(check(Access::server_reads, into.size(), at));
  for (size_t done = 0; done < into.size();) {
    const size_t size = std::min(slice_size, into.size() - done);
    VB_CO_TRY(copy_out(into.subspan(done, size), at + done));
    done += size;
    if (done == into.size()) break;
    co_await queue_->wait_for_turn();
    if (SteadyClock::now() > deadline) co_return fail(Errc::timed_out, "local: window read");
  }
  co_return Result<void>{};
}

}  // namespace verbena::fabric::local
