#include "client/native/session.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "client/native/device_memory.h"
#include "client/native/dial.h"
#include "client/native/request.h"
#include "client/native/streams.h"
#include "client/retry.h"

namespace verbena::client {
namespace {

namespace wire = native::wire;

class LentMemory final : public NativeMemory {
 public:
  explicit LentMemory(StagingBlock block) : block_(std::move(block)) {}
  MutableBytes bytes() const override { return *block_; }

 private:
  StagingBlock block_;
};

// True if the session was lost and it is unknown whether the server executed the request.
bool lost(const Error& error) { return error == Errc::closed || error == Errc::connection_failed; }

}  // namespace

struct NativeSession::State {
  explicit State(NativeOptions given) : options(std::move(given)) {
    dial = options.dial ? options.dial : make_native_dial(options);
  }

  ~State() {
    closing.request_stop();
    if (opener.joinable()) opener.join();
  }

  // The current session, opened anew if the last one broke. Callers that wait during a failing attempt share its error:
  // else each would wait for the attempts of all before it. A caller with a stop leaves at once when it is requested
  // (`cancelled`); the attempt goes on, for those that come later.
  Result<std::shared_ptr<NativeStreams>> streams(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    const uint64_t failures_before = failures;
    VB_TRY(wait_for_opening(lock, failures_before, stop));
    if (closed) return fail(Errc::closed, "native: the session was closed");
    if (current == nullptr || current->stale()) {
      // Requests in flight on the old session may still use it. Dropped here, on a caller's thread: its own progress
      // thread could not join itself.
      if (current != nullptr) retired.push_back(std::move(current));
      std::erase_if(retired, [](const auto& old) { return old.use_count() == 1; });
      opening = true;
      if (!stop.stop_possible() || !open_beside()) {
        lock.unlock();
        open_anew();
        lock.lock();
      }
      VB_TRY(wait_for_opening(lock, failures_before, stop));
      if (current == nullptr) return fail(Errc::closed, "native: the session was closed");
    }
    current->touch();
    return current;
  }

  Result<void> wait_for_opening(std::unique_lock<std::mutex>& lock, uint64_t failures_before,
                                const std::stop_token& stop) {
    if (!opened.wait(lock, stop, [&] { return !opening || failures != failures_before; })) {
      return fail(Errc::cancelled, "native: cancelled while a session was opened");
    }
    if (failures != failures_before) return std::unexpected(failure);
    return {};
  }

