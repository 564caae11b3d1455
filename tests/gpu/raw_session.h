// A client's messages with contents of a test's own making, in a session by shared memory.
#pragma once

#include "client/native/streams.h"
#include "direct_world.h"
#include "fabric/device.h"
#include "native/wire/device.h"

namespace verbena::matrix {

class RawSession {
 public:
  explicit RawSession(client::NativeSession& session) : session_(session) {}

  struct Answer {
    Errc code = Errc::ok;
    std::vector<std::byte> body = {};
  };
  // Sends a message; `write` writes its body, and may lend memory to the call.
  using Write = std::function<Result<void>(client::NativeStream::Body& body, client::NativeCall& call)>;
  Answer send(native::wire::Type type, const Write& write) {
    Answer answer;
    const auto done = session_.with_streams(false, [&](client::NativeStreams& streams) {
      Call call;
      call.type = type;
      call.deadline = deadline_in(std::chrono::seconds(60));
      auto ended = streams.any().run(call, [&](client::NativeStream::Body& body) { return write(body, call); });
      answer.body = std::move(call.body);
      return ended;
    });
    if (!done) answer.code = done.error().code;
    return answer;
  }
  // The number of these descriptors there.
  Result<uint32_t> hand_over(std::span<const int> descriptors) {
    Result<uint32_t> number = fail(Errc::closed, "no stream");
    send(native::wire::Type::ping, [&](client::NativeStream::Body& body, client::NativeCall&) -> Result<void> {
      number = dynamic_cast<fabric::DeviceLink&>(body.link).hand_over(descriptors);
      return fail(Errc::unsupported, "nothing is sent");
    });
    return number;
  }
  Answer send_bytes(native::wire::Type type, Bytes bytes) {
    return send(type, [&](client::NativeStream::Body& body, client::NativeCall&) -> Result<void> {
      body.out.bytes(bytes);
      return {};
    });
  }
  Answer share(const native::wire::Device& device) {
    return send(native::wire::Type::device, [&](client::NativeStream::Body& body, client::NativeCall&) -> Result<void> {
      encode(body.out, device);
      return {};
    });
  }

 private:
  struct Call : client::NativeCall {
    Result<void> answered(Bytes whole) override {
      body.assign(whole.begin(), whole.end());
      return {};
    }
    std::vector<std::byte> body;
  };
  client::NativeSession& session_;
};

}  // namespace verbena::matrix
