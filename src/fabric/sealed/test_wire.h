// For tests: a transport whose wire belongs to an attacker. Messages and one-sided operations pass through hooks that
// may change, drop, repeat, swap or record them.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/test_core.h"
#include "fabric/sealed/sealed.h"

namespace verbena::fabric::sealed {

using Message = std::vector<std::byte>;

struct Wire {
  // What arrives instead of a message; the default is the message itself. On any thread.
  std::function<std::vector<Message>(Message)> to_server, to_client;
  // Called with the bytes of a one-sided operation, on their way.
  std::function<void(MutableBytes)> written, read;

  std::mutex mutex;
  std::deque<Message> arrived;  // at the client
  struct Region {
    MutableBytes bytes;
    Access access;
  };
  std::map<uint64_t, Region> regions;
  uint64_t last_key = 0;
  size_t lends = 0;
  int full = 0;                        // so many sends of the server find its queue full
  std::atomic<bool> says_full{false};  // may_send() says so, too
  std::atomic<int> sends{0};           // attempts of the server

  std::vector<Message> pass(const std::function<std::vector<Message>(Message)>& hook, Bytes message) {
    Message copy(message.begin(), message.end());
    if (hook) return hook(std::move(copy));
    std::vector<Message> all;
    all.push_back(std::move(copy));
    return all;
  }
};

class WireWindow final : public Window {
 public:
  WireWindow(Wire& wire, WindowDescriptor lent, Access access) : wire_(wire), lent_(lent), access_(access) {}
  uint64_t size() const override { return lent_.size; }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline) override {
    Message bytes(from.begin(), from.end());
    if (wire_.written) wire_.written(bytes);
    const std::lock_guard lock(wire_.mutex);
    const auto it = wire_.regions.find(lent_.key);
    if (it == wire_.regions.end() || it->second.access != access_) co_return fail(Errc::rdma_transfer_failed);
    if (at > it->second.bytes.size() || bytes.size() > it->second.bytes.size() - at)
      co_return fail(Errc::rdma_transfer_failed);
    std::ranges::copy(bytes, it->second.bytes.begin() + static_cast<ptrdiff_t>(at));
    co_return Result<void>{};
  }
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline) override {
    {
      const std::lock_guard lock(wire_.mutex);
      const auto it = wire_.regions.find(lent_.key);
      if (it == wire_.regions.end() || it->second.access != access_) co_return fail(Errc::rdma_transfer_failed);
      if (at > it->second.bytes.size() || into.size() > it->second.bytes.size() - at)
        co_return fail(Errc::rdma_transfer_failed);
      std::ranges::copy(it->second.bytes.subspan(at, into.size()), into.begin());
    }
    if (wire_.read) wire_.read(into);
    co_return Result<void>{};
  }

 private:
  Wire& wire_;
  WindowDescriptor lent_;
  Access access_;
};

class WirePort final : public Port {
 public:
  explicit WirePort(Wire& wire) : wire_(wire) {}
  void on_message(OnMessage handler) override { receive = std::move(handler); }
  void on_gone(OnGone) override {}
  size_t message_size_max() const override { return 16 * KiB; }
  std::string address() const override { return "wire"; }
  Result<PeerId> add_peer(std::string_view) override { return ++peers_; }
  void remove_peer(PeerId) override {}
  bool may_send(PeerId) const override { return !wire_.says_full; }
  Result<void> send(PeerId, Bytes message) override {
    ++wire_.sends;
    const std::lock_guard lock(wire_.mutex);
    if (wire_.says_full) return fail(Errc::would_block);
    if (wire_.full > 0 && wire_.full-- > 0) return fail(Errc::would_block);
    for (auto& passed : wire_.pass(wire_.to_client, message)) wire_.arrived.push_back(std::move(passed));
    return {};
  }
  Result<std::unique_ptr<Window>> open_window(PeerId, const WindowDescriptor& lent, Access access) override {
    return std::make_unique<WireWindow>(wire_, lent, access);
  }

  OnMessage receive;

 private:
  Wire& wire_;
  PeerId peers_ = 0;
};

class WireLent final : public Lent {
 public:
  WireLent(Wire& wire, MutableBytes memory, Access access) : wire_(wire), memory_(memory) {
    const std::lock_guard lock(wire_.mutex);
    descriptor_ = {0, memory.size(), ++wire_.last_key};
    wire_.regions[descriptor_.key] = {memory, access};
    ++wire_.lends;
  }
  ~WireLent() override {
    const std::lock_guard lock(wire_.mutex);
    wire_.regions.erase(descriptor_.key);
  }
  const WindowDescriptor& descriptor() const override { return descriptor_; }
  MutableBytes bytes() const override { return memory_; }

 private:
  Wire& wire_;
  MutableBytes memory_;
  WindowDescriptor descriptor_;
};

// Delivers to `port` on the core's thread.
class WireLink final : public Link {
 public:
  WireLink(Wire& wire, Core& core, WirePort& port) : wire_(wire), core_(core), port_(port) {}
  std::string_view provider() const override { return "wire"; }
  std::string address() const override { return "client"; }
  size_t message_size_max() const override { return 16 * KiB; }
  Result<void> send(Bytes message) override {
    for (auto& passed : wire_.pass(wire_.to_server, message)) {
      boost::asio::post(core_.io(), [this, passed = std::move(passed)] {
        if (port_.receive) port_.receive(0, passed);
      });
    }
    return {};
  }
  Result<size_t> poll(const OnMessage& handler) override {
    std::deque<Message> all;
    {
      const std::lock_guard lock(wire_.mutex);
      all.swap(wire_.arrived);
    }
    for (const Message& message : all) handler(message);
    return all.size();
  }
  void wait(Deadline) override { std::this_thread::sleep_for(std::chrono::microseconds(50)); }
  Result<std::unique_ptr<Lent>> lend(MutableBytes memory, Access access) override {
    return std::make_unique<WireLent>(wire_, memory, access);
  }
  Result<std::shared_ptr<MutableBytes>> allocate(size_t size) override {
    auto memory = std::make_shared<std::vector<std::byte>>(size);
    return std::shared_ptr<MutableBytes>(new MutableBytes(*memory), [memory](MutableBytes* span) { delete span; });
  }

 private:
  Wire& wire_;
  Core& core_;
  WirePort& port_;
};

}  // namespace verbena::fabric::sealed
