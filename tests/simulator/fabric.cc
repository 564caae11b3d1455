#include "simulator/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "simulator/fabric_state.h"

namespace verbena::simulator {
namespace {

constexpr int64_t us = 1000, ms = 1'000'000;

uint64_t random_number() { return Scheduler::get().random(); }
int64_t now_ns() { return Scheduler::get().steady_ns(); }
SteadyClock::time_point as_time(int64_t ns) { return SteadyClock::time_point(std::chrono::nanoseconds(ns)); }

}  // namespace

Fabric::Fabric(Kind kind) : kind_(kind) {
  thread_ = std::thread([this] { run(); });
}

Fabric::~Fabric() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::string_view Fabric::provider() const {
  return kind_ == Kind::memory ? "local" : kind_ == Kind::stream ? "tcp" : "verbs;ofi_rxm";
}

void Fabric::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (events_.empty()) {
      changed_.wait(lock);
    } else if (const int64_t due_ns = events_.begin()->first; due_ns > now_ns()) {
      changed_.wait_until(lock, as_time(due_ns));
    } else {
      const auto what = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      what();
    }
  }
}

void Fabric::at(int64_t ns, std::function<void()> what) {
  const bool first = events_.empty() || ns < events_.begin()->first;
  events_.emplace(ns, std::move(what));
  if (first) changed_.notify_all();
}

bool Fabric::draw(uint64_t one_in) { return random_number() % one_in == 0; }

int64_t Fabric::delay() {
  const uint64_t choice = random_number() % 256;
  const int64_t most = choice == 0 ? 50 * ms : choice < 16 ? 2 * ms : 30 * us;
  return 1 + static_cast<int64_t>(random_number() % static_cast<uint64_t>(most));
}

void Fabric::trouble_all() {
  for (auto& count : troubles_) ++count;
}

bool Fabric::holds_broken(size_t host) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(connections_, [&](const auto& of) {
    return of.second->host == host && !(of.second->open && of.second->server_open);
  });
}

std::string Fabric::wrong() const {
  const std::lock_guard lock(mutex_);
  return wrong_;
}

// --- Messages --------------------------------------------------------------------------------------------------------

// Sometimes a connection breaks soon after something has begun on it.
void Fabric::risk(const ConnectionPtr& connection) {
  constexpr uint64_t messages_per_break = 300;
  if (!faulty_ || !draw(messages_per_break)) return;
  at(now_ns() + static_cast<int64_t>(random_number() % (draw(3) ? 20 * ms : 200 * us)),
     [this, connection] { break_off(connection); });
}

// In order, but for a device.
int64_t Fabric::arrival(int64_t& last_ns) {
  const int64_t due_ns = now_ns() + delay();
  if (kind_ == Kind::device) return due_ns;
  return last_ns = std::max(last_ns + 1, due_ns);
}

void Fabric::send_up(const ConnectionPtr& connection, Bytes message) {
  Letter letter{.due_ns = arrival(connection->last_up_ns), .bytes = {message.begin(), message.end()}};
  ++under_way_;
  letter.counted = std::shared_ptr<void>(this, [this](void*) { --under_way_; });
  const bool twice = kind_ == Kind::device && faulty_ && draw(40);
  for (int copies = twice ? 2 : 1; copies > 0; --copies) {
    connection->up.push_back(letter);
    at(letter.due_ns, [this, connection] { arrive_up(connection); });
    letter.due_ns += static_cast<int64_t>(random_number() % (100 * ms));
  }
  risk(connection);
}

void Fabric::send_down(const ConnectionPtr& connection, Letter letter) {
  letter.due_ns = arrival(connection->last_down_ns);
  at(letter.due_ns, [this, connection] { arrive_down(connection); });
  connection->down.push_back(std::move(letter));
}

void Fabric::arrive_up(const ConnectionPtr& connection) {
  const int64_t now = now_ns();
  for (auto letter = connection->up.begin(); letter != connection->up.end();) {
    if (letter->due_ns > now) {
      ++letter;
      continue;
    }
    Letter arrived = std::move(*letter);
    letter = connection->up.erase(letter);
    hand_over(connection, std::move(arrived));
  }
}

// To the port, on its core's thread.
void Fabric::hand_over(const ConnectionPtr& connection, Letter letter) {
  const std::shared_ptr<PortState> state = connection->port;
  if (state->port == nullptr) return;
  boost::asio::post(state->core->io(), [this, connection, state, letter = std::move(letter)] {
    if (state->port == nullptr || !state->on_message) return;
    state->on_message(kind_ == Kind::device ? 0 : connection->id, letter.bytes);
  });
}

void Fabric::arrive_down(const ConnectionPtr& connection) {
  const int64_t now = now_ns();
  for (auto letter = connection->down.begin(); letter != connection->down.end();) {
    if (letter->due_ns > now) {
      ++letter;
      continue;
    }
    land(*connection, *letter);
    letter = connection->down.erase(letter);
  }
}

void Fabric::land(Connection& connection, Letter& letter) {
  if (letter.is_write) {
    const MutableBytes place =
        lent(connection, letter.window, fabric::Access::server_writes, letter.at, letter.bytes.size());
    if (!place.empty()) std::memcpy(place.data(), letter.bytes.data(), letter.bytes.size());
  } else if (connection.open) {
    connection.inbox.push_back(std::move(letter.bytes));
    connection.client.notify_all();
  }
}

