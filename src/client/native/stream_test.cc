// A stream on a scripted link: it accepts no message, closes, or loses its connections.
#include "client/native/stream.h"

#include "client/native/values.h"
#include "client/peer_memory.h"
#include "client/trace_scope.h"
#include "fabric/device.h"
#include "native/wire/list_values.h"
#include "native/wire/watch.h"
#include "verbena/client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>

namespace verbena::client {
namespace {

using namespace std::chrono_literals;
namespace wire = native::wire;

// State shared by the test and the link; the stream owns the link.
struct Script {
  Result<void> send;
  std::atomic<bool> closed{false};
  bool revoking_closes = false;
  std::vector<std::vector<std::byte>> replies;  // handed over by poll(), one each
  bool floods = false;                          // poll() then brings an unrelated reply each time
  uint64_t flooded = 0;
  std::vector<std::vector<std::byte>> sent;
  std::function<std::vector<std::byte>(uint64_t request)> answer;  // to each message that is sent; empty: none
  std::function<Result<void>()> takes;                             // in place of `send`
  std::atomic<bool> at_work{false}, revoked{false};                // a device
};

// Memory of a device that is at work for as long as the script says, but not longer than a test may wait.
class ScriptedDevice final : public fabric::DeviceLent {
 public:
  explicit ScriptedDevice(Script& script) : script_(script) {}
  ~ScriptedDevice() override {
    while (is_at_work()) std::this_thread::yield();
  }
  const fabric::WindowDescriptor& descriptor() const override { return descriptor_; }
  MutableBytes bytes() const override { return {}; }
  void revoke() override { script_.revoked = true; }
  bool is_at_work() const override { return script_.at_work && SteadyClock::now() < until_; }

 private:
  Script& script_;
  const Deadline until_ = deadline_in(10s);
  fabric::WindowDescriptor descriptor_{};
};

class ScriptedLent final : public fabric::Lent {
 public:
  ScriptedLent(Script& script, MutableBytes bytes) : script_(script), bytes_(bytes) {}
  const fabric::WindowDescriptor& descriptor() const override { return descriptor_; }
  MutableBytes bytes() const override { return bytes_; }
  void revoke() override { script_.closed = script_.closed || script_.revoking_closes; }

 private:
  Script& script_;
  MutableBytes bytes_;
  fabric::WindowDescriptor descriptor_{};
};

constexpr uint64_t scripted_session = 7;

std::vector<std::byte> reply_of(wire::Type type, uint64_t request, uint64_t sequence, Bytes body) {
  std::vector<std::byte> reply(wire::frame_size + body.size());
  std::ranges::copy(body, reply.begin() + wire::header_size);
  const wire::Header header{.type = static_cast<uint8_t>(static_cast<uint8_t>(type) | wire::reply_bit),
                            .flags = 0,
                            .session = scripted_session,
                            .sequence = sequence,
                            .request = request,
                            .body_length = static_cast<uint32_t>(body.size()),
                            .timeout_ms = 0};
  wire::seal(native::wire::StreamKeys{}.to_client, header, reply);
  return reply;
}

std::vector<std::byte> reply_to(uint64_t request, uint64_t sequence, Errc code) {
  std::byte bytes[2];
  wire::Writer body(bytes);
  wire::encode_error(body, code);
  return reply_of(wire::Type::get, request, sequence, bytes);
}

class ScriptedLink final : public fabric::Link {
 public:
  explicit ScriptedLink(Script& script) : script_(script) {}
  std::string_view provider() const override { return "scripted"; }
  std::string address() const override { return "here"; }
  size_t message_size_max() const override { return 4096; }
  Result<void> send(Bytes message) override {
    if (script_.closed) return fail(Errc::closed, "scripted: closed");
    script_.sent.emplace_back(message.begin(), message.end());
    if (script_.answer) script_.replies.push_back(script_.answer(wire::Reader(message.subspan(24, 8)).u64()));
    return script_.takes ? script_.takes() : script_.send;
  }
  Result<size_t> poll(const OnMessage& handler) override {
    if (script_.closed) return fail(Errc::closed, "scripted: closed");
    if (script_.floods) script_.replies.push_back(reply_to(99, ++script_.flooded, Errc::ok));
    if (script_.replies.empty()) return 0;
    const auto reply = std::move(script_.replies.front());
    script_.replies.erase(script_.replies.begin());
    handler(reply);
    return 1;
  }
  void wait(Deadline) override { std::this_thread::yield(); }
  Result<std::unique_ptr<fabric::Lent>> lend(MutableBytes memory, fabric::Access) override {
    if (script_.closed) return fail(Errc::closed, "scripted: closed");
    return std::make_unique<ScriptedLent>(script_, memory);
  }
  Result<std::shared_ptr<MutableBytes>> allocate(size_t) override { return fail(Errc::unsupported, "scripted"); }

