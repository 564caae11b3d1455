// The server's side of sealed connections.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "fabric/sealed/counters.h"
#include "fabric/sealed/port_state.h"

namespace verbena::fabric::sealed {
namespace {

constexpr size_t sweep_above = 64;  // connections, before ended sessions' are looked for

class SealedPort final : public Port {
 public:
  SealedPort(Core& core, Port& below, memory::Arena& arena, const PortOptions& options)
      : state_(std::make_shared<PortState>(core, below, arena, options)) {
    export_metrics();
    below.on_message([this](PeerId from, Bytes message) { receive(from, message); });
    below.on_gone([this](PeerId id) {
      leave(id);
      if (on_gone_) on_gone_(id);
    });
  }
  ~SealedPort() override {
    below().on_message({});
    below().on_gone({});
    state_->close();
  }

  void on_connection(FindKey find) override { find_key_ = std::move(find); }
  void on_message(OnMessage handler) override { on_message_ = std::move(handler); }
  void on_gone(OnGone handler) override { on_gone_ = std::move(handler); }
  size_t message_size_max() const override { return below().message_size_max() - envelope_overhead; }
  std::string address() const override { return below().address(); }
  bool seals() const override { return true; }
  bool takes_plain() const override { return state_->options.takes_plain; }
  uint64_t sealed_session() const override { return handing_over_ == nullptr ? 0 : handing_over_->session; }

  Result<PeerId> add_peer(std::string_view address) override {
    if (handing_over_ != nullptr && handing_over_->id != 0) return fail(Errc::access_denied, "sealed: a second peer");
    VB_ASSIGN(const PeerId id, below().add_peer(address));
    if (handing_over_ != nullptr) {
      handing_over_->id = id;
      state_->by_id.emplace(id, handing_over_);
    }
    return id;
  }
  bool admit(PeerId peer, uint64_t session) override { return below().admit(peer, session); }
  void remove_peer(PeerId id) override {
    leave(id);
    state_->by_id.erase(id);
    below().remove_peer(id);
  }

  bool may_send(PeerId id) const override { return below().may_send(id); }
  Result<void> send(PeerId id, Bytes message) override { return send_joined(id, message, {}); }
  Result<void> send_joined(PeerId id, Bytes first, Bytes second) override {
    const auto it = state_->by_id.find(id);
    if (it == state_->by_id.end()) {
      if (!takes_plain()) return fail(Errc::closed, "sealed: no such peer");
      return below().send_joined(id, first, second);
    }
    const auto peer = it->second;
    if (peer->gone) return fail(Errc::closed, "sealed: the peer is gone");
    auto sent = flush(*state_, *peer);
    if (sent && !sealed::may_send(*state_, *peer)) return fail(Errc::would_block, "sealed: the peer's queue");
    if (sent) sent = peer->channel.send(first, second, [&](Bytes envelope) { return below().send(id, envelope); });
    if (!sent && sent.error() != Errc::would_block) state_->leave(*peer);
    return sent;
  }

  Result<std::unique_ptr<Window>> open_window(PeerId id, const WindowDescriptor& lent, Access access) override {
    const auto it = state_->by_id.find(id);
    if (it == state_->by_id.end()) {
      if (!takes_plain()) return fail(Errc::closed, "sealed: no such peer");
      return below().open_window(id, lent, access);
    }
    if (lent.base > UINT64_MAX - lent.size) return fail(Errc::invalid_argument, "window: wraps around");
    return make_window(state_, it->second, lent, access);
  }

 private:
  Port& below() const { return *state_->below; }

  void leave(PeerId id) {
    const auto it = state_->by_id.find(id);
    if (it == state_->by_id.end()) return;
    const auto peer = it->second;
    state_->leave(*peer);
  }

  void receive(PeerId from, Bytes message) {
    const auto header = decode_header(message);
    if (!header) {
      if (!state_->options.takes_plain) return counters().plain_messages.add();
      if (on_message_) on_message_(from, message);
      return;
    }
    const auto known = state_->by_session.find(header->session);
    const auto peer = known != state_->by_session.end() ? known->second : made(*header, message);
    if (peer == nullptr || peer->gone) return counters().forged_messages.add();
    const auto opened = peer->channel.open(*header, message);
    if (!opened) return counters().forged_messages.add();
    if (known == state_->by_session.end()) {
      state_->by_session.emplace(peer->session, peer);
      counters().opened.add();
    }
    take(peer, *opened);
  }

  // A connection for the session that an opening envelope names. It is kept only if the envelope can be opened.
  std::shared_ptr<Peer> made(const Header& header, Bytes message) {
    ConnectionKey key;
    if (header.kind != Kind::open || message.size() < Header::size + salt_size) return nullptr;
    if (!find_key_ || !find_key_(header.session, &key) || key.sealing == Sealing::none) return nullptr;
    if (state_->by_session.size() >= sweep_at_) sweep();
    Salt salt;
    std::ranges::copy(message.subspan(Header::size, salt_size), salt.begin());
    return std::make_shared<Peer>(header.session, derive(key, salt, Side::server, state_->options.epoch_bits),
                                  below().message_size_max(), state_->options.numbers_max);
  }

  // Forgets the connections of sessions that have ended. Their ids, and so their keys, never come again.
  void sweep() {
    std::erase_if(state_->by_session, [this](const auto& entry) {
      const Peer& peer = *entry.second;
      return (peer.gone || peer.id == 0) && !find_key_(entry.first, nullptr);
    });
    sweep_at_ = std::max(sweep_above, 2 * state_->by_session.size());
  }

  void take(const std::shared_ptr<Peer>& peer, const Channel::Opened& opened) {
    switch (opened.kind) {
      case Kind::message: {
        handing_over_ = peer;
        if (on_message_) on_message_(0, opened.body);
        handing_over_ = nullptr;
        return;
      }
      case Kind::rings:
        if (const auto rings = decode_rings(opened.body); rings && !peer->rings) peer->rings = rings;
        return;
      case Kind::freed:
        if (const auto segment = decode_segment(opened.body)) {
          peer->free_segments.give_back(*segment);
          state_->line.wake_all();
        }
        return;
      case Kind::ready:
        return take_ready(peer, opened.body);
      default:
        counters().forged_messages.add();  // not for a server
    }
  }

  void take_ready(const std::shared_ptr<Peer>& peer, Bytes body) {
    auto ready = decode_ready(body);
    if (!ready) return counters().forged_messages.add();
    const auto it = peer->wanted.find(ready->id);
    if (it == peer->wanted.end() || it->second->ready) return;
    Peer::Wanted& wanted = *it->second;
    if (wanted.abandoned) {
      peer->wanted.erase(it);
      give_back_segment(state_, peer, *ready);
      return state_->line.wake_all();
    }
    if (ready->inside) {
      wanted.inside.assign(ready->inside->begin(), ready->inside->end());
      ready->inside = Bytes();  // of a message that is about to go
    }
    wanted.ready = std::move(ready);
    wanted.line.wake_all();
  }

  PortStatePtr state_;
  FindKey find_key_;
  OnMessage on_message_;
  OnGone on_gone_;
  std::shared_ptr<Peer> handing_over_;  // the sender of the message that on_message_ has now
  size_t sweep_at_ = sweep_above;
};

}  // namespace

size_t message_overhead() { return envelope_overhead; }

void export_metrics() { (void)counters(); }

std::unique_ptr<Port> seal(Core& core, Port& below, memory::Arena& arena, const PortOptions& options) {
  return std::make_unique<SealedPort>(core, below, arena, options);
}

}  // namespace verbena::fabric::sealed