// --- Breaks ----------------------------------------------------------------------------------------------------------

// What is under way still arrives or not: in order the first of them, of a device any. `befalls`: not by the client.
void Fabric::break_off(const ConnectionPtr& connection, bool befalls) {
  if (!connection->open) return;
  if (befalls) trouble(connection->host);
  const auto arrives = [&](size_t at, size_t first) { return kind_ == Kind::device ? draw(2) : at < first; };
  const size_t up_first = random_number() % (connection->up.size() + 1);
  for (size_t at = 0; Letter & letter : connection->up) {
    if (arrives(at++, up_first)) hand_over(connection, std::move(letter));
  }
  connection->up.clear();
  const size_t down_first = random_number() % (connection->down.size() + 1);
  for (size_t at = 0; Letter & letter : connection->down) {
    if (arrives(at++, down_first)) land(*connection, letter);
  }
  connection->down.clear();
  connection->open = false;
  connection->client.notify_all();
  tell_gone(connection);
}

// The server's end of a connection that the client has no more.
void Fabric::tell_gone(const ConnectionPtr& connection) {
  for (const auto& transfer : std::list(connection->transfers)) {
    for (size_t piece = 0; piece < transfer->pieces.size(); ++piece) {
      if (draw(4)) move(*connection, *transfer, piece);
    }
    transfer->refused = true;
    // A completion that was due says so, too, unless all had landed.
    const auto landed = [](const Transfer::Piece& piece) { return piece.landed; };
    const Result<void> broke = fail(Errc::closed, "simulated: the connection broke");
    if (!std::ranges::all_of(transfer->pieces, landed)) transfer->outcome = broke;
    at(now_ns() + delay(), [this, connection, transfer, broke] { finish(connection, transfer, broke); });
  }
  if (kind_ == Kind::device) {
    connection->server_open = false;
    return;
  }
  at(now_ns() + delay(), [connection] {
    connection->server_open = false;
    const std::shared_ptr<PortState> state = connection->port;
    if (state->port == nullptr) return;
    boost::asio::post(state->core->io(), [connection, state] {
      if (state->port != nullptr && state->on_gone) state->on_gone(connection->id);
    });
  });
}

void Fabric::cut(size_t host) {
  const std::lock_guard lock(mutex_);
  const auto all = connections_;
  for (const auto& [id, connection] : all) {
    if (connection->host == host) break_off(connection);
  }
}

void Fabric::cut_all() {
  const std::lock_guard lock(mutex_);
  const auto all = connections_;
  for (const auto& [id, connection] : all) break_off(connection);
}

// --- One-sided operations --------------------------------------------------------------------------------------------

// Memory that is lent now, in this direction; else none.
MutableBytes Fabric::lent(Connection& connection, const fabric::WindowDescriptor& window, fabric::Access access,
                          uint64_t at, uint64_t size) {
  const auto found = connection.lent.find(window.key);
  if (found == connection.lent.end() || found->second.access != access) return {};
  const uint64_t from = window.base - found->second.base + at;
  if (from > found->second.bytes.size() || size > found->second.bytes.size() - from) return {};
  return found->second.bytes.subspan(from, size);
}

// Pieces land one by one, of a device in any order; then, after a while, the completion is reported.
void Fabric::start(const ConnectionPtr& connection, const std::shared_ptr<Transfer>& transfer) {
  connection->transfers.push_back(transfer);
  int64_t last_ns = now_ns();
  for (size_t piece = 0; piece < transfer->pieces.size(); ++piece) {
    const int64_t due_ns = kind_ == Kind::device ? now_ns() + delay() : last_ns + delay() / 4;
    last_ns = std::max(last_ns, due_ns);
    at(due_ns, [this, connection, transfer, piece] { move(*connection, *transfer, piece); });
  }
  at(last_ns + delay(), [this, connection, transfer] {
    if (!transfer->stalls) finish(connection, transfer, transfer->outcome);
  });
  risk(connection);
}

void Fabric::move(Connection& connection, Transfer& transfer, size_t number) {
  Transfer::Piece& piece = transfer.pieces[number];
  if (transfer.ended || transfer.refused || piece.landed) return;
  const MutableBytes place = lent(connection, transfer.window, transfer.access, transfer.at + piece.from, piece.size);
  if (place.empty()) {
    transfer.refused = true;
    transfer.outcome = fail(Errc::rdma_transfer_failed, "simulated: the memory is not lent");
    return;
  }
  piece.landed = true;
  if (transfer.access == fabric::Access::server_writes) {
    std::memcpy(place.data(), transfer.local + piece.from, piece.size);
  } else {
    std::memcpy(transfer.local + piece.from, place.data(), piece.size);
  }
}

void Fabric::finish(const ConnectionPtr& connection, const std::shared_ptr<Transfer>& transfer, Result<void> outcome) {
  if (transfer->ended) return;
  transfer->ended = true;
  transfer->outcome = outcome;
  connection->transfers.remove(transfer);
  const std::shared_ptr<PortState> state = connection->port;
  if (state->port == nullptr) return;
  boost::asio::post(state->core->io(), [state, transfer] {
    auto handler = std::move(*transfer->handler);
    transfer->handler.reset();
    if (state->port != nullptr) handler(transfer->outcome);
  });
}

}  // namespace verbena::simulator
