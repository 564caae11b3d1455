#include "lender.h"

#include <unistd.h>

#include <algorithm>
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

size_t between(void* begin, void* later) {
  return static_cast<size_t>(static_cast<char*>(later) - static_cast<char*>(begin));
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
  if (memory_kind(memory) != MemoryKind::system) throw FabricFault("memory of a GPU is not lent");
  const auto lock = hold();
  const auto there = pins_.find(memory);
  if (there != pins_.end()) {
    if (size > there->second.size) throw FabricFault("registered already, and shorter");
    ++there->second.references;
    return;
  }
  Pin pin{.size = size, .references = 1, .regions = {}};
  for (auto& rail : rails_) pin.regions.push_back(rail->pin(memory, size));
  pins_.emplace(memory, std::move(pin));
  longest_ = std::max(longest_, size);
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
void Lender::end(Pins::iterator pin) {
  std::vector<Region> regions = std::move(pin->second.regions);
  const size_t size = pin->second.size;
  pins_.erase(pin);
  if (size == longest_) {
    longest_ = 0;
    for (const auto& [memory, left] : pins_) longest_ = std::max(longest_, left.size);
  }
  for (size_t rail = 0; rail < rails_.size(); ++rail) rails_[rail]->unpin(std::move(regions[rail]));
}

// The registrations that hold `memory`, the one that begins nearest first.
std::vector<Lender::Pins::iterator> Lender::around(void* memory) {
  std::vector<Pins::iterator> found;
  for (auto there = pins_.upper_bound(memory); there != pins_.begin();) {
    --there;
    const size_t distance = between(there->first, memory);
    if (distance >= longest_) break;
    if (distance < there->second.size) found.push_back(there);
  }
  return found;
}

std::string Lender::token(void* memory, size_t size, size_t offset) {
  const auto lock = hold();
  const auto all = around(memory);
  if (all.empty()) throw FabricFault("not registered");
  for (const auto& there : all) {
    Pin& pin = there->second;
    const size_t begin = between(there->first, memory);
    const size_t room = pin.size - begin;
    if (offset > room || size > room - offset) continue;
    const size_t rail = next_rail();
    return rails_[rail]->token(pin.regions[rail], begin + offset, size);
  }
  throw FabricFault("not inside the registered memory");
}

size_t Lender::pinned_from(void* memory) {
  const auto lock = hold();
  size_t longest = 0;
  for (const auto& there : around(memory)) {
    longest = std::max(longest, there->second.size - between(there->first, memory));
  }
  return longest;
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