 private:
  Script& script_;
};

class NativeStreamTest : public testing::Test {
 protected:
  NativeStreamTest() {
    NativeStream::Setup setup;
    setup.endpoint.message_size_max = 4096;
    setup.session = scripted_session;
    setup.credits = 4;
    setup.trace_context = true;
    stream_ = std::make_unique<NativeStream>(std::make_unique<ScriptedLink>(script_), std::move(setup));
  }
  void TearDown() override { stream_->close(); }

  std::unique_ptr<AsyncCall> call_that_counts(std::chrono::milliseconds timeout = 10s) {
    auto call = std::make_unique<AsyncCall>();
    call->type = wire::Type::get;
    call->deadline = deadline_in(timeout);
    call->settle = [](ObjectCall&) {};
    call->complete = [this](Result<NativeObject> got) {
      ++completions_;
      if (!got) error_ = got.error().code;
    };
    return call;
  }
  static Result<void> nothing_to_say(NativeStream::Body&) { return {}; }

  Script script_;
  std::unique_ptr<NativeStream> stream_;
  std::atomic<int> completions_{0};
  Errc error_ = Errc::ok;
};

TEST_F(NativeStreamTest, AnAsynchronousCallWhoseSendFailsIsFinishedOnceAndFreedOnce) {
  script_.send = fail(Errc::io_error, "scripted: the link breaks");
  stream_->start(call_that_counts(), nothing_to_say);
  EXPECT_EQ(completions_, 1);
  EXPECT_EQ(error_, Errc::closed);
  EXPECT_TRUE(stream_->broken());
  stream_->start(call_that_counts(), nothing_to_say);  // has no slot
  EXPECT_EQ(completions_, 2);
}

TEST_F(NativeStreamTest, AnAsynchronousCallThatCannotBeWrittenIsFinishedOnceAndLeavesItsSlot) {
  const auto refuse = [](NativeStream::Body&) -> Result<void> { return fail(Errc::invalid_request, "no"); };
  for (int i = 1; i <= 10; ++i) {  // more than there are slots
    stream_->start(call_that_counts(), refuse);
    EXPECT_EQ(completions_, i);
  }
  EXPECT_EQ(error_, Errc::invalid_request);
  EXPECT_FALSE(stream_->broken());
}

TEST_F(NativeStreamTest, ALinkThatTakesNoMessageEndsTheCallWithItsDeadline) {
  script_.send = fail(Errc::would_block, "scripted: full");
  stream_->start(call_that_counts(20ms), nothing_to_say);
  EXPECT_EQ(completions_, 1);
  EXPECT_EQ(error_, Errc::timed_out);
}

// The server counts a change's time from its arrival: what it had waited for here came on top of it.
TEST_F(NativeStreamTest, AMessageThatHasWaitedForTheLinkCarriesTheTimeThatIsLeft) {
  const auto enough = deadline_in(20ms);
  script_.takes = [this, enough]() -> Result<void> {
    if (SteadyClock::now() < enough) return fail(Errc::would_block, "scripted: full");
    script_.replies.push_back(reply_to(wire::parse_header(script_.sent.back(), 4096)->request, 1, Errc::ok));
    return {};
  };
  CodeCall call;
  call.type = wire::Type::get;
  call.deadline = deadline_in(60s);
  ASSERT_TRUE(stream_->run(call, nothing_to_say));
  const auto first = wire::parse_header(script_.sent.front(), 4096),
             last = wire::parse_header(script_.sent.back(), 4096);
  ASSERT_TRUE(first && last);
  EXPECT_LT(last->timeout_ms, first->timeout_ms);
  EXPECT_EQ(last->sequence, first->sequence);
  EXPECT_TRUE(wire::mac_matches(native::wire::StreamKeys{}.to_server, script_.sent.back()));
}

// The calls queued behind it as well.
TEST_F(NativeStreamTest, ALinkThatTakesNoMessageKeepsNobodyFromHisOwnDeadlineOrWish) {
  script_.send = fail(Errc::would_block, "scripted: full");
  std::stop_source stop;
  std::jthread first([&] {
    CodeCall call;
    call.type = wire::Type::get;
    call.deadline = deadline_in(60s);
    call.stop = stop.get_token();
    EXPECT_EQ(stream_->run(call, nothing_to_say).error(), Errc::cancelled);
  });
  const auto begun = SteadyClock::now();
  CodeCall call;
  call.type = wire::Type::get;
  call.deadline = deadline_in(50ms);
  EXPECT_EQ(stream_->run(call, nothing_to_say).error(), Errc::timed_out);
  stop.request_stop();
  first.join();
  EXPECT_LT(SteadyClock::now() - begun, 30s);
}

TEST_F(NativeStreamTest, AServerThatNeverPausesKeepsNobodyBeyondHisDeadlineOrWish) {
  script_.floods = true;
  CodeCall late, cancelled;
  late.type = cancelled.type = wire::Type::get;
  late.deadline = deadline_in(50ms);
  EXPECT_EQ(stream_->run(late, nothing_to_say).error(), Errc::timed_out);
  std::stop_source stop;
  cancelled.deadline = deadline_in(60s);
  cancelled.stop = stop.get_token();
  stop.request_stop();
  EXPECT_EQ(stream_->run(cancelled, nothing_to_say).error(), Errc::cancelled);
}

// docs/native-protocol.md: internal codes are never sent; they describe states that only this end can know.
TEST_F(NativeStreamTest, ACodeThatNoServerSendsIsMalformed) {
  uint64_t sequence = 0;
  for (const Errc code : {Errc::connection_failed, Errc::cancelled, Errc::out_of_memory, Errc::too_large}) {
    CodeCall call;
    call.type = wire::Type::get;
    call.deadline = deadline_in(10s);
    const auto prepare = [&](NativeStream::Body&) -> Result<void> {
      script_.replies.push_back(reply_to(call.request, ++sequence, code));
      return {};
    };
    EXPECT_EQ(stream_->run(call, prepare).error(), code == Errc::too_large ? code : Errc::malformed);
  }
}

// Its checksums were verified of values that were in no page any more: of an empty vector.
TEST_F(NativeStreamTest, AListOfValuesThatIsMalformedBehindAValueWithAChecksumIsRefusedWhole) {
  constexpr uint8_t details = wire::detail_etag | wire::detail_size | wire::detail_version | wire::detail_checksum;
  const std::string digest(4, 'x');
  std::vector<std::byte> memory(64);
  script_.answer = [&](uint64_t request) {
    std::vector<std::byte> body(1024);
    wire::Writer out(body);
    wire::encode_list_values_head(out, false, details, 2);
    wire::ValueWriter writer(out, details);
    wire::ValueEntry value{.key = "a", .entry = {.length = 8, .object_size = 8, .etag = "e"}};
    value.entry.checksum = wire::ChecksumView{Algorithm::crc32c, 0, digest};
    EXPECT_TRUE(writer.add(value));
    value.key = "b";
    value.offset = memory.size();
    EXPECT_TRUE(writer.add(value));
    return reply_of(wire::Type::list_values, request, 1, Bytes(body).first(out.size()));
  };
  const NativeValues wanted{.bucket = "bucket",
                            .prefix = {},
                            .after = {},
                            .value_size_max = 8,
                            .into = memory,
                            .verify = true,
                            .timeout = 10s};
  EXPECT_EQ(list_values(*stream_, wanted).error(), Errc::malformed);
  script_.answer = nullptr;
}

// They were copied by the CPU, to an address of the device.
TEST_F(NativeStreamTest, BytesInAnAnswerForADevicesMemoryAreRefused) {
  std::vector<std::byte> memory(64, std::byte{0xee});
  const PeerWindow window(nullptr, memory, {});
  script_.answer = [](uint64_t request) {
    std::vector<std::byte> body(512);
    wire::Writer out(body);
    wire::ObjectReply reply;
    reply.length = reply.object_size = reply.inline_size = 8;
    EXPECT_TRUE(encode(out, reply));
    return reply_of(wire::Type::get, request, 1, Bytes(body).first(out.size() + 8));
  };
  ObjectCall call;
  call.type = wire::Type::get;
  call.deadline = deadline_in(10s);
  call.into = memory;
  call.device.peer = &window;
  EXPECT_EQ(stream_->run(call, nothing_to_say).error(), Errc::malformed);
  EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte b) { return b == std::byte{0xee}; }));
  script_.answer = nullptr;
}

