#include "rdma/rc/test_device.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

namespace verbena::rdma::rc::test {

struct Fabric::Ring {
  int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::deque<Completion> done;
  ~Ring() { close(descriptor); }
  void add(const Completion& one) {
    done.push_back(one);
    const uint64_t count = 1;
    static_cast<void>(!write(descriptor, &count, sizeof count));
  }
};

struct Fabric::Shared {
  explicit Shared(Fabric& of) : fabric(of) {}
  struct Lent {
    MutableBytes memory;
    bool remote = false;
  };
  std::mutex mutex;
  Fabric& fabric;
  uint32_t last_key = 1000, last_number = 10;
  Gid own_gid{};  // as the device has read it last
  std::vector<std::jthread> late;
  std::map<uint32_t, Lent> regions;                 // by key
  std::map<uint32_t, std::shared_ptr<Ring>> rings;  // by queue pair
};

namespace {

using SharedPtr = std::shared_ptr<Fabric::Shared>;

class FakeRegion final : public Region {
 public:
  FakeRegion(SharedPtr shared, MutableBytes memory, bool remote) : shared_(std::move(shared)) {
    const std::lock_guard lock(shared_->mutex);
    key_ = ++shared_->last_key;
    shared_->regions[key_] = {memory, remote};
  }
  ~FakeRegion() override {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->regions[key_].remote) shared_->fabric.ended_in = std::this_thread::get_id();
    shared_->regions.erase(key_);
  }
  uint32_t local_key() const override { return key_; }
  uint32_t remote_key() const override { return key_; }

 private:
  SharedPtr shared_;
  uint32_t key_ = 0;
};

class FakePair final : public QueuePair {
 public:
  explicit FakePair(SharedPtr shared) : shared_(std::move(shared)), ring_(std::make_shared<Fabric::Ring>()) {
    const std::lock_guard lock(shared_->mutex);
    number_ = ++shared_->last_number;
    shared_->rings[number_] = ring_;
  }
  ~FakePair() override {
    const std::lock_guard lock(shared_->mutex);
    shared_->rings.erase(number_);
    shared_->fabric.pair_ended_in = std::this_thread::get_id();
    shared_->fabric.pair_ended_at = SteadyClock::now();
    if (shared_->fabric.lands_late.count() != 0 && !stuck_.empty()) {
      shared_->late.emplace_back([writes = std::move(stuck_), after = shared_->fabric.lands_late] {
        std::this_thread::sleep_for(after);
        for (const auto& [to, bytes] : writes) std::memcpy(to, bytes.data(), bytes.size());
      });
    }
  }
  uint32_t number() const override { return number_; }
  // By an entry of the table as the device has read it last, which the kernel looks up in the port's own table.
  Result<Gid> connect(const Peer& peer, uint32_t own_sequence) override {
    if (own_sequence == 0 || own_sequence > number_max) return fail(Errc::rdma_transfer_failed, "sequence");
    if (const auto& first = shared_->fabric.before_connect) first(peer);
    const Gid own = read_gid();
    if (own != Fabric::gid_of(shared_->fabric.own_address)) {
      return fail(Errc::rdma_transfer_failed, "no such GID", ENODATA);
    }
    if (const auto happens = std::exchange(shared_->fabric.on_connect, nullptr)) happens(number_, peer);
    return own;
  }
  Result<void> post_write(uint64_t id, Bytes from, uint32_t key, Remote to,
                          std::optional<uint32_t> immediate) override {
    const std::lock_guard lock(shared_->mutex);
    Fabric& fabric = shared_->fabric;
    ++fabric.writes;
    std::byte* const place = client_place(to, from.size());
    if (fabric.is_stuck) {
      if (place != nullptr) stuck_.emplace_back(place, std::vector<std::byte>(from.begin(), from.end()));
      return {};
    }
    const bool sound = shared_->regions.contains(key) && place != nullptr && fabric.fail_status == 0;
    if (sound) std::memcpy(place, from.data(), from.size());
    if (sound && immediate) fabric.immediates.push_back(*immediate);
    ring_->add({.id = id, .status = sound ? 0 : std::max(fabric.fail_status, 10)});
    return {};
  }
  Result<void> post_read(uint64_t id, MutableBytes into, uint32_t key, Remote from) override {
    const std::lock_guard lock(shared_->mutex);
    Fabric& fabric = shared_->fabric;
    ++fabric.reads;
    if (fabric.is_stuck) return {};
    const std::byte* const place = client_place(from, into.size());
    const bool sound = shared_->regions.contains(key) && place != nullptr && fabric.fail_status == 0;
    if (sound) std::memcpy(into.data(), place, into.size());
    ring_->add({.id = id, .status = sound ? 0 : std::max(fabric.fail_status, 10)});
    return {};
  }
  Result<void> post_receive(uint64_t) override { return {}; }
  size_t poll(std::span<Completion> into) override {
    const std::lock_guard lock(shared_->mutex);
    size_t count = 0;
    for (; count < into.size() && !ring_->done.empty(); ++count) {
      into[count] = ring_->done.front();
      ring_->done.pop_front();
    }
    return count;
  }
  int events() const override { return ring_->descriptor; }
  Result<void> arm() override {
    uint64_t count = 0;
    static_cast<void>(!read(ring_->descriptor, &count, sizeof count));
    return {};
  }

