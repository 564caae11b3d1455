// A network of the simulation behind src/fabric's interface: ports, links and windows in virtual time.
//
// Whatever the contract of fabric.h leaves open is drawn from the seed: when a message arrives, whether one that was
// under way when a connection broke still does, in which pieces and order a one-sided operation lands, how long after
// that its completion is reported. Whatever the contract excludes never happens: after a completion, or after memory
// was withdrawn, nothing lands there.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fabric/fabric.h"

namespace verbena::simulator {

class Fabric {
 public:
  // The transport that it behaves as. memory (local): copies within the call, messages in order. stream (tcp): a
  // write is done when it is on its way, and lands before any later message. device (verbs): pieces in any order,
  // messages in any order and sometimes twice, senders and lost peers unknown.
  enum class Kind : uint8_t { memory, stream, device };
  static constexpr size_t hosts_max = 64;

  explicit Fabric(Kind kind);
  ~Fabric();  // after all ports and links
  Fabric(const Fabric&) = delete;

  Kind kind() const { return kind_; }
  std::string_view provider() const;
  std::unique_ptr<fabric::Port> listen(Core& core);  // its address() is for connect()
  Result<std::unique_ptr<fabric::Link>> connect(const std::string& address, uint64_t session, size_t host);

  void be_faulty(bool faulty) { faulty_ = faulty; }  // connections break, operations stall
  bool is_faulty() const { return faulty_; }
  void cut(size_t host);  // all its connections
  void cut_all();
  // What has befallen a host's connections so far. After it changed, calls of that host may fail.
  uint64_t troubles(size_t host) const { return troubles_[host % hosts_max]; }
  void trouble(size_t host) { ++troubles_[host % hosts_max]; }
  void trouble_all();
  // Whether a connection is broken that this host's client has not given up yet.
  bool holds_broken(size_t host) const;
  // Whether no message is on its way to a port.
  bool quiet() const { return under_way_ == 0; }
  // What was wrong with memory that it had given out; empty: nothing.
  std::string wrong() const;

 private:
  friend class SimulatedPort;
  friend class SimulatedLink;
  friend class SimulatedWindow;
  friend class SimulatedLent;
  struct PortState;
  struct Connection;
  struct Transfer;
  struct Block;
  struct Letter;
  using ConnectionPtr = std::shared_ptr<Connection>;

  // With the lock held:
  void at(int64_t ns, std::function<void()> what);
  int64_t delay();
  bool draw(uint64_t one_in);
  void risk(const ConnectionPtr& connection);
  int64_t arrival(int64_t& last_ns);
  void send_up(const ConnectionPtr& connection, Bytes message);
  void send_down(const ConnectionPtr& connection, Letter letter);
  void arrive_up(const ConnectionPtr& connection);
  void arrive_down(const ConnectionPtr& connection);
  void hand_over(const ConnectionPtr& connection, Letter letter);
  void land(Connection& connection, Letter& letter);
  void break_off(const ConnectionPtr& connection, bool befalls = true);
  void tell_gone(const ConnectionPtr& connection);
  void start(const ConnectionPtr& connection, const std::shared_ptr<Transfer>& transfer);
  void move(Connection& connection, Transfer& transfer, size_t piece);
  void finish(const ConnectionPtr& connection, const std::shared_ptr<Transfer>& transfer, Result<void> outcome);
  MutableBytes lent(Connection& connection, const fabric::WindowDescriptor& window, fabric::Access access, uint64_t at,
                    uint64_t size);

  void run();

  const Kind kind_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<int64_t, std::function<void()>> events_;
  std::map<std::string, std::shared_ptr<PortState>> ports_;
  std::map<uint64_t, ConnectionPtr> connections_;
  std::map<const std::byte*, size_t> blocks_;  // of allocate(): only these can be lent as `memory`
  uint64_t next_ = 0;
  bool stop_ = false;
  std::string wrong_;
  std::atomic<bool> faulty_{false};
  std::atomic<uint64_t> under_way_{0};
  std::atomic<uint64_t> troubles_[hosts_max] = {};
  std::thread thread_;
};

}  // namespace verbena::simulator
