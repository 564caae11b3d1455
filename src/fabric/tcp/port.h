// The server's end of one core: listens, authenticates connections by session keys, and serves them.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/core.h"
#include "base/fd.h"
#include "fabric/tcp/arrivals.h"
#include "fabric/tcp/connection.h"

namespace verbena::fabric::tcp {

class TcpPort final : public Port, private Pollable {
 public:
  TcpPort(Core& core, const Options& options);
  ~TcpPort() override;
  Result<void> open();

  void on_message(OnMessage handler) override { shared_->on_message = std::move(handler); }
  void on_gone(OnGone handler) override { on_gone_ = std::move(handler); }
  void on_connection(FindKey find_key) override { find_key_ = std::move(find_key); }
  bool encrypted() const override { return shared_->options.encrypt; }
  size_t message_size_max() const override { return shared_->options.message_size_max; }
  std::string address() const override { return address_; }
  Result<PeerId> add_peer(std::string_view address) override;
  bool admit(PeerId peer, uint64_t session) override;
  void remove_peer(PeerId peer) override;
  Result<void> send(PeerId peer, Bytes message) override { return send_joined(peer, message, {}); }
  Result<void> send_joined(PeerId peer, Bytes first, Bytes second) override;
  Result<std::unique_ptr<Window>> open_window(PeerId peer, const WindowDescriptor& lent, Access access) override;

 private:
  struct Hot {
    std::shared_ptr<Connection> connection;
    unsigned quiet_turns = 0;
  };

  Result<void> listen();
  Result<void> bind(sockaddr_storage& address, socklen_t size);
  void accept_all();
  void welcome(Arrivals::Welcome arrived);

  size_t poll() override;
  bool busy() const override;
  bool arm() override;
  void disarm() override { ask_kernel_ = ask_kernel_ || !is_watched(); }

  // Nothing can have come: the loop would have told of it (arm), and no connection is read without asking.
  bool is_watched() const { return waiting_ && hot_.empty(); }
  size_t poll_kernel();
  size_t poll_hot();
  size_t progress(Connection& connection);
  void heat(const std::shared_ptr<Connection>& connection);
  size_t resume_done();
  void forget_closed();
  void look_at_clock();

  Core& core_;
  std::shared_ptr<PortShared> shared_;
  OnGone on_gone_;
  FindKey find_key_;
  Fd listener_;
  std::string address_;
  boost::asio::posix::stream_descriptor epoll_;
  bool opened_ = false;
  bool waiting_ = false;  // the core's loop watches the epoll
  std::shared_ptr<char> alive_ = std::make_shared<char>();

  Arrivals arrivals_;
  std::unordered_map<PeerId, std::shared_ptr<Connection>> peers_;
  std::unordered_map<uint64_t, PeerId> by_session_;
  std::vector<Hot> hot_;  // recently active: read without asking epoll first
  uint64_t id_next_ = 1;  // of arrivals and peers; 0 is the listener
  unsigned turns_ = 0;
  unsigned handshakes_left_ = 0;  // in this turn
  bool ask_kernel_ = true;
  bool accept_again_ = false;
  SteadyClock::time_point next_look_{}, next_session_look_{};
};

}  // namespace verbena::fabric::tcp