// On tcp, withdrawing a window whose answer did not come closes the link.
TEST_F(NativeStreamTest, AStreamWhoseLinkWasClosedByATimeoutIsBrokenAlthoughOtherRepliesHadCome) {
  script_.revoking_closes = true;
  // An unrelated reply, which still shows that the server is alive.
  std::vector<std::byte> memory(64);
  script_.replies.push_back(reply_to(99, 1, Errc::ok));
  CodeCall call;
  call.type = wire::Type::get;
  call.deadline = deadline_in(50ms);
  const auto lend = [&](NativeStream::Body& body) -> Result<void> {
    VB_ASSIGN(call.lent, body.link.lend(memory, fabric::Access::server_writes));
    return {};
  };
  EXPECT_EQ(stream_->run(call, lend).error(), Errc::timed_out);
  ASSERT_TRUE(script_.replies.empty());
  ASSERT_TRUE(script_.closed);
  EXPECT_TRUE(stream_->broken()) << "no other stream replaces this one";
}

TEST_F(NativeStreamTest, AStreamThatCannotLendBecauseItsLinkIsClosedIsBroken) {
  std::vector<std::byte> memory(64);
  script_.closed = true;
  CodeCall call;
  call.type = wire::Type::get;
  call.deadline = deadline_in(10s);
  const auto lend = [&](NativeStream::Body& body) -> Result<void> {
    VB_ASSIGN(call.lent, body.link.lend(memory, fabric::Access::server_writes));
    return {};
  };
  EXPECT_EQ(stream_->run(call, lend).error(), Errc::closed);
  EXPECT_TRUE(stream_->broken());
}

