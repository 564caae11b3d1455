#include "lender.h"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "device_export.h"
#include "memory_kind.h"

namespace verbena::compat {
namespace {

std::string or_variable(std::string devices) {
  const char* otherwise = getenv("S3RDMA_DEVICE");
  return devices.empty() && otherwise != nullptr ? otherwise : std::move(devices);
}

}  // namespace

Lender::Lender(std::string devices)
    : rails_(open_rails(or_variable(std::move(devices)))), process_(getpid()), thread_([this] { progress(); }) {}

Lender::~Lender() {
  if (!is_forked()) {
    stop_ = true;
    thread_.join();
    return;
  }
  // The thread is not in this process. What it drove is the parent's, and is not closed from here.
  thread_.detach();
  static_cast<void>(new auto(std::move(pins_)));
  static_cast<void>(new auto(std::move(rails_)));
}

bool Lender::is_forked() const { return getpid() != process_; }

// In a fork the lock may be another thread's, which does not exist there.
std::unique_lock<std::mutex> Lender::hold() {
  if (is_forked()) throw FabricFault("this process is a fork of the one that opened the device");
  return std::unique_lock(mutex_);
}

void Lender::pin(void* memory, size_t size) {
  if (memory == nullptr || size == 0) throw FabricFault("no memory to register");
  const MemoryKind kind = memory_kind(memory);
  const bool on_device = kind == MemoryKind::cuda_device;
  if (!on_device && kind != MemoryKind::system) throw FabricFault("managed memory of a GPU is not lent");
  const auto lock = hold();
  const auto there = pins_.find(memory);
  if (there != pins_.end()) {
    if (size > there->second.size) throw FabricFault("registered already, and shorter");
    ++there->second.references;
    return;
  }
  Pin pin{.size = size, .references = 1, .regions = {}};
  if (on_device) {
    const DeviceExport exported(memory, size);
    for (auto& rail : rails_) pin.regions.push_back(rail->pin_device(memory, size, exported));
  } else {
    for (auto& rail : rails_) pin.regions.push_back(rail->pin(memory, size));
  }
  pins_.add(memory, std::move(pin));
}

void Lender::unpin(void* memory) {
  const auto lock = hold();
  const auto there = pins_.find(memory);
  if (there == pins_.end()) throw FabricFault("not registered");
  if (--there->second.references == 0) end(there);
}

bool Lender::drop(void* memory) {
  const auto lock = hold();
  const auto there = pins_.find(memory);
  if (there == pins_.end()) return false;
  end(there);
  return true;
}

// Not while progress() is under way: it writes what arrives.
void Lender::end(Pins::Place pin) {
  std::vector<Region> regions = std::move(pin->second.regions);
  pins_.erase(pin);
  for (size_t rail = 0; rail < rails_.size(); ++rail) rails_[rail]->unpin(std::move(regions[rail]));
}

std::string Lender::token(void* memory, size_t size, size_t offset) {
  const auto lock = hold();
  const auto there = pins_.holding(memory, offset, size);
  if (there == pins_.end()) throw FabricFault(pins_.refusal(memory));
  const size_t rail = next_rail();
  return rails_[rail]->token(there->second.regions[rail], Pins::offset_in(there, memory) + offset, size);
}

size_t Lender::pinned_from(void* memory) {
  const auto lock = hold();
  return pins_.reach(memory);
}

void Lender::failed(std::string_view token) {
  const auto lock = hold();
  for (auto& rail : rails_) {
    if (rail->minted(token)) return rail->pass_over();
  }
  throw FabricFault("a token of another client");
}

int Lender::healthy_rails() {
  const auto lock = hold();
  int count = 0;
  for (const auto& rail : rails_) count += rail->healthy() ? 1 : 0;
  return count;
}

// In turn; if every rail has failed, any of them.
size_t Lender::next_rail() {
  for (size_t tried = 0; tried < rails_.size(); ++tried) {
    const size_t rail = turn_++ % rails_.size();
    if (rails_[rail]->healthy()) return rail;
  }
  return turn_++ % rails_.size();
}

// Providers in software move bytes, and all of them accept connections, only while they are called.
void Lender::progress() {
  constexpr long sleep_ns = 10'000'000, nap_ns = 50'000, idle_nap_ns = 2'000'000;
  std::vector<pollfd> readable;
  while (!stop_) {
    readable.clear();
    timespec time{.tv_sec = 0, .tv_nsec = sleep_ns};
    {
      const std::lock_guard lock(mutex_);
      for (auto& rail : rails_) {
        if (const int fd = rail->progress(); fd >= 0) {
          readable.push_back({fd, POLLIN, 0});
        } else {
          time.tv_nsec = pins_.empty() ? idle_nap_ns : nap_ns;
        }
      }
    }
    ppoll(readable.data(), readable.size(), &time, nullptr);
  }
}

}  // namespace verbena::compat
