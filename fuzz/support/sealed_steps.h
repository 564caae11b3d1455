// What the fuzzers of sealed connections share: an input is a byte that selects the case and the settings, then steps
// of [what, how, size in two bytes, that many bytes]; a server end on a wire; the mutator of steps.
#pragma once

#include <boost/asio/co_spawn.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/cursor.h"
#include "base/log.h"
#include "fabric/sealed/channel.h"
#include "fabric/sealed/test_wire.h"
#include "support/mutator.h"

namespace verbena::fuzz {

using fabric::Access;
using fabric::ConnectionKey;
using fabric::Lent;
using fabric::Link;
using fabric::PeerId;
using fabric::Port;
using fabric::Sealing;
using fabric::Window;
using fabric::WindowDescriptor;
using namespace fabric::sealed;

inline constexpr size_t object_max =
    segment_size + record_size_max + 8 * KiB;  // two segments, and a rest inside a message
inline constexpr size_t transfers_max = 6, steps_max = 60;
inline constexpr size_t envelope_max = 16 * KiB;
inline constexpr std::byte untouched{0xaa};
inline constexpr uint64_t session = 1;

inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

struct World {
  World() {
    log::set_level(log::Level::error);
    for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<std::byte>(i * 31 + i / 251 * 7 + i / 65'536);
  }
  Core core{Core::Options{}};
  std::unique_ptr<memory::Arena> arena = *memory::Arena::create(32 * MiB);
  std::vector<std::byte> pattern = std::vector<std::byte>(object_max);
};

inline World& world() {
  static auto& one = *new World;
  return one;
}
inline Bytes pattern(size_t from, size_t size) { return Bytes(world().pattern).subspan(from, size); }
inline bool all_untouched(Bytes bytes) {
  static const std::vector<std::byte> blank(object_max, untouched);
  return std::memcmp(bytes.data(), blank.data(), bytes.size()) == 0;
}
inline bool same(Bytes a, Bytes b) { return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0; }

struct Settings {
  explicit Settings(uint8_t byte) : epoch_bits((byte & 8) != 0 ? 1 : Cipher::epoch_bits_default) {
    key.bytes.fill(std::byte{41});
    key.sealing = (byte & 4) != 0 ? Sealing::chacha20_poly1305 : Sealing::aes_256_gcm;
  }
  ConnectionKey key;
  unsigned epoch_bits;
};

// Numbers of a step; zeros past its end.
class Numbers {
 public:
  explicit Numbers(Bytes bytes) : rest_(bytes) {}
  template <class T>
  T next() {
    T value{};
    const size_t n = std::min(sizeof value, rest_.size());
    if (n != 0) std::memcpy(&value, rest_.data(), n);
    rest_ = rest_.subspan(n);
    return cursor::little_endian(value);
  }
  size_t below(size_t bound) { return next<uint32_t>() % bound; }
  Bytes rest() const { return rest_; }

 private:
  Bytes rest_;
};

struct Step {
  uint8_t what = 0, how = 0;
  Bytes bytes;
};

class Steps {
 public:
  explicit Steps(Bytes bytes) : rest_(bytes) {}
  bool next(Step& step) {
    if (rest_.size() < 4 || ++taken_ > steps_max) return false;
    const size_t size =
        std::min(std::to_integer<size_t>(rest_[2]) + (std::to_integer<size_t>(rest_[3]) << 8), rest_.size() - 4);
    step = {std::to_integer<uint8_t>(rest_[0]), std::to_integer<uint8_t>(rest_[1]), rest_.subspan(4, size)};
    rest_ = rest_.subspan(4 + size);
    return true;
  }

