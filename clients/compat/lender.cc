#include "lender.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include "memory_kind.h"

namespace verbena::compat {
namespace {

std::string or_variable(std::string devices) {
  const char* otherwise = getenv("S3RDMA_DEVICE");
  return devices.empty() && otherwise != nullptr ? otherwise : std::move(devices);
}

}  // namespace

Lender::Lender(std::string devices)
    : rails_(open_rails(or_variable(std::move(devices)))), thread_([this] { progress(); }) {}

Lender::~Lender() {
  stop_ = true;
  thread_.join();
}

void Lender::pin(void* memory, size_t size) {
  if (memory == nullptr || size == 0) throw FabricFault("no memory to register");
  if (memory_kind(memory) != MemoryKind::system) throw FabricFault("memory of a GPU is not lent");
  const std::lock_guard lock(mutex_);
  const auto there = pins_.find(memory);
  if (there != pins_.end()) {
    if (size > there->second.size) throw FabricFault("registered already, and shorter");
    ++there->second.references;
    return;
  }
  Pin pin{.size = size, .references = 1, .regions = {}};
  for (auto& rail : rails_) pin.regions.push_back(rail->pin(memory, size));
  pins_.emplace(memory, std::move(pin));
}

void Lender::unpin(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto there = pins_.find(memory);
  if (there == pins_.end()) throw FabricFault("not registered");
  if (--there->second.references == 0) pins_.erase(there);
}

bool Lender::drop(void* memory) {
  const std::lock_guard lock(mutex_);
  return pins_.erase(memory) > 0;
}

// The registration that begins at `memory` or, of those that begin before it, the nearest, if it reaches there.
std::map<void*, Lender::Pin>::iterator Lender::find_around(void* memory) {
  auto after = pins_.upper_bound(memory);
  if (after == pins_.begin()) return pins_.end();
  const auto there = std::prev(after);
  const auto distance = static_cast<size_t>(static_cast<char*>(memory) - static_cast<char*>(there->first));
  return distance < there->second.size ? there : pins_.end();
}

std::string Lender::token(void* memory, size_t size, size_t offset) {
  const std::lock_guard lock(mutex_);
  const auto there = find_around(memory);
  if (there == pins_.end()) throw FabricFault("not registered");
  const Pin& pin = there->second;
  const auto begin = static_cast<size_t>(static_cast<char*>(memory) - static_cast<char*>(there->first));
  const size_t room = pin.size - begin;
  if (offset > room || size > room - offset) throw FabricFault("not inside the registered memory");
  const size_t rail = next_rail();
  return rails_[rail]->token(pin.regions[rail], begin + offset, size);
}

size_t Lender::pinned_from(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto there = find_around(memory);
  if (there == pins_.end()) return 0;
  return there->second.size - static_cast<size_t>(static_cast<char*>(memory) - static_cast<char*>(there->first));
}

void Lender::failed(std::string_view token) {
  const std::lock_guard lock(mutex_);
  for (auto& rail : rails_) {
    if (rail->minted(token)) return rail->pass_over();
  }
  throw FabricFault("a token of another client");
}

int Lender::healthy_rails() {
  const std::lock_guard lock(mutex_);
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
  auto pause = std::chrono::microseconds(0);
  while (!stop_) {
    if (pause.count() == 0) {
      std::this_thread::yield();  // other threads want the lock, too
    } else {
      std::this_thread::sleep_for(pause);
    }
    const std::lock_guard lock(mutex_);
    int events = 0;
    for (auto& rail : rails_) events += rail->progress();
    pause = std::chrono::microseconds(events > 0 ? 0 : pins_.empty() ? 2000 : 50);
  }
}

}  // namespace verbena::compat