 private:
  Gid read_gid() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->own_gid;
  }
  std::byte* client_place(Remote at, size_t size) const {
    Fabric& fabric = shared_->fabric;
    const uint64_t begin = fabric.address(), end = begin + fabric.memory.size();
    if (at.key != Fabric::client_key || at.address < begin || at.address > end || size > end - at.address) {
      return nullptr;
    }
    return fabric.memory.data() + (at.address - begin);
  }

  SharedPtr shared_;
  std::shared_ptr<Fabric::Ring> ring_;
  uint32_t number_ = 0;
  std::vector<std::pair<std::byte*, std::vector<std::byte>>> stuck_;  // writes: where to, and their bytes
};

class FakeDomain final : public Domain {
 public:
  explicit FakeDomain(SharedPtr shared) : shared_(std::move(shared)) {}
  Result<std::unique_ptr<Region>> add_memory(MutableBytes memory, bool remote_write) override {
    return std::make_unique<FakeRegion>(shared_, memory, remote_write);
  }
  Result<std::unique_ptr<QueuePair>> add_queue_pair(bool) override {
    if (shared_->fabric.refuses_pairs) return fail(Errc::unsupported, "fake", ENOMEM);
    return std::make_unique<FakePair>(shared_);
  }

 private:
  SharedPtr shared_;
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(SharedPtr shared) : shared_(std::move(shared)) { read(); }
  std::string name() const override { return "fake0"; }
  Gid own_gid(const Gid&) const override {
    const std::lock_guard lock(shared_->mutex);
    return shared_->own_gid;
  }
  Result<void> refresh() override {
    read();
    return {};
  }
  Result<std::unique_ptr<Domain>> add_domain() override { return std::make_unique<FakeDomain>(shared_); }

 private:
  void read() {
    const std::lock_guard lock(shared_->mutex);
    shared_->own_gid = Fabric::gid_of(shared_->fabric.own_address);
  }

  SharedPtr shared_;
};

}  // namespace

std::shared_ptr<Fabric::Shared> Fabric::shared() {
  if (shared_ == nullptr) shared_ = std::make_shared<Shared>(*this);
  return shared_;
}

// What was late has landed.
Fabric::~Fabric() {
  if (shared_ != nullptr) shared_->late.clear();
}

Result<std::unique_ptr<Device>> Fabric::open() { return std::make_unique<FakeDevice>(shared()); }

bool Fabric::client_writes(uint32_t queue_pair, uint64_t address, uint32_t key, Bytes bytes, uint32_t immediate) {
  const std::lock_guard lock(shared()->mutex);
  const auto ring = shared_->rings.find(queue_pair);
  const auto region = shared_->regions.find(key);
  if (ring == shared_->rings.end() || region == shared_->regions.end() || !region->second.remote) return false;
  const MutableBytes memory = region->second.memory;
  const uint64_t begin = reinterpret_cast<uintptr_t>(memory.data());
  if (address < begin || address - begin > memory.size() || bytes.size() > memory.size() - (address - begin)) {
    return false;
  }
  std::memcpy(memory.data() + (address - begin), bytes.data(), bytes.size());
  ring->second->add({.id = 0, .status = 0, .immediate = immediate, .bytes = bytes.size()});
  return true;
}

size_t Fabric::pairs() {
  const std::lock_guard lock(shared()->mutex);
  return shared_->rings.size();
}

size_t Fabric::remote_regions() {
  const std::lock_guard lock(shared()->mutex);
  return static_cast<size_t>(
      std::ranges::count_if(shared_->regions, [](const auto& one) { return one.second.remote; }));
}

Gid Fabric::gid_of(const std::string& address) {
  namespace ip = boost::asio::ip;
  const ip::address parsed = ip::make_address(address);
  const ip::address_v6 six = parsed.is_v4() ? ip::make_address_v6(ip::v4_mapped, parsed.to_v4()) : parsed.to_v6();
  Gid gid;
  std::ranges::transform(six.to_bytes(), gid.begin(), [](unsigned char c) { return static_cast<std::byte>(c); });
  return gid;
}

}  // namespace verbena::rdma::rc::test