 private:
  Bytes rest_;
  size_t taken_ = 0;
};

inline size_t turn() {
  world().core.io().restart();
  return world().core.io().poll();
}

// Changes bytes where the step says so; true if any was.
inline bool changed(MutableBytes bytes, Numbers& numbers) {
  const size_t at = numbers.next<uint32_t>();
  const auto value = static_cast<std::byte>(numbers.next<uint8_t>());
  if (bytes.empty() || value == std::byte{0}) return false;
  bytes[at % bytes.size()] ^= value;
  return true;
}

// A write into, or a read of, a client's window.
struct Move {
  memory::Lease lease;
  std::unique_ptr<Window> window;
  std::optional<Result<void>> outcome;
};

class Server {
 public:
  Server(Wire& wire, const Settings& settings) : below(wire) {
    port = seal(world().core, below, *world().arena, {.takes_plain = false, .epoch_bits = settings.epoch_bits});
    port->on_connection([key = settings.key](uint64_t asked, ConnectionKey* found) {
      if (asked == session && found != nullptr) *found = key;
      return asked == session;
    });
    port->on_message([this](PeerId, Bytes message) {
      if (peer == 0) peer = *port->add_peer("client");
      heard.emplace_back(message.begin(), message.end());
      say(message);
    });
  }
  ~Server() {
    port.reset();
    while (turn() != 0) {
    }
    for (const auto& move : moves) require(move->outcome.has_value());
    moves.clear();
    require(world().arena->leased_bytes() == 0);
  }
  void say(Bytes message) {
    if (port->send(peer, message)) said.emplace_back(message.begin(), message.end());
  }
  // null: the window cannot be opened.
  std::shared_ptr<Move> start(const WindowDescriptor& lent, Access access, size_t size, size_t at) {
    if (moves.size() >= transfers_max || size == 0) return nullptr;
    auto opened = port->open_window(peer, lent, access);
    if (!opened) return nullptr;
    auto move = std::make_shared<Move>();
    move->lease = std::move(*world().arena->lease(size));
    move->window = std::move(*opened);
    const MutableBytes bytes = move->lease.bytes().first(size);
    const auto ended = [move](const std::exception_ptr&, Result<void> outcome) { move->outcome = std::move(outcome); };
    const Deadline deadline = deadline_in(std::chrono::hours(1));
    if (access == Access::server_writes) {
      std::ranges::copy(pattern(0, size), bytes.begin());
      boost::asio::co_spawn(world().core.io(), move->window->write(bytes, at, deadline), ended);
    } else {
      boost::asio::co_spawn(world().core.io(), move->window->read(bytes, at, deadline), ended);
    }
    moves.push_back(move);
    return move;
  }

  WirePort below;
  std::unique_ptr<Port> port;
  PeerId peer = 0;
  std::vector<Message> heard, said;
  std::vector<std::shared_ptr<Move>> moves;
};

// An input's steps, taken apart and put together again.
struct OwnStep {
  uint8_t what = 0, how = 0;
  std::string bytes;
};

inline std::vector<OwnStep> read_steps(Bytes input) {
  std::vector<OwnStep> out;
  Steps steps(input);
  for (Step step; steps.next(step);) out.push_back({step.what, step.how, std::string(as_text(step.bytes))});
  return out;
}

inline std::string write_steps(char first, const std::vector<OwnStep>& steps) {
  std::string out(1, first);
  for (const OwnStep& step : steps) {
    const size_t size = std::min<size_t>(step.bytes.size(), 0xffff);
    out += static_cast<char>(step.what);
    out += static_cast<char>(step.how);
    out += static_cast<char>(size & 0xff);
    out += static_cast<char>(size >> 8);
    out.append(step.bytes, 0, size);
  }
  return out;
}

inline void change_step(OwnStep& step, Chance& chance) {
  switch (chance.below(4)) {
    case 0:
      step.what = static_cast<uint8_t>(chance.below(10));
      break;
    case 1:
      change_number(step.how, chance);
      break;
    default:
      step.bytes = mutated_bytes(step.bytes, step.bytes.size() + 16);
  }
}

// One to three changes; `made` gives a new step.
inline size_t mutate_steps(uint8_t* data, size_t size, size_t size_max, unsigned seed,
                           const std::function<OwnStep(Chance&)>& made) {
  Chance chance(seed);
  if (size == 0 || chance.percent(30)) return LLVMFuzzerMutate(data, size, size_max);
  auto steps = read_steps(std::as_bytes(std::span(data, size)).subspan(1));
  for (size_t i = 1 + chance.below(3); i > 0; --i) {
    const auto at = steps.begin() + static_cast<std::ptrdiff_t>(chance.below(steps.size() + 1));
    if (at == steps.end() || chance.percent(20)) {
      steps.insert(at, made(chance));
    } else if (chance.percent(70)) {
      change_step(*at, chance);
    } else if (chance.percent(50)) {
      steps.erase(at);
    } else {
      std::swap(*at, steps[chance.below(steps.size())]);
    }
  }
  return put_back(write_steps(static_cast<char>(data[0]), steps), data, size_max);
}

}  // namespace verbena::fuzz
