// The listener of a port: a thread that accepts connections, shakes hands, and receives the memory that clients share.
// Everything that may block or take long (receiving and closing foreign descriptors, mapping memory) happens here; the
// core's thread gets the results, in order, through ListenerEvents.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/core.h"
#include "fabric/local/client_memory.h"
#include "fabric/local/control.h"
#include "fabric/local/disposer.h"
#include "fabric/local/local.h"
#include "fabric/local/parcel.h"
#include "fabric/local/shared_region.h"

namespace verbena::fabric::local {

// A connected client's socket. The listener receives on it; listener and core send (packets are atomic, and never
// block).
class Socket {
 public:
  // `counted`: its place among the port's sockets, until it is closed.
  Socket(Fd fd, std::shared_ptr<const void> counted) : counted_(std::move(counted)) { fds_.push_back(std::move(fd)); }
  ~Socket() { dispose(std::move(fds_), std::move(counted_)); }
  Socket(const Socket&) = delete;
  int get() const { return fds_.front().get(); }

 private:
  std::vector<Fd> fds_;  // one
  std::shared_ptr<const void> counted_;
};

// Called on the core's thread, in the order of the events at the listener.
class ListenerEvents {
 public:
  // A client finished the handshake. The implementation sends the welcome once it is ready for messages.
  virtual void joined(PeerId peer, std::shared_ptr<Socket> socket, SharedRegion region, Fd doorbell) = 0;
  // A client shared memory (under `key`), and waits for `reply`.
  virtual void memory_shared(PeerId peer, uint32_t key, std::shared_ptr<ClientMemory> memory,
                             const ControlMessage& reply) = 0;
  // A client withdrew memory, and waits for `reply` before it shares more.
  virtual void memory_withdrawn(PeerId peer, uint32_t key, const ControlMessage& reply) = 0;
  // A client handed over descriptors, and waits for `reply`.
  virtual void handed_over(PeerId peer, uint32_t number, std::shared_ptr<const Parcel> parcel,
                           const ControlMessage& reply) = 0;
  virtual void gone(PeerId peer) = 0;

 protected:
  ~ListenerEvents() = default;
};

class LocalListener {
 public:
  // `events` is called through `core` while `alive` is.
  static Result<std::unique_ptr<LocalListener>> open(Core& core, const std::string& socket_path, const Options& options,
                                                     ListenerEvents* events, std::weak_ptr<void> alive);
  ~LocalListener();  // joins the thread, closes all connections and removes the socket file

  // From any thread: keeps that client connected.
  void admit(PeerId peer);
  // From any thread: closes that client's connection. gone() is not called for it.
  void drop(PeerId peer);

  const std::string& path() const { return path_; }

 private:
  struct Connection {
    std::shared_ptr<Socket> socket;
    PeerId peer = 0;    // 0: no hello yet
    Deadline deadline;  // for the hello, then for admission
    bool admitted = false;
    MemoryBudgets budgets;
    uint32_t key_next = 0;
    Parcel::Budgets parcel_budgets = {};
    uint32_t parcel_next = 1;
    unsigned refused = 0;         // descriptors, since some were kept
    bool refusal_logged = false;  // logged once; the rest is counted
    std::vector<uint32_t> keys;
  };

  LocalListener(Core& core, const Options& options, ListenerEvents* events, std::weak_ptr<void> alive)
      : core_(core), options_(options), events_(events), alive_(std::move(alive)) {}
  Result<void> bind(const std::string& path);
  void run();
  void accept_all();
  void accept_again();
  void serve(int fd);
  bool handle(Connection& connection, Packet packet);
  bool welcome(Connection& connection);
  Result<SharedRegion> make_region(const std::shared_ptr<Budget>& mappings_of_user) const;
  bool share(Connection& connection, const ControlMessage& message, Fd fd);
  bool withdraw(Connection& connection, const ControlMessage& message);
  bool hand_over(Connection& connection, const ControlMessage& message, std::vector<Fd> descriptors);
  bool refuse_memory(Connection& connection, ControlMessage reply, const Error& why);
  bool refuse_descriptors(Connection& connection, const ControlMessage& reply, const Error& why);
  bool answer_cut_off(Connection& connection, Packet packet);
  void refuse(Connection& connection, Errc code);
  void close(int fd, bool tell);
  void close_slow_ones();
  void close_dropped();
  void note_admitted();
  bool make_room();
  size_t handshakes() const;
  template <class Condition>
  int oldest_of_new(Condition condition) const;
  template <class Event>
  void post(Event event);

  Core& core_;
  const Options options_;
  ListenerEvents* const events_;
  const std::weak_ptr<void> alive_;
  std::string path_;
  uint64_t device_ = 0, inode_ = 0;  // of our socket file
  Fd listening_;
  Fd epoll_;
  Fd wakeup_;
  std::shared_ptr<Budget> memory_bytes_;
  std::shared_ptr<Budget> sockets_;                  // of clients, until they are closed
  bool accepting_ = true;                            // else too many sockets are still to be closed
  std::unordered_map<int, Connection> connections_;  // by descriptor
  std::unordered_map<PeerId, int> descriptors_;      // of clients that finished the handshake
  PeerId peer_next_ = 1;
  std::unordered_set<int> new_;  // of connections_: not admitted yet
  size_t waiting_ = 0;           // of those, clients that finished the handshake

  std::mutex mutex_;
  std::vector<PeerId> dropped_, admitted_;  // guarded by mutex_
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace verbena::fabric::local