// A call that gets no answer waits for its device, and no other call does.
TEST_F(NativeStreamTest, ADeviceAtWorkKeepsOnlyItsOwnCallWaiting) {
  script_.at_work = true;
  std::atomic<bool> ended{false};
  std::jthread waiting([&] {
    CodeCall call;
    call.type = wire::Type::get;
    call.deadline = deadline_in(20ms);
    call.patient = true;
    const auto lend = [&](NativeStream::Body&) -> Result<void> {
      call.lent = std::make_unique<ScriptedDevice>(script_);
      return {};
    };
    EXPECT_EQ(stream_->run(call, lend).error(), Errc::timed_out);
    ended = true;
  });
  const Deadline until = deadline_in(8s);
  while (!script_.revoked && SteadyClock::now() < until) std::this_thread::yield();
  CodeCall other;
  other.type = wire::Type::get;
  other.deadline = deadline_in(60s);
  const auto prepare = [&](NativeStream::Body&) -> Result<void> {
    script_.replies.push_back(reply_to(other.request, 1, Errc::ok));
    return {};
  };
  EXPECT_TRUE(stream_->run(other, prepare));
  EXPECT_FALSE(ended) << "the device may still write into its memory";
  script_.at_work = false;
  waiting.join();
  EXPECT_TRUE(ended);
}

TEST_F(NativeStreamTest, ADeviceAtWorkKeepsOnlyItsOwnCompletionWaiting) {
  script_.at_work = true;
  auto slow = call_that_counts(20ms);
  slow->patient = true;
  AsyncCall& lends = *slow;
  const auto lend = [&](NativeStream::Body&) -> Result<void> {
    lends.lent = std::make_unique<ScriptedDevice>(script_);
    return {};
  };
  stream_->start(std::move(slow), lend);
  const auto eventually = [](const auto& holds) {
    const Deadline until = deadline_in(8s);
    while (!holds() && SteadyClock::now() < until) std::this_thread::yield();
    return holds();
  };
  ASSERT_TRUE(eventually([&] { return script_.revoked.load(); }));
  auto answered = call_that_counts(60s);
  AsyncCall& other = *answered;
  const auto prepare = [&](NativeStream::Body&) -> Result<void> {
    script_.replies.push_back(reply_to(other.request, 1, Errc::no_such_key));
    return {};
  };
  stream_->start(std::move(answered), prepare);
  EXPECT_TRUE(eventually([&] { return completions_ == 1; }));
  EXPECT_EQ(error_, Errc::no_such_key);
  script_.at_work = false;
  EXPECT_TRUE(eventually([&] { return completions_ == 2; }));
  EXPECT_EQ(error_, Errc::timed_out);
}