  // Under the mutex. False: the process has no thread left.
  bool open_beside() {
    if (opener.joinable()) opener.join();  // it has opened, and only returns
    try {
      opener = std::thread([this] { open_anew(); });
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  // An exception would end the process on the thread `opener`, and elsewhere leave `opening` set for ever.
  Result<std::shared_ptr<NativeStreams>> open_streams() {
    try {
      return NativeStreams::open(options, dial, closing.get_token());
    } catch (const std::exception&) {
      return fail(Errc::out_of_memory, "native: no memory or thread for a session");
    }
  }

  void open_anew() {
    auto made = open_streams();
    std::lock_guard lock(mutex);
    opening = false;
    if (!made) {
      ++failures;
      failure = made.error();
    } else if (!closed) {
      current = std::move(*made);
    }
    opened.notify_all();
  }

  // Runs `request` on a session; once more on a new one if that was lost and the request may be repeated. For a change
  // the first attempt may have happened, whatever the outcome of the second.
  template <class T, class Request>
  Result<T> repeat(bool repeatable, const std::stop_token& stop, Request request, bool changes = false) {
    Result<T> first = once<T>(stop, request);
    if (first || !lost(first.error()) || !repeatable) return first;
    Result<T> second = once<T>(stop, request);
    if (changes && !second && nothing_was_done(second.error())) {
      return fail(Errc::closed, second.error().context, second.error().sys);
    }
    return second;
  }
  template <class T, class Request>
  Result<T> once(const std::stop_token& stop, const Request& request) {
    VB_ASSIGN(const auto streams, this->streams(stop));
    return request(*streams);
  }

  Deadline deadline(std::chrono::milliseconds timeout) const {
    return deadline_in(timeout.count() > 0 ? timeout : options.request_timeout);
  }

  const NativeOptions options;
  NativeDial dial;
  std::mutex mutex;
  std::shared_ptr<NativeStreams> current;
  std::vector<std::shared_ptr<NativeStreams>> retired;
  bool closed = false;
  bool opening = false;  // a session is being opened, without the mutex
  std::condition_variable_any opened;
  std::thread opener;        // for callers that may leave before it is open
  std::stop_source closing;  // ends an attempt whose session is not wanted any more
  uint64_t failures = 0;     // of attempts to open a session
  Error failure;             // of the last of them
};

namespace {

// Shares the memory with that core of the server, if it is a device's whose driver does so.
Result<void> find_device(const NativeMemory* memory, NativeStreams& streams, NativeStream& stream, NativeCall& call) {
  if (memory != nullptr) call.device.peer = memory->peer();
  if (memory == nullptr || memory->device() == nullptr) return {};
  VB_ASSIGN(call.device.number, memory->device()->number_on(streams, stream, call.deadline));
  call.device.memory = memory->device();
  return {};
}

}  // namespace

NativeSession::NativeSession(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<NativeSession>> NativeSession::open(NativeOptions options) {
  auto session = unopened(std::move(options));
  VB_TRY(session->ready({}));
  return session;
}

std::unique_ptr<NativeSession> NativeSession::unopened(NativeOptions options) {
  return std::unique_ptr<NativeSession>(new NativeSession(std::make_shared<State>(std::move(options))));
}

Result<void> NativeSession::ready(const std::stop_token& stop) {
  VB_TRY(state_->streams(stop));
  return {};
}

NativeSession::~NativeSession() {
  std::vector<std::shared_ptr<NativeStreams>> all;
  state_->closing.request_stop();
  {
    std::lock_guard lock(state_->mutex);
    state_->closed = true;
    all = std::move(state_->retired);
    if (state_->current != nullptr) all.push_back(std::move(state_->current));
  }
  for (auto& streams : all) streams->close();
}

Result<NativeObject> NativeSession::get(const NativeGet& request) {
  VB_TRY(check(request));
  const auto once = [&](NativeStreams& streams) -> Result<NativeObject> {
    NativeStream& stream = streams.stream_of(request.bucket, request.key);
    ObjectCall call;
    call.type = wire::Type::get;
    call.deadline = state_->deadline(request.timeout);
    call.stop = request.stop;
    VB_TRY(find_device(request.memory, streams, stream, call));
    const auto prepare = [&](NativeStream::Body& body) {
      return prepare_get(request, stream.endpoint().inline_max_bytes, call, body);
    };
    auto done = stream.run(call, prepare);
    if (call.device.unfinished) done = fail(Errc::timed_out, "native: the device did not finish the server's copies");
    call.outcome = done;
    settle(stream, call);
    if (!done) return std::unexpected(done.error());
    return std::move(call.object);
  };
  return state_->repeat<NativeObject>(true, request.stop, once);
}

Result<NativeObject> NativeSession::head(const NativeGet& request) {
  VB_TRY(check(request));
  const auto once = [&](NativeStreams& streams) -> Result<NativeObject> {
    ObjectCall call;
    call.type = wire::Type::head;
    call.deadline = state_->deadline(request.timeout);
    call.stop = request.stop;
    const auto prepare = [&](NativeStream::Body& body) { return prepare_head(request, body); };
    VB_TRY(streams.stream_of(request.bucket, request.key).run(call, prepare));
    return std::move(call.object);
  };
  return state_->repeat<NativeObject>(true, request.stop, once);
}

namespace {

Result<wire::Type> type_of(const NativePut& request, const NativeStreams& streams) {
  for (const NativeChecksum& sum : request.expected) {
    const bool known = streams.version() >= wire::version_of_new_checksums || sum.algorithm <= Algorithm::sha256;
    if (!known) return fail(Errc::unsupported, "native: the server knows no such checksum");
  }
  if (!request.append_at) return wire::Type::put;
  if (streams.version() < 3) return fail(Errc::unsupported, "native: the server appends nothing");
  return wire::Type::append;
}

}  // namespace

Result<NativeObject> NativeSession::put(const NativePut& request) {
  VB_TRY(check(request));
  const auto once = [&](NativeStreams& streams) -> Result<NativeObject> {
    NativeStream& stream = streams.stream_of(request.bucket, request.key);
    ObjectCall call;
    VB_ASSIGN(call.type, type_of(request, streams));
    call.deadline = state_->deadline(request.timeout);
    call.stop = request.stop;
    VB_TRY(find_device(request.memory, streams, stream, call));
    const auto prepare = [&](NativeStream::Body& body) {
      return prepare_put(request, stream.endpoint().inline_max_bytes, call, body);
    };
    auto done = stream.run(call, prepare);
    if (call.device.unfinished) done = fail(Errc::timed_out, "native: the device did not finish the server's copies");
    call.outcome = done;
    settle(stream, call);
    if (!done) return std::unexpected(done.error());
    return std::move(call.object);
  };
  // Without conditions, storing the same bytes twice equals storing them once.
  const bool repeatable = request.if_match.empty() && request.if_none_match.empty() && !request.append_at;
  return state_->repeat<NativeObject>(repeatable, request.stop, once, true);
}

Result<void> NativeSession::rename(const wire::Rename& request, const std::stop_token& stop) {
  if (request.bucket.size() > wire::bucket_size_max) return fail(Errc::invalid_bucket_name, "native: bucket");
  for (const std::string_view key : {request.from, request.to}) {
    if (key.empty()) return fail(Errc::invalid_request, "native: empty key");
    if (key.size() > wire::key_size_max) return fail(Errc::key_too_long, "native: key");
  }
  for (const std::string_view text :
       {request.source_if_match, request.if_match, request.if_none_match, request.token}) {
    if (text.size() > 255) return fail(Errc::invalid_argument, "native: an invalid ETag or token");
  }
  const auto once = [&](NativeStreams& streams) -> Result<void> {
    if (streams.version() < 3) return fail(Errc::unsupported, "native: the server renames nothing");
    CodeCall call;
    call.type = wire::Type::rename;
    call.deadline = state_->deadline({});
    call.stop = stop;
    const auto prepare = [&](NativeStream::Body& body) -> Result<void> {
      encode(body.out, request);
      return {};
    };
    return streams.stream_of(request.bucket, request.to).run(call, prepare);
  };
  return state_->repeat<void>(!request.token.empty(), stop, once, true);
}

Result<void> NativeSession::remove(std::string_view bucket, std::string_view key, std::string_view if_match,
                                   const std::stop_token& stop) {
  if (bucket.size() > wire::bucket_size_max) return fail(Errc::invalid_bucket_name, "native: bucket");
  if (key.empty()) return fail(Errc::invalid_request, "native: empty key");
  if (key.size() > wire::key_size_max) return fail(Errc::key_too_long, "native: key");
  const auto once = [&](NativeStreams& streams) -> Result<void> {
    CodeCall call;
    call.type = wire::Type::del;
    call.deadline = state_->deadline({});
    call.stop = stop;
    const auto prepare = [&](NativeStream::Body& body) -> Result<void> {
      const wire::Delete message{.bucket = bucket, .key = key, .if_match = if_match};
      encode(body.out, message);
      return {};
    };
    return streams.stream_of(bucket, key).run(call, prepare);
  };
  // A second delete could remove an object stored in between.
  return state_->repeat<void>(false, stop, once);
}

Result<NativePage> NativeSession::list(const NativeList& request) {
  NativePage all;
  size_t wanted = static_cast<size_t>(std::clamp<int>(request.max_keys, 0, wire::list_keys_max));
  for (;;) {
    const size_t before = all.items();
    const std::string_view after = before == 0 ? request.after : all.next_after();
    const auto once = [&](NativeStreams& streams) -> Result<void> {
      ListCall call;
      call.type = wire::Type::list;
      call.deadline = state_->deadline(request.timeout);
      call.stop = request.stop;
      const auto prepare = [&](NativeStream::Body& body) -> Result<void> {
        const wire::List message{.bucket = request.bucket,
                                 .prefix = request.prefix,
                                 .delimiter = request.delimiter,
                                 .after = after,
                                 .max_keys = static_cast<uint32_t>(wanted)};
        encode(body.out, message);
        return {};
      };
      VB_TRY(streams.any().run(call, prepare));
      if (!all.add(call.body, streams.version())) return fail(Errc::malformed, "native: list reply");
      return {};
    };
    VB_TRY(state_->repeat<void>(true, request.stop, once));
    const size_t got = all.items() - before;
    if (!all.truncated() || got >= wanted) return all;
    wanted -= got;
  }
}

Result<void> NativeSession::with_streams(bool repeatable, const std::function<Result<void>(NativeStreams&)>& request) {
  return state_->repeat<void>(repeatable, {}, request);
}

Result<void> NativeSession::ping() {
  const auto once = [&](NativeStreams& streams) -> Result<void> {
    CodeCall call;
    call.type = wire::Type::ping;
    call.deadline = state_->deadline({});
    const auto prepare = [](NativeStream::Body&) -> Result<void> { return {}; };
    return streams.any().run(call, prepare);
  };
  return state_->repeat<void>(true, {}, once);
}

namespace {

// The completion settles the staging first, and keeps the streams alive until then.
std::unique_ptr<AsyncCall> make_async(wire::Type type, Deadline deadline, std::shared_ptr<NativeStreams> streams,
                                      NativeStream& stream, NativeSession::Done done) {
  auto call = std::make_unique<AsyncCall>();
  call->type = type;
  call->deadline = deadline;
  call->settle = [streams = std::move(streams), &stream](ObjectCall& settled) { settle(stream, settled); };
  call->complete = std::move(done);
  return call;
}

}  // namespace

void NativeSession::get_async(const NativeGet& request, Done done) {
  if (auto checked = check(request); !checked) return done(std::unexpected(checked.error()));
  auto streams = state_->streams(request.stop);
  if (!streams) return done(std::unexpected(streams.error()));
  NativeStream& stream = (*streams)->stream_of(request.bucket, request.key);
  auto call = make_async(wire::Type::get, state_->deadline(request.timeout), *streams, stream, std::move(done));
  call->stop = request.stop;
  const auto prepare = [&, raw = call.get()](NativeStream::Body& body) {
    return prepare_get(request, stream.endpoint().inline_max_bytes, *raw, body);
  };
  stream.start(std::move(call), prepare);
}

void NativeSession::put_async(const NativePut& request, Done done) {
  if (auto checked = check(request); !checked) return done(std::unexpected(checked.error()));
  auto streams = state_->streams(request.stop);
  if (!streams) return done(std::unexpected(streams.error()));
  NativeStream& stream = (*streams)->stream_of(request.bucket, request.key);
  const auto type = type_of(request, **streams);
  if (!type) return done(std::unexpected(type.error()));
  auto call = make_async(*type, state_->deadline(request.timeout), *streams, stream, std::move(done));
  call->stop = request.stop;
  const auto prepare = [&, raw = call.get()](NativeStream::Body& body) {
    return prepare_put(request, stream.endpoint().inline_max_bytes, *raw, body);
  };
  stream.start(std::move(call), prepare);
}

Result<std::shared_ptr<NativeMemory>> NativeSession::allocate(size_t size) {
  VB_ASSIGN(const auto streams, state_->streams({}));
  VB_ASSIGN(auto block, streams->any().allocate(size));
  return std::make_shared<LentMemory>(std::move(block));
}

std::string NativeSession::provider() const {
  std::lock_guard lock(state_->mutex);
  return state_->current == nullptr ? std::string() : state_->current->provider();
}

std::chrono::milliseconds NativeSession::request_timeout() const { return state_->options.request_timeout; }

uint32_t NativeSession::credits() const {
  std::lock_guard lock(state_->mutex);
  return state_->current == nullptr ? 0 : state_->current->credits();
}

bool NativeSession::reaches_devices() const {
  std::lock_guard lock(state_->mutex);
  return state_->current != nullptr && state_->current->any().reaches_devices();
}

bool NativeSession::shares_devices(memory::cuda::Platform of) const {
  std::lock_guard lock(state_->mutex);
  return state_->current != nullptr && state_->current->shares_devices(of);
}

bool NativeSession::takes_handles(memory::cuda::Platform of) const {
  std::lock_guard lock(state_->mutex);
  return state_->current != nullptr && state_->current->takes_handles(of);
}

}  // namespace verbena::client
