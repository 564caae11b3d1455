#include "client/native/session_door.h"

#include "base/checksum.h"
#include "client/http/object_headers.h"
#include "client/native/values.h"

namespace verbena::client {
namespace {

constexpr std::chrono::seconds rest{10};
constexpr size_t ranges_max = 64;
// Large transfers may take longer than the session's timeout; below this rate a transfer has stalled.
constexpr uint64_t bytes_per_second_min = 32 * MiB;

std::chrono::milliseconds time_for(std::chrono::milliseconds base, uint64_t bytes) {
  return base + std::chrono::seconds(bytes / bytes_per_second_min);
}

NativeRange native_range(const Range& range) {
  NativeRange out;
  out.first = range.offset;
  if (range.length > 0) out.last = range.offset + range.length - 1;
  return out;
}

std::chrono::system_clock::time_point time_point(int64_t us) {
  return std::chrono::system_clock::time_point(std::chrono::microseconds(us));
}

const NativeChecksum* full_checksum(const NativeObject& object) {
  const NativeChecksum* found = nullptr;
  for (const NativeChecksum& c : object.checksums) {
    if (c.parts == 0 && (found == nullptr || c.algorithm == Algorithm::crc32c)) found = &c;
  }
  return found;
}

// `all`: includes the fields that are slow to format.
ObjectInfo info_of(NativeObject& object, const std::string& key, bool all) {
  ObjectInfo info;
  info.key = key;
  info.size = object.object_size;
  info.etag = std::move(object.etag);
  info.last_modified = time_point(object.modified_us);
  info.version_id = std::move(object.version_id);
  if (const NativeChecksum* c = all ? full_checksum(object) : nullptr; c != nullptr) {
    info.checksum = std::string(to_string(c->algorithm)) + ":" + to_base64(verbena::as_bytes(c->value));
  }
  for (const auto& [name, value] : object.headers) {
    if (name == "content-type") info.content_type = value;
    if (name.starts_with("x-amz-meta-")) {
      info.metadata.emplace(name.substr(11), value);
    } else if (name != "content-type") {
      info.headers.emplace(name, value);
    }
  }
  return info;
}

// What S3 over HTTP would say; `code`: the client's, which is that of several.
std::string_view s3_code_of(Errc error, ErrorCode code) {
  switch (error) {
    case Errc::invalid_write_offset:
      return "InvalidWriteOffset";
    case Errc::service_unavailable:
      return "ServiceUnavailable";
    case Errc::quota_exceeded:
      return "QuotaExceeded";
    case Errc::too_many_parts:
      return "TooManyParts";
    case Errc::signature_does_not_match:
      return "SignatureDoesNotMatch";
    case Errc::request_time_too_skewed:
      return "RequestTimeTooSkewed";
    case Errc::expired_token:
      return "ExpiredToken";
    case Errc::invalid_token:
      return "InvalidToken";
    default:
      return s3_code_for(code);
  }
}

ClientError native_error(const Error& error, size_t room) {
  ClientError out = from_error(error, "native");
  out.s3_code = s3_code_of(error.code, out.code);
  switch (error.code) {
    case Errc::too_large:
      out.message = "the object does not fit the buffer of " + std::to_string(room) + " bytes";
      break;
    case Errc::no_such_key:
      out.message = "no such key";
      break;
    case Errc::no_such_bucket:
      out.message = "no such bucket";
      break;
    case Errc::access_denied:
      out.message = "access denied";
      break;
    default:
      break;
  }
  return out;
}

// A request whose views are valid as long as this object.
struct GetCall {
  NativeGet request;
  std::vector<NativeRange> ranges;
  std::vector<std::string> if_match, if_none_match;
  bool whole = false;

