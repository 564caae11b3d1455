// One native request in flight on a stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "client/native/session.h"
#include "fabric/fabric.h"
#include "native/wire/bodies.h"
#include "native/wire/message.h"

namespace verbena::client {

// A block of memory that a stream can lend at no cost, used when the caller's own cannot be lent.
using StagingBlock = std::shared_ptr<MutableBytes>;

// All members but `state` are guarded by the stream's mutex.
struct NativeCall {
  virtual ~NativeCall() = default;
  // Reads the body of an authenticated reply (an Errc of ok); malformed if it does not fit the request.
  virtual Result<void> answered(Bytes body) = 0;

  native::wire::Type type = native::wire::Type::ping;
  uint64_t request = 0;
  Deadline deadline;
  std::stop_token stop;
  uint64_t received_before = 0;  // the stream's count of messages when this was sent
  Result<void> outcome;
  bool done = false;
  bool leaving = false;  // being written and sent; only the sending thread may end it
  bool asynchronous = false;
  bool patient = false;  // a missing answer says nothing about the server
  StagingBlock staging;
  size_t staging_size = 0;
  // The windows are in the memory of a device, which the server knows by that number, or which RDMA devices reach.
  struct {
    const NativeDevice* memory = nullptr;
    const PeerWindow* peer = nullptr;
    uint64_t number = 0;
    explicit operator bool() const { return memory != nullptr || peer != nullptr; }
    bool unfinished = false;  // the device may still copy for the server: it did not finish in time
  } device;
  // Withdrawn when the call is done, before its completion. Of a device that is still at work: the call is done before,
  // and its thread, or its completion, waits for the device without the mutex.
  std::unique_ptr<fabric::Lent> lent;

  // Why a thread that sleeps for this call is woken.
  enum State : uint32_t { waiting, finished, lead };
  std::atomic<uint32_t> state{waiting};
  bool sleeping = false;
};

// For requests answered by a code alone.
struct CodeCall : NativeCall {
  Result<void> answered(Bytes body) override {
    if (body.size() != 2) return fail(Errc::malformed, "native: reply");
    return {};
  }
};

// GET, HEAD, PUT.
struct ObjectCall : NativeCall {
  Result<void> answered(Bytes body) override;
  // GET: destination of inline bytes, and the limit on delivered bytes.
  MutableBytes into;
  NativeObject object;
  bool bytes_staged = false;  // they are in `staging` and have to be copied to `into`
};

// An asynchronous request. Owned by its stream while in flight.
struct AsyncCall final : ObjectCall {
  // Runs before the completion: copies staged bytes to their destination.
  std::function<void(ObjectCall&)> settle;
  std::function<void(Result<NativeObject>)> complete;
};

struct ListCall : NativeCall {
  Result<void> answered(Bytes reply) override;
  std::vector<std::byte> body;
};

}  // namespace verbena::client
