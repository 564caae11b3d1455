// Messages of a client with a session and its keys: correctly encrypted, with arbitrary contents. They reach the whole
// door: credits, requests, batches, listings with values, watches, windows. The door answers each message at most once,
// with a readable reply, and at the end nothing is in flight. Input: steps of [type, flags, size in two bytes, that
// many bytes of a body]. What an input cannot know is filled in: 8 bytes a5 at the end of a body, or where MATCH names
// one, are the number of the last lease that was given.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "native/test_door.h"
#include "support/message_mutator.h"

using namespace verbena;          // NOLINT: a fuzzer's main file
using namespace verbena::native;  // NOLINT

namespace {

constexpr size_t message_size_max = 16 * KiB, window_size_max = 64 * KiB;

// Memory of the size that the client claims to lend.
class LentWindow final : public fabric::Window {
 public:
  LentWindow(size_t size, bool immediate) : memory_(size), immediate_(immediate) {}
  uint64_t size() const override { return memory_.size(); }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline) override { co_return write_now(from, at); }
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline) override {
    if (at > memory_.size() || into.size() > memory_.size() - at) co_return fail(Errc::invalid_argument, "window");
    std::memcpy(into.data(), memory_.data() + at, into.size());
    co_return Result<void>{};
  }
  size_t immediate_size_max() const override { return immediate_ ? window_size_max : 0; }
  Result<void> write_all_now(std::span<const Write> writes) override {
    for (const auto& [from, at] : writes) {
      if (at > memory_.size() || from.size() > memory_.size() - at) return fail(Errc::invalid_argument, "window");
      std::memcpy(memory_.data() + at, from.data(), from.size());
    }
    return {};
  }

 private:
  std::vector<std::byte> memory_;
  const bool immediate_;
};

class Port final : public fabric::Port {
 public:
  void on_message(OnMessage handler) override { receive = std::move(handler); }
  void on_gone(OnGone) override {}
  void on_connection(FindKey) override {}
  bool encrypted() const override { return false; }
  size_t message_size_max() const override { return ::message_size_max; }
  std::string address() const override { return "fuzz"; }
  Result<fabric::PeerId> add_peer(std::string_view) override { return fail(Errc::unsupported, "port"); }
  bool admit(fabric::PeerId, uint64_t) override { return true; }
  void remove_peer(fabric::PeerId) override {}
  Result<void> send(fabric::PeerId, Bytes message) override {
    // Sometimes there is no room, and the door has to keep its reply.
    if (++sends % 7 == 0) return fail(Errc::would_block, "port");
    const auto header = wire::parse_header(message, ::message_size_max);
    if (!header || (header->type & wire::reply_bit) == 0) std::abort();
    learn_lease(*header, message);
    ++replies;
    return {};
  }
  Result<std::unique_ptr<fabric::Window>> open_window(fabric::PeerId, const fabric::WindowDescriptor& lent,
                                                      fabric::Access) override {
    if (lent.size > window_size_max || lent.key == 0) return fail(Errc::access_denied, "port");
    return std::make_unique<LentWindow>(lent.size, lent.key % 2 == 0);
  }

  OnMessage receive;
  size_t sends = 0, replies = 0;
  uint64_t lease = 0;

 private:
  void learn_lease(const wire::Header& header, Bytes message) {
    if (header.type != (static_cast<uint8_t>(wire::Type::match) | wire::reply_bit)) return;
    const auto answer = wire::MatchReader::open(wire::body_of(message));
    if (answer && answer->lease() != 0) lease = answer->lease();
  }
};