  GetCall(const std::string& bucket, const std::string& key, MutableBytes into, const NativeMemory* memory,
          const GetOptions& options, std::span<const Range> several, std::chrono::milliseconds timeout) {
    for (const Range& range : several) ranges.push_back(native_range(range));
    if (several.empty() && options.range) ranges.push_back(native_range(*options.range));
    if (!options.if_match.empty()) if_match.push_back(options.if_match);
    if (!options.if_none_match.empty()) if_none_match.push_back(options.if_none_match);
    whole = ranges.empty();
    request.bucket = bucket;
    request.key = key;
    request.into = into;
    request.memory = memory;
    request.ranges = ranges;
    request.if_match = if_match;
    request.if_none_match = if_none_match;
    request.full_headers = options.metadata;
    request.timeout = time_for(timeout, into.size());
    request.stop = options.cancel;
  }
  GetCall(const GetCall&) = delete;
};

struct PutCall {
  NativePut request;
  net::HttpHeaders headers;
  std::vector<NativeChecksum> expected;

  // On the same host bytes do not cross a network; elsewhere the server verifies the bytes it read.
  PutCall(const std::string& bucket, const std::string& key, Bytes from, const NativeMemory* memory,
          const PutOptions& options, bool checked, std::chrono::milliseconds timeout) {
    if (const auto given = parse_checksum(options.checksum); given) {
      const auto raw = from_base64(given->base64);
      expected.push_back({given->algorithm, std::string(as_text(*raw)), 0});
    } else if (checked) {
      const uint32_t crc = crc32c(from);
      std::string raw;
      for (int shift = 24; shift >= 0; shift -= 8) raw.push_back(static_cast<char>(crc >> shift));
      expected.push_back({Algorithm::crc32c, std::move(raw), 0});
    }
    request.bucket = bucket;
    request.key = key;
    request.from = from;
    request.memory = memory;
    request.if_match = options.if_match;
    request.if_none_match = options.if_none_match;
    request.md5_etag = options.md5_etag;
    request.said_headers = options.describe;
    request.append_at = options.append_at;
    request.timeout = time_for(timeout, from.size());
    request.stop = options.cancel;
  }
  PutCall(const PutCall&) = delete;
  void seal(net::HttpHeaders made) {
    const auto has_field = [](const auto& header) {
      return header.first.starts_with("if-") || header.first == "x-amz-write-offset-bytes";
    };
    std::erase_if(made, has_field);
    headers = std::move(made);
    request.headers = headers;
    request.expected = expected;
  }
};

Outcome<GetReply> finish_get(Result<NativeObject> object, const std::string& key, MutableBytes into, bool verify,
                             bool all, std::string provider) {
  if (!object) return std::unexpected(native_error(object.error(), into.size()));
  GetReply out;
  out.info = info_of(*object, key, all);
  out.bytes = object->length;
  if (out.bytes > into.size()) return fault(ErrorCode::malformed_reply, "native: more bytes than the buffer holds");
  if (const NativeChecksum* c = full_checksum(*object); verify && c != nullptr && !object->partial) {
    Digest digest(c->algorithm);
    digest.update(Bytes(into).first(out.bytes));
    if (digest.finish() != c->value) {
      return fault(ErrorCode::checksum_mismatch, "the bytes that arrived do not match the object's checksum");
    }
  }
  out.transfer.door = Via::native;
  out.transfer.provider = std::move(provider);
  out.transfer.bytes = out.bytes;
  return out;
}

// As HTTP reports them.
void describe(NativeObject& object, std::map<std::string, std::string>& headers) {
  for (auto& [name, value] : object.headers) headers.emplace(std::move(name), std::move(value));
  for (const NativeChecksum& sum : object.checksums) {
    headers.emplace(checksum_header(sum.algorithm), to_base64(verbena::as_bytes(sum.value)));
    headers.emplace("x-amz-checksum-type", sum.parts == 0 ? "FULL_OBJECT" : "COMPOSITE");
  }
}

Outcome<PutReply> finish_put(Result<NativeObject> object, uint64_t bytes, std::string provider, bool described) {
  if (!object) return std::unexpected(native_error(object.error(), bytes));
  PutReply out;
  out.etag = object->etag;
  out.version_id = object->version_id;
  out.object_size = object->object_size;
  if (described) describe(*object, out.headers);
  out.transfer.door = Via::native;
  out.transfer.provider = std::move(provider);
  out.transfer.bytes = bytes;
  return out;
}

}  // namespace

SessionDoor::SessionDoor(NativeOptions options, bool verify_checksums)
    : options_(std::move(options)), verify_checksums_(verify_checksums) {}

Outcome<std::shared_ptr<NativeSession>> SessionDoor::session(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto rests = [this] { return SteadyClock::now() < closed_until_; };
  if (!opened_.wait(lock, stop, [&] { return !opening_ || session_ != nullptr || rests(); })) {
    return fault(ErrorCode::cancelled, "cancelled by the caller");
  }
  if (rests()) return fault(ErrorCode::connection_failed, closed_reason_);
  if (session_) return session_;
  std::shared_ptr<NativeSession> session = std::move(unopened_);
  if (session == nullptr) session = NativeSession::unopened(options_);
  opening_ = true;
  lock.unlock();
  const auto opened = session->ready(stop);
  lock.lock();
  opening_ = false;
  opened_.notify_all();
  if (opened) {
    session_ = session;
    return session;
  }
  if (opened.error() == Errc::cancelled) {
    unopened_ = std::move(session);
    return fault(ErrorCode::cancelled, "cancelled by the caller");
  }
  ClientError error = from_error(opened.error(), "native");
  error.s3_code = s3_code_of(opened.error().code, error.code);
  rest_for(error.message);
  lock.unlock();  // before a session ends
  return std::unexpected(std::move(error));
}

void SessionDoor::rest_for(const std::string& why) {
  closed_until_ = deadline_in(rest);
  closed_reason_ = why;
}

void SessionDoor::suspend(const ClientError& why) {
  std::lock_guard lock(mutex_);
  rest_for(why.message);
}

void SessionDoor::close() {
  std::shared_ptr<NativeSession> last, unopened;  // destroyed after the lock is released
  std::unique_lock lock(mutex_);
  opened_.wait(lock, [this] { return !opening_; });
  closed_until_ = Deadline::max();
  closed_reason_ = "native: closed";
  last.swap(session_);
  unopened.swap(unopened_);
}

bool SessionDoor::open() const {
  std::lock_guard lock(mutex_);
  return session_ != nullptr && SteadyClock::now() >= closed_until_;
}

std::string SessionDoor::provider() const {
  std::lock_guard lock(mutex_);
  return session_ ? session_->provider() : std::string();
}

Outcome<GetReply> SessionDoor::get(const std::string& bucket, const std::string& key, MutableBytes into,
                                   const NativeMemory* memory, const GetOptions& options,
                                   std::span<const Range> ranges) {
  if (ranges.size() > ranges_max) return fault(ErrorCode::unsupported, "native: more than 64 ranges");
  OUT_ASSIGN(auto session, this->session(options.cancel));
  const GetCall call(bucket, key, into, memory, options, ranges, options_.request_timeout);
  auto reply = session->get(call.request);
  std::string provider = session->provider();  // as of now: the call may have reopened the channels
  const bool on_device = memory != nullptr && memory->on_device();  // where no CPU reads
  const bool verify = verify_checksums_ && call.whole && provider != "local" && !on_device;
  return finish_get(std::move(reply), key, into, verify, options.metadata || options.verify_device,
                    std::move(provider));
}

Outcome<PutReply> SessionDoor::put(const std::string& bucket, const std::string& key, Bytes from,
                                   const NativeMemory* memory, const PutOptions& options) {
  OUT_ASSIGN(auto session, this->session(options.cancel));
  OUT_ASSIGN(auto headers, put_headers(options));
  const bool on_device = memory != nullptr && memory->on_device();  // where no CPU reads
  const bool checked = session->provider() != "local" && !on_device;
  PutCall call(bucket, key, from, memory, options, checked, options_.request_timeout);
  call.seal(std::move(headers));
  auto reply = session->put(call.request);
  return finish_put(std::move(reply), from.size(), session->provider(), options.describe);
}

Outcome<ObjectInfo> SessionDoor::head(const std::string& bucket, const std::string& key, const HeadOptions& options) {
  OUT_ASSIGN(auto session, this->session(options.cancel));
  NativeGet request;
  request.bucket = bucket;
  request.key = key;
  request.full_headers = true;
  request.stop = options.cancel;
  auto object = session->head(request);
  if (!object) return std::unexpected(native_error(object.error(), 0));
  return info_of(*object, key, true);
}

Outcome<> SessionDoor::remove(const std::string& bucket, const std::string& key, const RemoveOptions& options) {
  OUT_ASSIGN(auto session, this->session(options.cancel));
  auto removed = session->remove(bucket, key, options.if_match, options.cancel);
  if (!removed) return std::unexpected(native_error(removed.error(), 0));
  return {};
}

Outcome<> SessionDoor::rename(const std::string& bucket, const std::string& from, const std::string& to,
                              const RenameOptions& options) {
  OUT_ASSIGN(auto session, this->session(options.cancel));
  const native::wire::Rename message{.bucket = bucket,
                                     .from = from,
                                     .to = to,
                                     .source_if_match = options.source_if_match,
                                     .if_match = options.if_match,
                                     .if_none_match = options.if_none_match,
                                     .token = options.token};
  auto renamed = session->rename(message, options.cancel);
  if (!renamed) return std::unexpected(native_error(renamed.error(), 0));
  return {};
}

Outcome<NativePage> SessionDoor::list(const std::string& bucket, const ListOptions& options) {
  OUT_ASSIGN(auto session, this->session(options.cancel));
  NativeList request;
  request.bucket = bucket;
  request.prefix = options.prefix;
  request.delimiter = options.delimiter;
  request.after = options.continuation.empty() ? options.after : options.continuation;
  request.max_keys = static_cast<int>(options.max_keys);
  request.stop = options.cancel;
  auto listed = session->list(request);
  if (!listed) return std::unexpected(native_error(listed.error(), 0));
  if (listed->truncated() && listed->next_after().empty()) {
    return fault(ErrorCode::malformed_reply, "native: a truncated list without a way on");
  }
  return std::move(*listed);
}

Outcome<> SessionDoor::many(ManyCall& call) {
  OUT_ASSIGN(auto session, this->session());
  uint64_t bytes = 0;
  for (const BatchItem& item : call.items) bytes += item.size;
  const bool near = session->provider() == "local";
  call.verify = verify_checksums_ && !near && call.devices.empty();
  call.checked = !near && call.devices.empty();
  call.timeout = time_for(options_.request_timeout, bytes);
  using native::wire::Type;
  const bool reads = call.type == Type::get_many || call.type == Type::head_many;
  const auto request = [&](NativeStreams& streams) { return run_many(streams, call); };
  auto done = session->with_streams(reads, request);
  if (!done) return std::unexpected(native_error(done.error(), bytes));
  return {};
}

Outcome<> SessionDoor::list_values(const std::string& bucket, const ValueOptions& options, MutableBytes into,
                                   ValuePage& page) {
  OUT_ASSIGN(auto session, this->session());
  const NativeValues request{.bucket = bucket,
                             .prefix = options.prefix,
                             .after = options.after,
                             .value_size_max = options.value_size_max,
                             .max_keys = options.max_keys,
                             .into = into,
                             .verify = verify_checksums_ && session->provider() != "local",
                             .timeout = time_for(options_.request_timeout, into.size())};
  NativeValuePage listed;
  const auto once = [&](NativeStreams& streams) -> Result<void> {
    VB_ASSIGN(listed, client::list_values(streams, request));
    return {};
  };
  if (auto done = session->with_streams(true, once); !done) {
    return std::unexpected(native_error(done.error(), into.size()));
  }
  page.truncated = listed.more;
  for (NativeValue& from : listed.values) {
    ListedValue& value = page.values.emplace_back();
    value.info.key = std::move(from.key);
    value.info.size = from.size;
    value.info.etag = std::move(from.etag);
    value.info.version_id = std::move(from.version_id);
    value.info.last_modified = time_point(from.modified_us);
    value.offset = from.offset;
    if (from.code != Errc::ok) value.error = from_error({.code = from.code, .sys = 0, .context = ""}, "").code;
    if (from.offset) page.transfer.bytes += from.size;
  }
  return {};
}

Outcome<> SessionDoor::match(const NativeMatch& keys, const MatchOptions& options, MatchReply& reply) {
  OUT_ASSIGN(auto session, this->session());
  NativeMatch request = keys;
  request.sizes = options.sizes;
  request.places = options.places;
  request.lease = options.lease;
  request.join = options.lease.count() == 0 ? 0 : options.join;
  request.timeout = options_.request_timeout;
  NativeMatched matched;
  const auto once = [&](NativeStreams& streams) -> Result<void> {
    VB_ASSIGN(matched, client::match(streams, request));
    return {};
  };
  if (auto done = session->with_streams(true, once); !done) return std::unexpected(native_error(done.error(), 0));
  reply.lease = matched.lease;
  for (NativeMatchedList& from : matched.lists) {
    MatchList& list = reply.lists.emplace_back();
    list.leading = from.leading;
    if (from.code != Errc::ok) list.ended = from_error({.code = from.code, .sys = 0, .context = ""}, "").code;
    for (const native::wire::MatchRun& run : from.runs) {
      list.runs.push_back({run.count, static_cast<KeyPlace>(run.place), run.size});
    }
  }
  return {};
}

void SessionDoor::end_lease(uint64_t lease) {
  if (auto session = this->session()) {
    (void)(*session)->with_streams(
        true, [&](NativeStreams& streams) { return client::end_lease(streams, lease, options_.request_timeout); });
  }
}

namespace {

// A cancelled watch cannot have changed anything.
ClientError watch_error(const Error& error) {
  if (error == Errc::cancelled) return {.code = ErrorCode::cancelled, .message = "cancelled by the caller"};
  if (error == Errc::closed) return {.code = ErrorCode::connection_failed, .message = "the native session was lost"};
  return native_error(error, 0);
}

}  // namespace

Outcome<std::unique_ptr<NativeWatch>> SessionDoor::watch(const std::string& bucket, const std::string& prefix,
                                                         const std::stop_token& stop) {
  OUT_ASSIGN(auto session, this->session(stop));
  auto watch = NativeWatch::open(std::move(session), bucket, prefix, stop);
  if (!watch) return std::unexpected(watch_error(watch.error()));
  return std::move(*watch);
}

Outcome<WatchNews> SessionDoor::next(NativeWatch& watch, Deadline until, const std::stop_token& stop) {
  auto news = watch.next(until, stop);
  if (!news) return std::unexpected(watch_error(news.error()));
  WatchNews out;
  out.gap = news->gap;
  for (NativeChange& from : news->changes) {
    out.changes.push_back({.what = static_cast<KeyEvent>(from.what),
                           .key = std::move(from.key),
                           .version_id = std::move(from.version_id),
                           .etag = std::move(from.etag),
                           .size = from.size,
                           .time = time_point(from.time_us),
                           .number = from.number});
  }
  return out;
}

void SessionDoor::get_async(const std::string& bucket, const std::string& key, MutableBytes into,
                            const NativeMemory* memory, const GetOptions& options, Callback<GetReply> done) {
  auto session = this->session(options.cancel);
  if (!session) return done(std::unexpected(std::move(session).error()));
  std::string provider = (*session)->provider();
  const GetCall call(bucket, key, into, memory, options, {}, options_.request_timeout);
  const bool verify = verify_checksums_ && provider != "local" && call.whole;
  (*session)->get_async(call.request, [key, into, verify, all = options.metadata, provider,
                                       done = std::move(done)](Result<NativeObject> got) {
    done(finish_get(std::move(got), key, into, verify, all, provider));
  });
}

void SessionDoor::put_async(const std::string& bucket, const std::string& key, Bytes from, const NativeMemory* memory,
                            const PutOptions& options, Callback<PutReply> done) {
  auto session = this->session(options.cancel);
  if (!session) return done(std::unexpected(std::move(session).error()));
  auto headers = put_headers(options);
  if (!headers) return done(std::unexpected(std::move(headers).error()));
  if (!options.checksum.empty()) {
    if (auto given = parse_checksum(options.checksum); !given) {
      return done(std::unexpected(std::move(given).error()));
    }
  }
  std::string provider = (*session)->provider();
  PutCall call(bucket, key, from, memory, options, provider != "local", options_.request_timeout);
  call.seal(std::move(*headers));
  (*session)->put_async(call.request,
                        [size = from.size(), provider, described = options.describe, done = std::move(done)](
                            Result<NativeObject> put) { done(finish_put(std::move(put), size, provider, described)); });
}

}  // namespace verbena::client
