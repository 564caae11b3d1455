// The send queue over pairs of sockets: what leaves together, and that every byte is in its frame.
#include "fabric/tcp/outbox.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>

#include "fabric/tcp/frame_reader.h"

namespace verbena::fabric::tcp {
namespace {

struct Sockets {
  explicit Sockets(int type) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    stream.emplace(Fd(ends[0]));
    peer = Fd(ends[1]);
  }
  // What one read finds; empty: nothing.
  Bytes received(size_t size) {
    bytes.resize(size);
    const ssize_t got = ::recv(peer.get(), bytes.data(), size, 0);
    return Bytes(bytes).first(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  }
  std::optional<Stream> stream;
  Fd peer;
  std::vector<std::byte> bytes;
};

// Payloads by their operations, as they arrive.
struct Arriving final : FrameReceiver {
  explicit Arriving(std::map<uint64_t, std::vector<std::byte>> empty) : places(std::move(empty)) {}
  void take(Bytes bytes) {
    while (!bytes.empty()) {
      size_t taken = 0;
      for (const iovec& place : reader.targets(scratch)) {
        const size_t size = std::min(bytes.size(), place.iov_len);
        std::memcpy(place.iov_base, bytes.data(), size);
        bytes = bytes.subspan(size);
        taken += size;
      }
      RC_ASSERT(reader.received(taken, scratch, *this).has_value());
    }
  }
  Result<void> message(Bytes) override {
    order.push_back(FrameType::message);
    return {};
  }
  Result<std::byte*> landing(const Frame& frame) override { return places.at(frame.id).data() + frame.offset; }
  Result<void> landed(const Frame& frame) override {
    order.push_back(frame.type);
    return {};
  }
  Result<void> control(const Frame&) override { return {}; }
  std::map<uint64_t, std::vector<std::byte>> places;
  std::vector<FrameType> order;  // of frames that are whole
  FrameReader reader{Side::server, 1024};
  std::vector<std::byte> scratch = std::vector<std::byte>(FrameReader::scratch_size(1024));
};

std::vector<std::byte> some_bytes(size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + i / 257 + seed) & 255);
  return bytes;
}

Outgoing answer(uint64_t operation, Bytes bytes) {
  return {.type = FrameType::data, .id = operation, .offset = 0, .bytes = bytes.data(), .left = bytes.size()};
}

// Here a packet is a call.
TEST(Outbox, PayloadsThatWaitLeaveByOneCall) {
  Sockets pair(SOCK_SEQPACKET);
  Outbox outbox(1 * MiB);
  const auto bytes = some_bytes(3000, 7);
  std::array<Outgoing, 5> out;
  for (size_t i = 0; i < out.size(); ++i) outbox.add(out[i] = answer(i, bytes));
  std::vector<Outgoing*> done;
  ASSERT_TRUE(outbox.flush(*pair.stream, done));
  EXPECT_EQ(done, (std::vector<Outgoing*>{&out[0], &out[1], &out[2], &out[3], &out[4]}));
  EXPECT_EQ(pair.received(64 * KiB).size(), out.size() * (head_size(static_cast<uint8_t>(FrameType::data)) + 3000));
  EXPECT_TRUE(pair.received(1).empty());
}

// Each call takes a part of what it was given, and so ends within a frame.
TEST(Outbox, AMessageWaitsForOnePayloadInProgressAtMost) {
  constexpr size_t count = 20, size = 64 * KiB;
  Sockets pair(SOCK_STREAM);
  Outbox outbox(1 * MiB);
  const auto bytes = some_bytes(size, 7);
  std::map<uint64_t, std::vector<std::byte>> empty;
  std::array<Outgoing, count> out;
  for (size_t i = 0; i < count; ++i) {
    empty[i].resize(size);
    outbox.add(out[i] = answer(i, bytes));
  }
  std::vector<Outgoing*> done;
  ASSERT_TRUE(outbox.flush(*pair.stream, done));
  const size_t sent = done.size();
  ASSERT_LT(sent + 2, count) << "the socket takes too much at once";
  const std::string said = "a message";
  const Bytes message = as_bytes(said);
  const Frame frame{.type = FrameType::message, .payload = static_cast<uint32_t>(message.size())};
  ASSERT_TRUE(outbox.send(*pair.stream, frame, std::span(&message, 1)));
  Arriving arriving(std::move(empty));
  for (Bytes got = pair.received(10'000); !got.empty(); got = pair.received(10'000)) {
    arriving.take(got);
    ASSERT_TRUE(outbox.flush(*pair.stream, done));
  }
  ASSERT_EQ(arriving.order.size(), count + 1);
  const auto at = std::ranges::find(arriving.order, FrameType::message) - arriving.order.begin();
  EXPECT_LE(at, static_cast<ptrdiff_t>(sent) + 1);
  for (const auto& [operation, place] : arriving.places) EXPECT_TRUE(place == bytes) << operation;
}

// The socket takes some bytes at a time, cutting frames and heads anywhere; small frames come in between.
RC_GTEST_PROP(OutboxProperty, EveryByteIsInItsFrameHoweverLittleTheSocketTakes, ()) {
  const auto some = rc::gen::oneOf(rc::gen::inRange<size_t>(1, 300), rc::gen::inRange<size_t>(1, 90'000),
                                   rc::gen::just<size_t>(payload_size_max + 1));
  const auto sizes = *rc::gen::container<std::vector<size_t>>(*rc::gen::inRange(1, 12), some);
  const auto reads = *rc::gen::container<std::vector<size_t>>(3, rc::gen::inRange<size_t>(1000, 60'000));
  Sockets pair(SOCK_STREAM);
  Outbox outbox(1 * MiB);
  std::map<uint64_t, std::vector<std::byte>> sent, empty;
  for (size_t i = 0; i < sizes.size(); ++i) {
    sent[i] = some_bytes(sizes[i], static_cast<unsigned>(i));
    empty[i].resize(sizes[i]);
  }
  Arriving arriving(std::move(empty));
  std::deque<Outgoing> out;
  std::vector<Outgoing*> done;
  const std::string said = "a message";
  const Bytes message = as_bytes(said);
  for (size_t turn = 0; turn < sizes.size() || !outbox.empty(); ++turn) {
    if (turn < sizes.size()) outbox.add(out.emplace_back(answer(turn, sent[turn])));
    if (turn % 3 == 1 && turn < 2 * sizes.size()) {
      const Frame frame{.type = FrameType::message, .payload = static_cast<uint32_t>(message.size())};
      RC_ASSERT(outbox.send(*pair.stream, frame, std::span(&message, 1)).has_value());
    }
    RC_ASSERT(outbox.flush(*pair.stream, done).has_value());
    arriving.take(pair.received(reads[turn % reads.size()]));
  }
  for (Bytes rest = pair.received(256 * KiB); !rest.empty(); rest = pair.received(256 * KiB)) arriving.take(rest);
  RC_ASSERT(arriving.places == sent);
  RC_ASSERT(done.size() == sizes.size());
}

}  // namespace
}  // namespace verbena::fabric::tcp