struct Server {
  Server() {
    log::set_level(log::Level::error);
    if (!door.attach(core, port, "local", "/nowhere")) std::abort();
    store.make_bucket("bucket");
  }
  void turn() {
    core.io().restart();
    core.io().poll();
    door.poll();
  }
  void put_objects() {
    store.clear("bucket");
    store.put("bucket", "a", "short");
    store.put("bucket", "a/key", std::string(3000, 'k'));
    store.put("bucket", "prefix/key", std::string(40'000, 'p'));
    store.put("bucket", "prefix/empty", "");
  }
  FakePeer open_session() {
    TestHandshake handshake(wire::protocol_version_max);
    const std::string& body = handshake.body();
    http::FakeExchange exchange("POST", "/-/session", body);
    exchange.request_headers = {{"host", "server"}};
    auth::sign(root, "us-east-1", "s3", system_clock(), "POST", "/-/session", "",
               to_hex(as_bytes(sha256(as_bytes(body)))), exchange.request_headers);
    const auto handler = door.session_handler();
    boost::asio::co_spawn(core.io(), http::serve_whole(handler, exchange), boost::asio::detached);
    for (int i = 0; i < 20 && exchange.response.body.empty(); ++i) turn();
    if (exchange.response.status != 200) std::abort();
    FakePeer peer;
    peer.keys = wire::derive_stream(handshake.master(root.secret_key, exchange.response.body), 0);
    peer.session = handshake.session();
    return peer;
  }
  // Runs until everything has ended.
  void finish() {
    const auto until = deadline_in(std::chrono::seconds(30));
    while (door.in_flight() != 0) {
      if (SteadyClock::now() > until) std::abort();
      turn();
    }
  }

  const auth::Credentials root{.access_key = "AKROOT", .secret_key = "secret/root", .session_token = {}};
  std::unique_ptr<memory::Arena> arena = *memory::Arena::create(16 * MiB);
  store::in_memory::TestStore store{*arena};
  s3::Service service{store, *arena, system_clock()};
  OneKey credentials{root};
  auth::Verifier verifier{credentials, system_clock(), {}};
  Core core{Core::Options{}};
  Port port;
  NativeDoor door{service, verifier, credentials, Options{.feeds = &store}};
};

// The body with that number in place of the mark.
Bytes with_lease(Bytes body, uint64_t lease) {
  static std::vector<std::byte> filled;
  constexpr size_t size = sizeof lease, in_match = 30;
  filled.assign(body.begin(), body.end());
  const auto fill_in = [&](size_t at) {
    const auto is_mark = [](std::byte byte) { return byte == std::byte{0xa5}; };
    const std::span<std::byte> place = std::span(filled).subspan(at, size);
    if (std::ranges::all_of(place, is_mark)) std::memcpy(place.data(), &lease, size);
  };
  if (filled.size() >= size) fill_in(filled.size() - size);
  if (filled.size() >= in_match + size) fill_in(in_match);
  return filled;
}

Server& server() {
  static auto& one = *new Server;
  return one;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Server& s = server();
  s.put_objects();
  FakePeer peer = s.open_session();
  s.port.sends = s.port.replies = s.port.lease = 0;
  size_t said = 1;
  s.port.receive(1, peer.seal(wire::Type::hello, 1, wire::Hello{.message_size_max = message_size_max, .address = {}}));
  Bytes rest = std::as_bytes(std::span(data, size));
  while (rest.size() >= 4 && said < 200) {
    const auto type = static_cast<wire::Type>(rest[0]);
    const auto flags = std::to_integer<uint8_t>(rest[1]);
    const size_t length = std::min({std::to_integer<size_t>(rest[2]) + (std::to_integer<size_t>(rest[3]) << 8),
                                    rest.size() - 4, message_size_max - wire::frame_size});
    s.port.receive(1, peer.seal(type, ++said, with_lease(rest.subspan(4, length), s.port.lease), flags));
    rest = rest.subspan(4 + length);
    if (said % 3 == 0) s.turn();
  }
  s.finish();
  if (s.port.replies > said) std::abort();
  s.port.receive(1, peer.seal(wire::Type::bye, ++said, Bytes()));
  return 0;
}

namespace {

// An input's steps, taken apart and put together again.
struct Step {
  uint8_t type = 0, flags = 0;
  std::string body;
};

std::vector<Step> read_steps(Bytes rest) {
  std::vector<Step> steps;
  while (rest.size() >= 4) {
    const size_t length =
        std::min(std::to_integer<size_t>(rest[2]) + (std::to_integer<size_t>(rest[3]) << 8), rest.size() - 4);
    steps.push_back({std::to_integer<uint8_t>(rest[0]), std::to_integer<uint8_t>(rest[1]),
                     std::string(as_text(rest.subspan(4, length)))});
    rest = rest.subspan(4 + length);
  }
  return steps;
}

std::string write_steps(const std::vector<Step>& steps) {
  std::string out;
  for (const Step& step : steps) {
    const size_t size = std::min<size_t>(step.body.size(), 0xffff);
    out += static_cast<char>(step.type);
    out += static_cast<char>(step.flags);
    out += static_cast<char>(size & 0xff);
    out += static_cast<char>(size >> 8);
    out.append(step.body, 0, size);
  }
  return out;
}

void change_step(Step& step, fuzz::MessageMutator& mutator) {
  if (mutator.chance.percent(10)) mutator.change(step.flags);
  if (mutator.chance.percent(5)) {
    step.type = static_cast<uint8_t>(mutator.chance.one(std::span<const wire::Type>(fuzz::request_types)));
  }
  const bool has_window = (step.flags & wire::flag_window) != 0;
  auto made = mutator.mutate(static_cast<wire::Type>(step.type), as_bytes(step.body), has_window);
  step.body = made ? std::move(*made) : fuzz::mutated_bytes(step.body, step.body.size() + 16);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max, unsigned seed) {
  fuzz::MessageMutator mutator(seed);
  auto steps = read_steps(std::as_bytes(std::span(data, size)));
  if (steps.empty() || mutator.chance.percent(20)) return LLVMFuzzerMutate(data, size, size_max);
  for (size_t i = 1 + mutator.chance.below(3); i > 0 && !steps.empty(); --i) {
    const size_t at = mutator.chance.below(steps.size());
    if (mutator.chance.percent(70) || !fuzz::change_list(steps, at, mutator.chance)) change_step(steps[at], mutator);
  }
  return fuzz::put_back(write_steps(steps), data, size_max);
}

// Steps of one input among those of another: sessions that do several things at once.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size,
                                            uint8_t* out, size_t out_max, unsigned seed) {
  fuzz::Chance chance(seed);
  auto steps = read_steps(std::as_bytes(std::span(a, a_size)));
  const auto others = read_steps(std::as_bytes(std::span(b, b_size)));
  for (const Step& step : others) {
    if (chance.percent(50)) {
      steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(chance.below(steps.size() + 1)), step);
    }
  }
  return fuzz::put_back(write_steps(steps), out, out_max);
}
