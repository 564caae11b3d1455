#include "wire_peer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fabric/sealed/sealed.h"
#include "give_up.h"

namespace verbena::bench {
namespace {

// A device moves bytes without the server's processor. memcpy takes an instruction for each of them under callgrind,
// which counts every step of `rep movsb`; a block at a time it is a fifth of one.
void move_bytes(std::byte* to, const std::byte* from, size_t size) {
  constexpr size_t block_size = 256;
  for (; size >= block_size; size -= block_size, to += block_size, from += block_size) {
    std::byte block[block_size];
    std::memcpy(block, from, block_size);
    std::memcpy(to, block, block_size);
  }
  std::memcpy(to, from, size);
}

// As of a device: what it moves is complete when it resumes.
class WireWindow final : public fabric::Window {
 public:
  explicit WireWindow(MutableBytes memory) : memory_(memory) {}
  uint64_t size() const override { return memory_.size(); }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline) override {
    move_bytes(memory_.data() + at, from.data(), from.size());
    co_return Result<void>{};
  }
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline) override {
    move_bytes(into.data(), memory_.data() + at, into.size());
    co_return Result<void>{};
  }

 private:
  MutableBytes memory_;
};

class WireLent final : public fabric::Lent {
 public:
  WireLent(WirePort& port, MutableBytes memory) : port_(port), memory_(memory) {
    descriptor_ = {0, memory.size(), port.lent.size() + 1};
    port.lent[descriptor_.key] = memory;
  }
  const fabric::WindowDescriptor& descriptor() const override { return descriptor_; }
  MutableBytes bytes() const override { return memory_; }

 private:
  WirePort& port_;
  MutableBytes memory_;
  fabric::WindowDescriptor descriptor_;
};

class WireLink final : public fabric::Link {
 public:
  WireLink(WirePort& port, std::vector<std::vector<std::byte>>& to_server) : port_(port), to_server_(to_server) {}
  std::string_view provider() const override { return "wire"; }
  std::string address() const override { return "wire"; }
  size_t message_size_max() const override { return WirePort::message_size; }
  Result<void> send(Bytes message) override {
    to_server_.emplace_back(message.begin(), message.end());
    return {};
  }
  Result<size_t> poll(const OnMessage& handler) override {
    const size_t count = std::exchange(port_.sent_count, 0);
    for (size_t i = 0; i < count; ++i) handler(Bytes(port_.sent[i].bytes).first(port_.sent[i].size));
    return count;
  }
  void wait(Deadline) override {}
  Result<std::unique_ptr<fabric::Lent>> lend(MutableBytes memory, fabric::Access) override {
    return std::make_unique<WireLent>(port_, memory);
  }
  Result<std::shared_ptr<MutableBytes>> allocate(size_t size) override {
    auto memory = std::make_shared<std::vector<std::byte>>(size);
    return std::shared_ptr<MutableBytes>(new MutableBytes(*memory), [memory](MutableBytes* span) { delete span; });
  }

 private:
  WirePort& port_;
  std::vector<std::vector<std::byte>>& to_server_;
};

}  // namespace

Result<void> WirePort::send(fabric::PeerId, Bytes message) {
  if (sent_count == sent.size()) return fail(Errc::would_block, "bench");
  Sent& one = sent[sent_count++];
  one.size = message.size();
  std::memcpy(one.bytes.data(), message.data(), message.size());
  return {};
}

Result<std::unique_ptr<fabric::Window>> WirePort::open_window(fabric::PeerId, const fabric::WindowDescriptor& window,
                                                              fabric::Access) {
  const auto it = lent.find(window.key);
  if (it == lent.end()) return fail(Errc::invalid_argument, "bench");
  return std::make_unique<WireWindow>(it->second);
}

WirePeer::WirePeer(const Place& place, uint16_t endpoint, WirePort& wire,
                   const std::optional<fabric::ConnectionKey>& key)
    : LinkPeer(place, endpoint, key.has_value()), wire_(wire) {
  link_ = std::make_unique<WireLink>(wire, to_server_);
  if (key) link_ = fabric::sealed::seal(std::move(link_), place.session, *key);
}

void WirePeer::serve() {
  for (const auto& message : to_server_) wire_.receive(0, message);
  to_server_.clear();
  place_.core.io().restart();
  while (place_.core.io().poll() + place_.door.poll() != 0) {
  }
}

}  // namespace verbena::bench
