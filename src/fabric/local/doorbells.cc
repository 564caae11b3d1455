#include "fabric/local/doorbells.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace verbena::fabric::local {

namespace {

constexpr uint64_t own_id = 0;  // no set has this id

// Edge-triggered, so that the counter, which the client shares, need not be read.
Result<void> watch_edges(int epoll, int fd, uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = id;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return fail(Errc::io_error, "local: watch doorbell", errno);
  return {};
}

// `goes_on`: false once the handler may have closed the epoll.
template <class Handler, class GoesOn>
void take_events(int epoll, Handler handler, GoesOn goes_on) {
  std::array<epoll_event, Doorbells::set_size> events;
  int count;
  do {
    count = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) handler(events[static_cast<size_t>(i)].data.u64);
  } while (count == static_cast<int>(events.size()) && goes_on());
}

}  // namespace

Result<void> Doorbells::open() {
  own_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  outer_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!own_ || !outer_) return fail(Errc::io_error, "local: epoll", errno);
  outer_descriptor_ = outer_.get();
  return watch_edges(outer_descriptor_, own_.get(), own_id);
}

Result<uint64_t> Doorbells::set_with_room() {
  if (const auto found = sets_.find(newest_); found != sets_.end() && found->second.watched < set_size) return newest_;
  Set set{.epoll = Fd(::epoll_create1(EPOLL_CLOEXEC))};
  if (!set.epoll) return fail(Errc::io_error, "local: epoll", errno);
  VB_TRY(watch_edges(outer_descriptor_, set.epoll.get(), newest_ + 1));
  sets_.emplace(++newest_, std::move(set));
  return newest_;
}

Result<void> Doorbells::watch(PeerId peer, int doorbell) {
  VB_ASSIGN(const uint64_t id, set_with_room());
  Set& set = sets_.at(id);
  if (auto watched = watch_edges(set.epoll.get(), doorbell, peer); !watched) {
    if (set.members == 0) sets_.erase(id);
    return watched;
  }
  ++set.watched;
  ++set.members;
  set_of_.emplace(peer, id);
  return {};
}

void Doorbells::forget(PeerId peer) {
  const auto found = set_of_.find(peer);
  if (found == set_of_.end()) return;
  const auto set = sets_.find(found->second);
  if (--set->second.members == 0) sets_.erase(set);
  set_of_.erase(found);
}

void Doorbells::ring_own() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(own_.get(), &one, sizeof one);
}

void Doorbells::answer(const Handler& handler) {
  const auto answer_one = [&](uint64_t id) {
    answer_set(id, handler);
    const auto set = sets_.find(id);
    if (set != sets_.end() && set->second.strays >= strays_max) put_aside(id);
  };
  take_events(outer_descriptor_, answer_one, [] { return true; });
}

// Returns how many rings came from forgotten clients.
size_t Doorbells::answer_set(uint64_t id, const Handler& handler) {
  const auto found = sets_.find(id);
  if (found == sets_.end()) return 0;
  size_t strays = 0;
  const auto answer_peer = [&](PeerId peer) {
    if (set_of_.contains(peer)) {
      handler(peer);  // may forget clients, and with them this set
    } else {
      ++strays;
    }
  };
  take_events(found->second.epoll.get(), answer_peer, [&] { return sets_.contains(id); });
  if (const auto set = sets_.find(id); set != sets_.end()) set->second.strays += strays;
  return strays;
}

void Doorbells::put_aside(uint64_t id) {
  Set& set = sets_.at(id);
  if (::epoll_ctl(outer_descriptor_, EPOLL_CTL_DEL, set.epoll.get(), nullptr) != 0) return;
  set.quiet = 0;
  set.watched = set_size;  // full: no other client is added to it
  aside_.push_back(id);
}

void Doorbells::look_aside(const Handler& handler) {
  const std::vector<uint64_t> looked_at = std::exchange(aside_, {});
  for (const uint64_t id : looked_at) {
    const size_t strays = answer_set(id, handler);
    const auto found = sets_.find(id);
    if (found == sets_.end()) continue;
    Set& set = found->second;
    set.quiet = strays == 0 ? set.quiet + 1 : 0;
    if (set.quiet < quiet_looks || !take_back(id)) aside_.push_back(id);
  }
}

// The set is put aside sooner the next time.
bool Doorbells::take_back(uint64_t id) {
  Set& set = sets_.at(id);
  if (!watch_edges(outer_descriptor_, set.epoll.get(), id)) return false;
  set.strays = strays_max / 2;
  return true;
}

}  // namespace verbena::fabric::local
