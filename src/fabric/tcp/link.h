// The client's end: one socket, its frames, and the server's reads and writes of lent memory.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "fabric/tcp/frame_reader.h"
#include "fabric/tcp/lending.h"
#include "fabric/tcp/outbox.h"
#include "fabric/tcp/stream.h"
#include "fabric/tcp/tcp.h"

namespace verbena::fabric::tcp {

class TcpLink final : public Link, private FrameReceiver {
 public:
  // The stream is authenticated, and encrypted if required.
  TcpLink(Stream stream, size_t message_size_max);
  ~TcpLink() override;
  Result<void> open();

  std::string_view provider() const override { return "tcp"; }
  std::string address() const override { return {}; }  // no peer connects to a client
  size_t message_size_max() const override { return message_size_max_; }
  Result<void> send(Bytes message) override;
  Result<size_t> poll(const OnMessage& handler) override;
  void wait(Deadline deadline) override;
  void wake() override;
  Result<std::unique_ptr<Lent>> lend(MutableBytes memory, Access access) override;
  Result<std::shared_ptr<MutableBytes>> allocate(size_t size) override { return allocate_pages(size); }

  // Stops using that window's memory. With the lock held.
  void withdrawn(uint64_t key);

 private:
  struct Answer {
    Outgoing out;
    uint64_t window = 0;
  };

  Result<void> message(Bytes message) override;
  Result<std::byte*> landing(const Frame& frame) override;
  Result<void> landed(const Frame&) override { return {}; }
  Result<void> control(const Frame& frame) override;

  Result<size_t> receive();
  Result<void> flush();
  Result<void> refuse(uint64_t operation);
  void cut();

  std::shared_ptr<Lending> lending_ = std::make_shared<Lending>();
  const size_t message_size_max_;
  Stream stream_;
  FrameReader reader_;
  Outbox outbox_;
  std::vector<std::byte> scratch_;
  std::deque<std::unique_ptr<Answer>> answers_;
  std::vector<Outgoing*> sent_;
  const OnMessage* handler_ = nullptr;  // during a poll
  size_t events_ = 0;                   // of it
  bool closed_ = false;
  Fd wake_;
  std::atomic<bool> woken_{false};
};

}  // namespace verbena::fabric::tcp