// The server has begun the watch, and would keep it for as long as the session lives.
TEST_F(NativeStreamTest, AWatchWhoseAnswerCameTooLateIsEnded) {
  CodeCall watch;
  watch.type = wire::Type::watch;
  watch.deadline = deadline_in(1ms);
  watch.patient = true;
  EXPECT_EQ(stream_->run(watch, nothing_to_say).error(), Errc::timed_out);
  std::vector<std::byte> reply(wire::frame_size + 10);
  wire::Writer body(MutableBytes(reply).subspan(wire::header_size, 10));
  encode(body, wire::WatchStarted{.watch = 42});
  const wire::Header header{.type = static_cast<uint8_t>(wire::Type::watch) | wire::reply_bit,
                            .flags = 0,
                            .session = scripted_session,
                            .sequence = 1,
                            .request = watch.request,
                            .body_length = 10,
                            .timeout_ms = 0};
  wire::seal(native::wire::StreamKeys{}.to_client, header, reply);
  script_.replies.push_back(reply);
  CodeCall next;
  next.type = wire::Type::get;
  next.deadline = deadline_in(20ms);
  next.patient = true;
  EXPECT_EQ(stream_->run(next, nothing_to_say).error(), Errc::timed_out);
  const auto sent = wire::parse_header(script_.sent.back(), 4096);
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->type, static_cast<uint8_t>(wire::Type::watch_end));
  const auto end = wire::decode_watch_end(wire::body_of(script_.sent.back()));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->watch, 42u);
  EXPECT_FALSE(stream_->broken());
  stream_->end_watch(43);
  EXPECT_EQ(wire::decode_watch_end(wire::body_of(script_.sent.back()))->watch, 43u);
}

TEST_F(NativeStreamTest, WhatAThreadAsksForCarriesItsTrace) {
  const auto send = [this](wire::Type type, size_t size = 4) {
    CodeCall call;
    call.type = type;
    call.deadline = deadline_in(1ms);
    call.patient = true;
    const auto prepare = [size](NativeStream::Body& body) -> Result<void> {
      body.out.text(std::string(size, 'b'));
      return {};
    };
    EXPECT_EQ(stream_->run(call, prepare).error(), Errc::timed_out);
    const auto& message = script_.sent.back();
    const auto header = wire::parse_header(message, 4096);
    EXPECT_TRUE(header);
    return std::pair(int{header->flags}, to_hex(wire::body_of(message)));
  };
  using Sent = std::pair<int, std::string>;
  EXPECT_EQ(send(wire::Type::get), (Sent{0, "62626262"}));
  const TraceScope scope("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03");
  for (const auto type : {wire::Type::get, wire::Type::put, wire::Type::list, wire::Type::watch}) {
    EXPECT_EQ(send(type), (Sent{16,
                                "62626262"
                                "0af7651916cd43dd8448eb211c80319cb7ad6b716920333101"}));
  }
  // A server accepts none of these with a trace.
  for (const auto type : {wire::Type::hello, wire::Type::ping, wire::Type::get_many, wire::Type::delete_many}) {
    EXPECT_EQ(send(type), (Sent{0, "62626262"}));
  }
  EXPECT_EQ(send(wire::Type::get, 4096 - wire::frame_size - 24).first, 0) << "no room";
  EXPECT_EQ(send(wire::Type::get, 4096 - wire::frame_size - 25).first, 16);
  EXPECT_FALSE(stream_->broken()) << "no answer was due";
}

TEST(TraceScopeTest, TakesWhatTheRecommendationCallsATraceparentAndNothingElse) {
  const std::string good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  {
    const TraceScope outer(good);
    EXPECT_TRUE(outer.valid());
    {
      const TraceScope inner("00-0af7651916cd43dd8448eb211c80319c-00000000000000aa-00");
      EXPECT_EQ(thread_trace()->in_message.back(), std::byte{0});
      const TraceScope none("nonsense");
      EXPECT_FALSE(none.valid());
      EXPECT_NE(thread_trace()->traceparent, good);
    }
    EXPECT_EQ(thread_trace()->traceparent, good);
  }
  EXPECT_EQ(thread_trace(), nullptr);
  const std::string later = "01" + good.substr(2), zeros = std::string(32, '0');
  for (const std::string& bad :
       {std::string(), good.substr(1), good + "-more", "ff" + good.substr(2), "00-" + zeros + good.substr(35),
        good.substr(0, 36) + zeros.substr(16) + "-01", "0G" + good.substr(2),
        good.substr(0, 3) + "0AF7" + good.substr(7), later + "-\r\nx: y", later + "x"}) {
    EXPECT_FALSE(TraceScope(bad).valid()) << bad;
  }
  EXPECT_TRUE(TraceScope(later + "-more").valid());
}

}  // namespace
}  // namespace verbena::client
