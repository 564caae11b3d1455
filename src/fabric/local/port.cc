#include "fabric/local/port.h"

#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <boost/asio/post.hpp>

#include "base/bus_guard.h"
#include "base/log_limit.h"
#include "fabric/local/agreements.h"
#include "fabric/local/counters.h"
#include "fabric/local/device_window.h"

namespace verbena::fabric::local {

namespace {

constexpr int messages_per_turn = 16;  // of one peer per turn
constexpr size_t turns_until_idle = 4096;
// Polling this many rings costs about as much as one doorbell.
constexpr size_t polled_max = 32;
constexpr std::chrono::milliseconds look_aside_every{4};  // see Doorbells
// Rings of a client since its last message. Each wakes the core, and a client following the protocol rings once per
// message.
constexpr unsigned rings_max = 1024;

}  // namespace

Result<void> LocalPort::open(const std::string& socket_path) {
  if (options_.ring_size < 4096 || !std::has_single_bit(options_.ring_size) || options_.ring_size > GiB ||
      options_.message_size_max == 0 || options_.ring_size / 4 < options_.message_size_max) {
    return fail(Errc::bad_config, "local: ring_size is a power of two and holds four messages");
  }
  install_bus_guard();
  message_.resize(options_.message_size_max);
  VB_TRY(doorbells_.open());
  boost::system::error_code error;
  Fd descriptor = doorbells_.take_descriptor();
  rung_.assign(descriptor.get(), error);
  if (error) return fail(Errc::io_error, "local: watch doorbells", error.value());
  descriptor.release();
  VB_ASSIGN(listener_, LocalListener::open(core_, socket_path, options_, this, alive_));
  wait_for_doorbells();
  core_.add(this);
  return {};
}

LocalPort::~LocalPort() {
  if (listener_) core_.remove(this);
  listener_.reset();
  for (auto& [id, peer] : peers_) peer->memory->gone = true;
  copies_->drop();
}

// --- What the listener saw ------------------------------------------------------------------------------------------

void LocalPort::joined(PeerId id, std::shared_ptr<Socket> socket, SharedRegion region, Fd doorbell) {
  const int descriptors[] = {region.memfd(), doorbell.get()};
  const ControlMessage welcome{.type = ControlType::welcome,
                               .a = options_.ring_size,
                               .b = options_.message_size_max,
                               .c = options_.client_memory_size_max};
  if (!doorbells_.watch(id, doorbell.get()) || !send_control(socket->get(), welcome, descriptors)) {
    doorbells_.forget(id);
    listener_->drop(id);
    return;
  }
  region.close_memfd();
  auto memory = std::make_shared<PeerMemory>(PeerMemory{std::move(region)});
  auto peer = std::make_unique<Peer>(Peer{.id = id,
                                          .socket = std::move(socket),
                                          .memory = memory,
                                          .requests = Consumer(memory->region.to_server()),
                                          .replies = Producer(memory->region.to_client()),
                                          .windows = {}});
  make_room();
  active_.push_back(peer.get());
  peers_.emplace(id, std::move(peer));
}

void LocalPort::memory_shared(PeerId id, uint32_t key, std::shared_ptr<ClientMemory> memory,
                              const ControlMessage& reply) {
  Peer* peer = find(id);
  if (peer == nullptr) return;
  peer->windows.emplace(key, std::move(memory));
  if (!send_control(peer->socket->get(), reply)) violated(*peer, "does not read its socket");
}

void LocalPort::memory_withdrawn(PeerId id, uint32_t key, const ControlMessage& reply) {
  Peer* peer = find(id);
  if (peer == nullptr) return;
  const auto withdrawn = peer->windows.extract(key);
  if (withdrawn.empty()) return;
  // An operation uses it still, which the client has given up: the client is not kept waiting for that.
  if (withdrawn.mapped().use_count() > 1) {
    if (!send_control(peer->socket->get(), reply)) violated(*peer, "does not read its socket");
    return;
  }
  // Not counted any more when the reply is sent, so that the client can share again.
  withdrawn.mapped()->on_unmapped([socket = peer->socket, reply] {
    if (!send_control(socket->get(), reply)) ::shutdown(socket->get(), SHUT_RDWR);  // it does not read its socket
  });
}

void LocalPort::handed_over(PeerId id, uint32_t number, std::shared_ptr<const Parcel> parcel,
                            const ControlMessage& reply) {
  Peer* peer = find(id);
  if (peer == nullptr) return;
  const Deadline until = deadline_in(options_.handed_over_timeout);
  peer->waiting.insert_or_assign(number, Waiting{std::move(parcel), until});
  if (!forgets_parcels_) forget_parcels(until);
  if (!send_control(peer->socket->get(), reply)) violated(*peer, "does not read its socket");
}

// What is not used in time: looked for again as long as anything waits.
void LocalPort::forget_parcels(Deadline first) {
  forgets_parcels_ = true;
  forget_parcels_.expires_at(first);
  forget_parcels_.async_wait([this, alive = std::weak_ptr<char>(alive_)](const boost::system::error_code& error) {
    if (error || alive.expired()) return;
    forgets_parcels_ = false;
    const Deadline now = SteadyClock::now();
    Deadline next = Deadline::max();
    for (auto& [id, peer] : peers_) {
      std::erase_if(peer->waiting, [now](const auto& one) { return one.second.until <= now; });
      for (const auto& [number, waiting] : peer->waiting) next = std::min(next, waiting.until);
    }
    if (next != Deadline::max()) forget_parcels(next);
  });
}

void LocalPort::gone(PeerId id) {
  Peer* peer = find(id);
  if (peer == nullptr) return;
  static log::Limit limit;
  limit.info("local: client left peer={}", id);
  remove(*peer, true);
  sweep();
}

// --- Port ------------------------------------------------------------------------------------------------------------

LocalPort::Peer* LocalPort::find(PeerId id) {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.get();
}

Result<PeerId> LocalPort::add_peer(std::string_view) {
  return fail(Errc::unsupported, "local: clients come to the socket themselves");
}

void LocalPort::remove_peer(PeerId id) {
  Peer* peer = find(id);
  if (peer == nullptr) return;
  listener_->drop(id);
  remove(*peer, false);
  sweep();
}

Result<void> LocalPort::send_joined(PeerId id, Bytes first, Bytes second) {
  const size_t size = first.size() + second.size();
  if (size == 0 || size > options_.message_size_max) return fail(Errc::too_large, "local: message size");
  Peer* peer = find(id);
  if (peer == nullptr) return fail(Errc::closed, "local: no such peer");
  Control& control = peer->memory->region.control();
  auto outcome = Producer::Push::violated;
  bool sleeps = false;
  const bool whole = survives_bus_error([&] {
    outcome = peer->replies.push(first, second);
    sleeps = must_wake<NativePlatform>(control.client_sleeps);
  });
  if (!whole || outcome == Producer::Push::violated) {
    violated(*peer, "ring to the client");
    sweep();
    return fail(Errc::closed, "local: peer broke its ring");
  }
  if (outcome == Producer::Push::full) return fail(Errc::would_block, "local: ring is full");
  if (sleeps) wake(*peer);
  return {};
}

Result<void> LocalPort::check_permit(const Peer& peer, const WindowKey& key, Access access) {
  uint64_t permit = 0;
  const Permit& shared = peer.memory->region.permit(key.slot);
  survives_bus_error([&] { permit = shared.permit.load(std::memory_order_acquire); });
  if (permit >> 8 != key.generation || permit == 0) return fail(Errc::invalid_argument, "local: window is not lent");
  if ((permit & 0xff) != static_cast<uint8_t>(access)) {
    return fail(Errc::access_denied, "local: window is lent for the other direction");
  }
  return {};
}

Result<std::unique_ptr<Window>> LocalPort::open_window(PeerId id, const WindowDescriptor& lent, Access access) {
  Peer* peer = find(id);
  if (peer == nullptr) return fail(Errc::closed, "local: no such peer");
  const WindowKey key = WindowKey::unpack(lent.key);
  if (key.slot >= permits_max) return fail(Errc::invalid_argument, "local: no such window");
  const auto memory = peer->windows.find(key.memory);
  const auto device = memory == peer->windows.end() ? peer->devices.find(key.memory) : peer->devices.end();
  if (memory == peer->windows.end() && device == peer->devices.end()) {
    return fail(Errc::invalid_argument, "local: no such window");
  }
  const uint64_t size = device == peer->devices.end() ? memory->second->size() : device->second.memory->size();
  if (lent.size > size || lent.base > size - lent.size) {
    return fail(Errc::invalid_argument, "local: window lies outside its memory");
  }
  VB_TRY(check_permit(*peer, key, access));
  if (device != peer->devices.end()) {
    const DeviceShare& share = device->second;
    return std::make_unique<DeviceWindow>(peer->memory, share.memory, share.devices->arena(), lent, access);
  }
  return std::make_unique<LocalWindow>(peer->memory, memory->second, copies_, lent, access);
}

Result<HandedOver> LocalPort::take_handed_over(PeerId id, uint32_t number) {
  Peer* peer = find(id);
  if (peer == nullptr) return fail(Errc::closed, "local: no such peer");
  auto found = peer->waiting.extract(number);
  if (found.empty() || found.mapped().until <= SteadyClock::now()) {
    return fail(Errc::invalid_argument, "local: no such descriptors");
  }
  auto parcel = std::move(found.mapped().parcel);
  HandedOver all{.descriptors = parcel->descriptors()};
  all.open = std::move(parcel);
  return all;
}

Result<uint64_t> LocalPort::add_device_memory(PeerId id, std::shared_ptr<memory::cuda::Mapped> memory,
                                              std::shared_ptr<memory::cuda::Devices> devices) {
  Peer* peer = find(id);
  if (peer == nullptr) return fail(Errc::closed, "local: no such peer");
  if (peer->devices.size() >= device_keys / 2) return fail(Errc::slow_down, "local: too much memory of devices");
  uint32_t& key = peer->device_key_next;
  while (peer->devices.contains(key)) key = key == memory_key_max ? device_key_first : key + 1;
  peer->devices.emplace(key, DeviceShare{std::move(memory), std::move(devices)});
  const uint64_t number = key;
  key = key == memory_key_max ? device_key_first : key + 1;
  return number;
}

DevicePort::Fence LocalPort::remove_device_memory(PeerId id, uint64_t number) {
  Peer* peer = find(id);
  if (peer == nullptr || number > memory_key_max) return {};
  const auto share = peer->devices.find(static_cast<uint32_t>(number));
  if (share == peer->devices.end()) return {};
  Fence fence = share->second.memory->fence();
  peer->devices.erase(share);
  return fence;
}

// --- Peers that come to an end ---------------------------------------------------------------------------------------

void LocalPort::violated(Peer& peer, const char* what) {
  if (peer.removed) return;
  Counters::get().violations.add();
  static log::Limit limit;
  limit.warn("local: client broke the protocol peer={} what=\"{}\"", peer.id, what);
  listener_->drop(peer.id);
  remove(peer, true);
}

// The Peer itself stays until sweep(): callers up the stack may still hold it.
void LocalPort::remove(Peer& peer, bool tell) {
  if (peer.removed) return;
  peer.removed = true;
  peer.memory->gone = true;
  doorbells_.forget(peer.id);
  std::erase(active_, polling_ ? nullptr : &peer);  // a poll in progress walks the list; it erases afterwards
  auto node = peers_.extract(peer.id);
  const PeerId id = peer.id;
  removed_.push_back(std::move(node.mapped()));
  if (!tell) return;
  // Deferred: this may run inside a send() of the handler's owner.
  boost::asio::post(core_.io(), [this, id, alive = std::weak_ptr<char>(alive_)] {
    if (!alive.expired() && on_gone_) on_gone_(id);
  });
}

void LocalPort::sweep() {
  if (polling_) return;
  removed_.clear();
}

void LocalPort::wake(Peer& peer) {
  Counters::get().wakes.add();
  // A full socket buffer is fine (it contains wake-ups); the listener handles a closed socket.
  [[maybe_unused]] auto sent = send_control(peer.socket->get(), ControlMessage{.type = ControlType::wake});
}

// --- Polling ---------------------------------------------------------------------------------------------------------

size_t LocalPort::poll() {
  size_t progress = 0;
  polling_ = true;
  for (size_t i = 0; i < active_.size(); ++i) {
    if (!active_[i]->removed) progress += serve(*active_[i]);
  }
  if (copies_->resume_one()) ++progress;
  polling_ = false;
  if (!removed_.empty()) {
    std::erase_if(active_, [](Peer* peer) { return peer->removed; });
    sweep();
  }
  if (++turns_ % turns_until_idle == 0) demote_idle();
  return progress;
}

size_t LocalPort::serve(Peer& peer) {
  size_t served = 0;
  while (served < messages_per_turn && !peer.removed) {
    auto outcome = Consumer::Pop::violated;
    size_t size = 0;
    const bool whole = survives_bus_error([&] {
      Bytes view;
      outcome = peer.requests.peek(view);
      if (outcome != Consumer::Pop::message) return;
      size = view.size();
      std::memcpy(message_.data(), view.data(), size);
      peer.requests.release();
    });
    if (!whole || outcome == Consumer::Pop::violated) {
      violated(peer, "ring to the server");
      return served + 1;
    }
    if (outcome == Consumer::Pop::none) break;
    ++served;
    if (on_message_) on_message_(peer.id, Bytes(message_.data(), size));
  }
  if (served == 0 || peer.removed) return served;
  peer.heard = true;
  peer.rings = 0;
  Control& control = peer.memory->region.control();
  bool wants_space = false;
  survives_bus_error([&] { wants_space = must_wake<NativePlatform>(control.client_wants_space); });
  if (wants_space) wake(peer);
  return served;
}

void LocalPort::activate(Peer& peer) {
  peer.heard = true;
  if (peer.active) return;
  make_room();
  peer.active = true;
  wakes_up(peer);
  active_.push_back(&peer);
  Counters::get().doorbells.add();
}

// Makes room for another polled peer: the first one that was silent since the hand's last round is moved to its
// doorbell. A peer with something in its ring stays, so that there may be more than polled_max for a moment.
void LocalPort::make_room() {
  if (active_.size() < polled_max || polling_) return;
  for (size_t looked = 0; looked < 2 * active_.size(); ++looked) {
    hand_ = (hand_ + 1) % active_.size();
    Peer& peer = *active_[hand_];
    if (std::exchange(peer.heard, false) || !falls_asleep(peer)) continue;
    peer.active = false;
    active_[hand_] = active_.back();
    active_.pop_back();
    return;
  }
}

// Moves peers that were silent for `turns_until_idle` turns to their doorbells, so that many idle clients cost nothing.
void LocalPort::demote_idle() {
  std::erase_if(active_, [this](Peer* peer) {
    if (peer->heard || !falls_asleep(*peer)) {
      peer->heard = false;
      return false;
    }
    peer->active = false;
    return true;
  });
}

// Asks the client to ring from now on. False when its ring is not empty.
bool LocalPort::falls_asleep(Peer& peer) {
  Control& control = peer.memory->region.control();
  bool pending = true;
  survives_bus_error([&] {
    announce_sleep<NativePlatform>(control.server_sleeps);
    pending = peer.requests.pending();
    if (pending) is_awake(control.server_sleeps);
  });
  return !pending;
}

bool LocalPort::wakes_up(Peer& peer) {
  return survives_bus_error([&] { is_awake(peer.memory->region.control().server_sleeps); });
}

bool LocalPort::arm() {
  for (Peer* peer : active_) {
    if (falls_asleep(*peer)) continue;
    // The loop naps when a pollable refuses to be armed. There is work: wake it at once.
    doorbells_.ring_own();
    return false;
  }
  return copies_->empty();
}

void LocalPort::disarm() {
  for (Peer* peer : active_) wakes_up(*peer);
}

void LocalPort::wait_for_doorbells() {
  auto answer = [this, alive = std::weak_ptr<char>(alive_)](const boost::system::error_code& error) {
    if (error || alive.expired()) return;
    doorbells_.answer([this](PeerId id) { rung(id); });
    if (doorbells_.any_aside() && !looks_aside_) look_aside();
    wait_for_doorbells();
  };
  rung_.async_wait(boost::asio::posix::stream_descriptor::wait_read, std::move(answer));
}

void LocalPort::rung(PeerId id) {
  Peer* peer = find(id);
  if (peer == nullptr) return;
  if (++peer->rings <= rings_max) return activate(*peer);
  violated(*peer, "rings without a message");
  sweep();
}

void LocalPort::look_aside() {
  looks_aside_ = true;
  look_aside_.expires_after(look_aside_every);
  look_aside_.async_wait([this, alive = std::weak_ptr<char>(alive_)](const boost::system::error_code& error) {
    if (error || alive.expired()) return;
    looks_aside_ = false;
    doorbells_.look_aside([this](PeerId id) { rung(id); });
    if (doorbells_.any_aside()) look_aside();
  });
}

Result<std::unique_ptr<Port>> listen(Core& core, const std::string& socket_path, Options options) {
  auto port = std::make_unique<LocalPort>(core, options);
  VB_TRY(port->open(socket_path));
  return port;
}

}  // namespace verbena::fabric::local
