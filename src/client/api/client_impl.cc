#include "client/api/client_impl.h"

#include <sys/mman.h>

#include "client/api/encryption.h"
#include "client/http/object_headers.h"
#include "client/trace_scope.h"

namespace verbena {

using client::fault;

namespace client {

// True when the door failed, not the request: another door may succeed.
bool speaks_against_door(const ClientError& error) {
  return error.code == ErrorCode::connection_failed || error.code == ErrorCode::outcome_unknown ||
         error.code == ErrorCode::timed_out;
}

bool get_may_fall_back(const ClientError& error) {
  return speaks_against_door(error) || error.code == ErrorCode::unsupported || error.code == ErrorCode::server_error ||
         error.code == ErrorCode::malformed_reply || error.code == ErrorCode::local_error;
}

uint64_t expected_size(uint64_t room, const GetOptions& options) {
  return options.range && options.range->length > 0 ? std::min(room, options.range->length) : room;
}

}  // namespace client

namespace {

using client::cancelled;
using client::get_may_fall_back;
using client::speaks_against_door;
using client::unless_cancelled;

constexpr std::chrono::seconds token_rest{10};
constexpr uint64_t part_size_min = 5 * MiB;

// A change that may have happened is repeated only when making it twice is as good as once. A PUT that failed does not
// land after its successor: the memory that it lent has been withdrawn by then, and the server makes no change whose
// time is over, or whose stream has ended (store::Wanted).
bool change_may_fall_back(const ClientError& error, bool repeatable) {
  if (error.code == ErrorCode::connection_failed || error.code == ErrorCode::unsupported ||
      error.code == ErrorCode::local_error) {
    return true;
  }
  return repeatable && (speaks_against_door(error) || error.code == ErrorCode::server_error);
}

std::unexpected<ClientError> no_versions() {
  return fault(ErrorCode::unsupported, "the native door has versions in batches alone (get_many)");
}

void add_reason(std::string& reasons, std::string_view door, const std::string& why) {
  if (!reasons.empty()) reasons += "; ";
  if (!why.starts_with(door)) reasons += std::string(door) + ": ";
  reasons += why;
}

// What the token door has of PUT.
bool token_checks(const PutOptions& options) {
  return options.checksum.empty() || options.checksum.starts_with("CRC32C:");
}
bool tells_offset(const PutOptions& options) { return options.append_at.value_or(0) != append_at_end; }

bool conditional(const PutOptions& options) {
  return !options.if_match.empty() || !options.if_none_match.empty() || options.append_at;
}

}  // namespace

Buffer::Memory::~Memory() {
  // The child of a fork cannot use the link that this memory was allocated from.
  if (native && forks != client::forks()) new std::shared_ptr<client::NativeMemory>(std::move(native));
  if (own != nullptr) ::munmap(own, own_bytes);
}

Outcome<std::shared_ptr<Client::Impl>> Client::Impl::create(ClientOptions options) {
  if (options.part_size < part_size_min || options.part_size > 5 * GiB) {
    return fault(ErrorCode::invalid_argument, "part_size must be 5 MiB to 5 GiB");
  }
  if (options.attempts_max == 0 || options.parts_in_flight == 0) {
    return fault(ErrorCode::invalid_argument, "attempts_max and parts_in_flight must be at least 1");
  }
  if (options.access_key.empty() != options.secret_key.empty()) {
    return fault(ErrorCode::invalid_argument, "access key and secret key belong together");
  }
  std::shared_ptr<Impl> impl(new Impl(std::move(options)));
  OUT_TRY(impl->open());
  return impl;
}

Outcome<> Client::Impl::open() {
  OUT_ASSIGN(const client::Endpoint s3, client::parse_endpoint(options_.endpoint));
  // The native port has no TLS, unless the endpoint starts with https://.
  client::Endpoint native{s3.host, 9100, false};
  if (options_.native_endpoint.find("://") != std::string::npos) {
    OUT_ASSIGN(native, client::parse_endpoint(options_.native_endpoint));
  } else if (!options_.native_endpoint.empty()) {
    OUT_ASSIGN(native, client::parse_host_port(options_.native_endpoint, 9100));
  }
  retry_.attempts_max = options_.attempts_max;
  const bool anonymous = options_.access_key.empty();
  if (anonymous && (options_.via == Via::native || options_.via == Via::token)) {
    return fault(ErrorCode::invalid_argument, "the native and token doors need an access key");
  }

  net::HttpOptions http{.host = s3.host, .port = s3.port, .tls = s3.tls, .ca_file = options_.ca_file};
  http.insecure = options_.insecure;
  http.connect_timeout = options_.connect_timeout;
  http.stall_timeout = options_.operation_timeout;
  http.idle_connections_max = options_.connections_max;
  auto made = net::HttpClient::create(std::move(http));
  if (!made) return fault(made.error(), "connect");
  http_ = std::move(*made);
  client::S3Options s3_options;
  s3_options.credentials = {options_.access_key, options_.secret_key, options_.session_token};
  s3_options.region = options_.region;
  s3_options.sign_payload = options_.sign_payload;
  s3_options.verify_checksums = options_.verify_checksums;
  s3_ = std::make_unique<client::S3Http>(*http_, s3_options);
  workers_ = std::make_unique<client::WorkerPool>(options_.async_threads);
  appends_in_order_ =
      std::make_unique<client::OrderedWork>([this](std::function<void()> work) { workers_->post(std::move(work)); });

  const bool all = options_.via == Via::automatic && !anonymous;
  OUT_ASSIGN(const client::RdmaEncryption encryption, client::rdma_encryption(options_, s3.tls));
  const bool only_protected = encryption == client::RdmaEncryption::required;
  const bool only_same_host = only_protected || (all && s3.tls && !options_.cleartext_rdma);
  if (only_protected) {
    tls_reason_ = "encryption is required";
  } else if (only_same_host) {
    tls_reason_ = "payloads of an https endpoint stay encrypted (cleartext_rdma allows RDMA)";
  }
  if (all || options_.via == Via::native) {
    client::NativeOptions session;
    session.host = native.host;
    session.port = native.port;
    session.tls = native.tls;
    session.insecure = options_.insecure;
    session.ca_file = options_.ca_file;
    session.credentials = s3_options.credentials;
    session.region = options_.region;
    if (options_.provider != "auto" && !options_.provider.empty()) session.providers = {options_.provider};
    // Only the same host or an encrypted transport, as TLS was asked for.
    session.encrypted_only = only_same_host;
    session.forward_secrecy_only = only_protected;
    session.seals = encryption != client::RdmaEncryption::off;
    session.connect_timeout = options_.connect_timeout;
    session.request_timeout = options_.operation_timeout;
    session_ = std::make_unique<client::SessionDoor>(std::move(session), options_.verify_checksums);
    append_worker_ = std::make_unique<client::WorkerPool>(1);
    appends_ = std::make_unique<client::Appends>(ways_of_appends());
    auto opened = session_->session();
    if (!opened && options_.via == Via::native) return std::unexpected(std::move(opened).error());
    // Credentials refused here would be refused at the other doors, too.
    if (!opened &&
        (opened.error().code == ErrorCode::access_denied || opened.error().code == ErrorCode::unknown_access_key)) {
      return std::unexpected(std::move(opened).error());
    }
  }
  if (options_.via != Via::native) {
    const bool native_open = session_ && session_->open();
    if (auto reached = http_->warm_up(); !reached && !native_open) {
      ClientError error = client::from_error(reached.error(), options_.endpoint);
      error.code = ErrorCode::connection_failed;
      return std::unexpected(std::move(error));
    }
  }
  // Over https a token's bytes are sealed, unless the caller has allowed them to be plain.
  const bool seals_tokens =
      s3.tls && encryption != client::RdmaEncryption::off && (only_protected || !options_.cleartext_rdma);
  if ((all && (!only_same_host || seals_tokens)) || options_.via == Via::token) {
    // libfabric's tcp listens, and any peer can crash the process through it: used only on request.
    const bool unasked =
        all && (options_.provider.empty() || options_.provider == "auto" || options_.provider == "local");
    token_ = std::make_unique<client::TokenDoor>(*s3_, unasked ? "verbs" : options_.provider, seals_tokens,
                                                 options_.operation_timeout);
    if (options_.via == Via::token) OUT_TRY(token_->open());
  }
  return {};
}

Outcome<> Client::Impl::usable() const {
  if (forks_ == client::forks()) return {};
  return fault(ErrorCode::forked, "the client was made before a fork of this process: make a new one in the child");
}

Client::Impl::~Impl() {
  if (forks_ != client::forks()) {  // in a fork's child the threads do not exist, and the connections are the parent's
    static_cast<void>(session_.release());
    static_cast<void>(lanes_.release());
    static_cast<void>(workers_.release());
    static_cast<void>(append_worker_.release());
    static_cast<void>(appends_.release());
    static_cast<void>(appends_in_order_.release());
    static_cast<void>(token_.release());
    static_cast<void>(s3_.release());
    static_cast<void>(http_.release());
    return;
  }
  closing_ = true;
  if (session_) session_->close();  // requests in flight complete, possibly with an error
  // Runs their completions, too, which may post others.
  for (client::WorkerPool* pool : {append_worker_.get(), workers_.get(), append_worker_.get(), workers_.get()}) {
    if (pool != nullptr) pool->stop();
  }
  if (appends_) {
    appends_->wait_for_cancelled();
    workers_->stop();
  }
}

bool Client::Impl::wants_token(uint64_t size) {
  if (!token_) return false;
  if (options_.via == Via::token) return size > 0;
  return size >= std::max<uint64_t>(options_.token_size_min, 1) && token_->takes(size) && token_->known_to_server() &&
         SteadyClock::now().time_since_epoch().count() >= token_rests_until_;
}

// What may be the door's fault, though not the request's: a condition, a right, a key that is not there say nothing
// against it, and a caller's stop neither.
void Client::Impl::rest_token_after(const ClientError& error, const std::stop_token& stop) {
  if (stop.stop_requested() || !get_may_fall_back(error)) return;
  token_rests_until_ = deadline_in(token_rest).time_since_epoch().count();
  std::lock_guard lock(reason_mutex_);
  token_reason_ = error.message;
}

Outcome<GetReply> Client::Impl::get_by_token(const std::string& bucket, const std::string& key, MutableBytes into,
                                             const GetOptions& options, const client::PeerWindow* device) {
  auto got = token_->get(bucket, key, into, options, device);
  if (!got) rest_token_after(got.error(), options.cancel);
  if (got && got->transfer.door != Via::token) {
    rest_token_after({.code = ErrorCode::unsupported, .message = got->transfer.fell_back_reason}, options.cancel);
  }
  return got;
}

Outcome<std::optional<net::HttpReply>> Client::Impl::send_by_token(client::S3Call call, Bytes from,
                                                                   const client::KnownChecksum& checksum, bool md5_etag,
                                                                   std::string& reason,
                                                                   const client::PeerWindow* device) {
  const std::stop_token stop = call.stop;
  auto reply = token_->put(std::move(call), from, checksum, md5_etag, reason, device);
  if (!reply) rest_token_after(reply.error(), stop);
  if (reply && !*reply) rest_token_after({.code = ErrorCode::unsupported, .message = reason}, stop);
  return reply;
}

Outcome<GetReply> Client::Impl::get_once(const std::string& bucket, const std::string& key, GetMemory into,
                                         const GetOptions& options, bool native_too) {
  std::string reasons;
  if (options.cancel.stop_requested()) return cancelled();
  const bool versioned = !options.version_id.empty();
  if (versioned && options_.via == Via::native) return no_versions();
  if (session_ && native_too && !versioned) {
    auto got = session_->get(bucket, key, into.bytes, into.native, options, {});
    if (!got && options.cancel.stop_requested()) return cancelled();
    if (got || options_.via == Via::native || !get_may_fall_back(got.error())) return got;
    if (speaks_against_door(got.error())) session_->suspend(got.error());
    add_reason(reasons, "native", got.error().message);
  }
  const uint64_t expected = client::expected_size(into.bytes.size(), options);
  if (wants_token(expected)) {
    auto got = get_by_token(bucket, key, into.bytes, options);
    if (!got && options.cancel.stop_requested()) return cancelled();
    const bool forced = options_.via == Via::token;
    if (got && forced && got->transfer.door != Via::token && got->bytes > 0) {
      return fault(ErrorCode::unsupported, got->transfer.fell_back_reason);
    }
    if (got) {
      if (got->transfer.door != Via::token) add_reason(reasons, "token", got->transfer.fell_back_reason);
      got->transfer.fell_back_reason = std::move(reasons);
      return got;
    }
    if (forced || !get_may_fall_back(got.error())) return got;
    add_reason(reasons, "token", got.error().message);
  } else if (token_ && options_.via == Via::automatic && expected >= options_.token_size_min) {
    std::lock_guard lock(reason_mutex_);
    add_reason(reasons, "token", token_reason_.empty() ? "not known to the server" : token_reason_);
  }
  if (!tls_reason_.empty()) add_reason(reasons, "https", tls_reason_);
  auto got = s3_->get(bucket, key, into.bytes, options);
  if (!got && options.cancel.stop_requested()) return cancelled();
  if (got) got->transfer.fell_back_reason = std::move(reasons);
  return got;
}

Outcome<GetReply> Client::Impl::get(const std::string& bucket, const std::string& key, GetMemory into,
                                    const GetOptions& options, bool native_too) {
  unsigned attempts = 0;
  const auto once = [&] { return get_once(bucket, key, into, options, native_too); };
  auto got = unless_cancelled(client::with_retries(retry_, true, attempts, once, options.cancel), options.cancel);
  if (got) got->transfer.attempts = attempts;
  return got;
}

Outcome<GetReply> Client::Impl::get_ranges(const std::string& bucket, const std::string& key,
                                           std::span<const Range> ranges, GetMemory into, const GetOptions& options) {
  if (ranges.empty()) return fault(ErrorCode::invalid_argument, "no range");
  std::string reasons;
  if (options.cancel.stop_requested()) return cancelled();
  if (!options.version_id.empty() && options_.via == Via::native) return no_versions();
  if (session_ && options.version_id.empty()) {
    unsigned attempts = 0;
    const auto once = [&] { return session_->get(bucket, key, into.bytes, into.native, options, ranges); };
    auto got = client::with_retries(retry_, true, attempts, once, options.cancel);
    if (!got && options.cancel.stop_requested()) return cancelled();
    if (got || options_.via == Via::native || !get_may_fall_back(got.error())) return got;
    add_reason(reasons, "native", got.error().message);
  }
  GetReply all;
  GetOptions one = options;
  for (size_t i = 0; i < ranges.size(); ++i) {
    one.range = ranges[i];
    auto got = get(bucket, key, {into.bytes.subspan(all.bytes), nullptr}, one, false);
    if (!got) return got;
    if (i == 0) {
      all.info = got->info;
      all.transfer = got->transfer;
      one.if_match = got->info.etag;  // all ranges of one version
      one.if_none_match.clear();
    } else if (got->transfer.door == Via::http) {
      all.transfer.door = Via::http;
      all.transfer.provider = got->transfer.provider;
    }
    all.bytes += got->bytes;
  }
  all.transfer.bytes = all.bytes;
  if (!reasons.empty()) all.transfer.fell_back_reason = reasons;
  return all;
}

Outcome<GetReply> Client::Impl::get_ranges(const std::string& bucket, const std::string& key,
                                           std::span<const Range> ranges, const Buffer& into,
                                           const GetOptions& options) {
  if (into.on_device()) return device_get_ranges(bucket, key, ranges, into, options);
  return get_ranges(bucket, key, ranges, GetMemory{into.bytes_, into.memory_ ? into.memory_->native.get() : nullptr},
                    options);
}

// A server that does not know tokens would answer a conditional PUT by storing an empty object, and the PUT with the
// body would then fail its own condition: so a conditional PUT waits until the server has answered a token. So does one
// over https, where any server of S3 may be.
bool Client::Impl::token_may_put(uint64_t size, const PutOptions& options) {
  const bool known = options_.via == Via::token || (token_ && token_->proven());
  return wants_token(size) && token_checks(options) && tells_offset(options) &&
         (known || !(conditional(options) || token_->seals()));
}

Outcome<PutReply> Client::Impl::put_by_token(const std::string& bucket, const std::string& key, Bytes from,
                                             const PutOptions& options, std::string& reason, bool& done,
                                             const client::PeerWindow* device) {
  done = false;
  client::S3Call call{.method = "PUT", .bucket = bucket, .key = key, .stop = options.cancel};
  OUT_ASSIGN(call.headers, client::put_headers(options));
  client::KnownChecksum checksum{Algorithm::crc32c, {}};
  if (options.checksum.empty()) {
    if (device == nullptr) checksum.base64 = client::crc32c_base64(crc32c(from));
  } else {  // the server compares it with the bytes that it read, before it commits
    OUT_ASSIGN(checksum, client::parse_checksum(options.checksum));
  }
  OUT_ASSIGN(auto reply, send_by_token(std::move(call), from, checksum, options.md5_etag, reason, device));
  if (!reply) return PutReply();
  done = true;
  PutReply out = client::put_reply(*reply);
  out.transfer.door = Via::token;
  out.transfer.provider = token_->provider();
  out.transfer.bytes = from.size();
  return out;
}

// HTTP needs the offset of the end. When another append came first, the end is looked up again.
Outcome<PutReply> Client::Impl::append_by_http(const std::string& bucket, const std::string& key, Bytes from,
                                               const PutOptions& options) {
  constexpr int looks_max = 100;
  PutOptions there = options;
  HeadOptions look;
  look.cancel = options.cancel;
  for (int i = 0;; ++i) {
    const auto info = s3_->head(bucket, key, look);
    if (!info && info.error().code != ErrorCode::no_such_key) return std::unexpected(info.error());
    there.append_at = info ? info->size : 0;
    auto put = s3_->put(bucket, key, from, there);
    if (put || i == looks_max || put.error().s3_code != "InvalidWriteOffset") return put;
  }
}

Outcome<PutReply> Client::Impl::put_once(const std::string& bucket, const std::string& key, PutMemory from,
                                         const PutOptions& options, bool native_too) {
  std::string reasons;
  client::Doubt doubt;
  const bool is_conditional = conditional(options);
  if (options.cancel.stop_requested()) return cancelled();
  if (!options.checksum.empty()) OUT_TRY(client::parse_checksum(options.checksum));
  if (session_ && native_too) {
    auto put = session_->put(bucket, key, from.bytes, from.native, options);
    if (!put && options.cancel.stop_requested()) return cancelled();
    if (put || options_.via == Via::native || !change_may_fall_back(put.error(), !is_conditional)) return put;
    if (speaks_against_door(put.error())) session_->suspend(put.error());
    doubt.after(put.error());
    add_reason(reasons, "native", put.error().message);
  }
  const bool forced = options_.via == Via::token;
  if (forced && !token_checks(options)) {
    return fault(ErrorCode::unsupported, "the token door carries no checksum but CRC32C");
  }
  if (forced && !tells_offset(options)) {
    return fault(ErrorCode::unsupported, "the token door appends at a size that is given");
  }
  if (token_may_put(from.bytes.size(), options)) {
    std::string why;
    bool done = false;
    auto put = put_by_token(bucket, key, from.bytes, options, why, done);
    if (!put && options.cancel.stop_requested()) return cancelled();
    if (put && done) {
      put->transfer.fell_back_reason = std::move(reasons);
      return put;
    }
    if (!put && (forced || !change_may_fall_back(put.error(), !is_conditional))) {
      return std::unexpected(doubt.about(std::move(put).error()));
    }
    if (put && forced) return fault(ErrorCode::unsupported, why);
    if (!put) {
      doubt.after(put.error());
      why = put.error().message;
    }
    add_reason(reasons, "token", why);
  } else if (token_ && !forced && from.bytes.size() >= options_.token_size_min) {
    std::lock_guard lock(reason_mutex_);
    add_reason(reasons, "token", token_reason_.empty() ? "not known to the server yet" : token_reason_);
  }
  if (!tls_reason_.empty()) add_reason(reasons, "https", tls_reason_);
  auto put = options.append_at == append_at_end ? append_by_http(bucket, key, from.bytes, options)
                                                : s3_->put(bucket, key, from.bytes, options);
  if (!put && options.cancel.stop_requested()) return cancelled();
  if (!put) return std::unexpected(doubt.about(std::move(put).error()));
  put->transfer.fell_back_reason = std::move(reasons);
  return put;
}

Outcome<PutReply> Client::Impl::put(const std::string& bucket, const std::string& key, PutMemory from,
                                    const PutOptions& options, bool native_too) {
  if (native_too) flush_appends(bucket, key);
  const bool native_first =
      session_ && native_too && fits_native(from.bytes.size()) && (options_.via == Via::native || session_->open());
  const uint64_t whole_max = std::min(options_.multipart_threshold, client::put_size_max);
  if (!native_first && !options.append_at && from.bytes.size() > whole_max) {
    return put_parts(bucket, key, from.bytes, options);
  }
  unsigned attempts = 0;
  const auto once = [&] { return put_once(bucket, key, from, options, native_too); };
  auto put = unless_cancelled(
      client::with_retries_of_change(retry_, !conditional(options), attempts, once, options.cancel), options.cancel);
  if (put) put->transfer.attempts = attempts;
  return put;
}

Outcome<ObjectInfo> Client::Impl::head(const std::string& bucket, const std::string& key, const HeadOptions& options) {
  if (!options.version_id.empty() && options_.via == Via::native) return no_versions();
  const auto once = [&]() -> Outcome<ObjectInfo> {
    if (options.cancel.stop_requested()) return cancelled();
    if (session_ && options.version_id.empty()) {
      auto info = session_->head(bucket, key, options);
      if (!info && options.cancel.stop_requested()) return cancelled();
      if (info || options_.via == Via::native || !get_may_fall_back(info.error())) return info;
      if (speaks_against_door(info.error())) session_->suspend(info.error());
    }
    auto info = s3_->head(bucket, key, options);
    if (!info && options.cancel.stop_requested()) return cancelled();
    return info;
  };
  return unless_cancelled(retried(true, once, options.cancel), options.cancel);
}

// Never repeated, at any door, once it may have happened: a second DELETE could remove an object stored after the
// first, and with versions it would add a second marker.
Outcome<> Client::Impl::remove(const std::string& bucket, const std::string& key, const RemoveOptions& options) {
  if (!options.version_id.empty() && options_.via == Via::native) return no_versions();
  flush_appends(bucket, key);
  const auto once = [&]() -> Outcome<> {
    if (options.cancel.stop_requested()) return cancelled();
    if (session_ && options.version_id.empty()) {
      auto removed = session_->remove(bucket, key, options);
      if (!removed && options.cancel.stop_requested()) return cancelled();
      if (removed || options_.via == Via::native || !change_may_fall_back(removed.error(), false)) return removed;
      if (speaks_against_door(removed.error())) session_->suspend(removed.error());
    }
    auto removed = s3_->remove(bucket, key, options);
    if (!removed && options.cancel.stop_requested()) return cancelled();
    return removed;
  };
  return unless_cancelled(retried_change(once, options.cancel), options.cancel);
}

// Repeated if the caller gave a token; without one never, once it may have happened.
Outcome<> Client::Impl::rename(const std::string& bucket, const std::string& from, const std::string& to,
                               const RenameOptions& options) {
  const bool repeatable = !options.token.empty();
  flush_appends(bucket, from);
  flush_appends(bucket, to);
  const auto once = [&]() -> Outcome<> {
    client::Doubt doubt;
    if (options.cancel.stop_requested()) return cancelled();
    if (session_) {
      auto renamed = session_->rename(bucket, from, to, options);
      if (!renamed && options.cancel.stop_requested()) return cancelled();
      if (renamed || options_.via == Via::native || !change_may_fall_back(renamed.error(), repeatable)) return renamed;
      if (speaks_against_door(renamed.error())) session_->suspend(renamed.error());
      doubt.after(renamed.error());
    }
    auto renamed = s3_->rename(bucket, from, to, options);
    if (!renamed && options.cancel.stop_requested()) return cancelled();
    if (!renamed) return std::unexpected(doubt.about(std::move(renamed).error()));
    return renamed;
  };
  unsigned attempts = 0;
  auto renamed = client::with_retries_of_change(retry_, repeatable, attempts, once, options.cancel);
  return unless_cancelled(std::move(renamed), options.cancel);
}

Outcome<Buffer> Client::Impl::allocate(size_t size) {
  if (size == 0) return fault(ErrorCode::invalid_argument, "a buffer has at least one byte");
  Buffer out;
  out.memory_ = std::make_shared<Buffer::Memory>();
  if (session_ && session_->open()) {
    if (auto session = session_->session()) {
      if (auto memory = (*session)->allocate(size)) {
        out.memory_->native = std::move(*memory);
        out.bytes_ = out.memory_->native->bytes().first(size);
        return out;
      }
    }
  }
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return fault(ErrorCode::local_error, "no memory for a buffer of that size");
  out.memory_->own = mapped;
  out.memory_->own_bytes = size;
  out.bytes_ = {static_cast<std::byte*>(mapped), size};
  return out;
}

void Client::Impl::get_async(std::string bucket, std::string key, Buffer into, GetOptions options,
                             Callback<GetReply> done, bool inline_done) {
  if (into.on_device()) {
    workers_->post([=, this, done = std::move(done)] { done(device_get(bucket, key, into, options)); });
    return;
  }
  const GetMemory memory{into.bytes_, into.memory_ ? into.memory_->native.get() : nullptr};
  if (!session_ || !session_->open() || !options.version_id.empty()) {
    workers_->post([=, this, done = std::move(done)] {
      static_cast<void>(into);  // the memory lives until the completion
      done(get(bucket, key, memory, options));
    });
    return;
  }
  // Captures `into`: the memory lives until the completion.
  auto landed = [=, this, done = std::move(done)](Outcome<GetReply> got) {
    if (!got && options.cancel.stop_requested()) got = cancelled();
    const bool again = !got && !closing_ && options_.via != Via::native && get_may_fall_back(got.error());
    if (again) {
      if (speaks_against_door(got.error())) session_->suspend(got.error());
      workers_->post([=, this] {
        static_cast<void>(into);
        auto second = get(bucket, key, memory, options, false);
        if (second) add_reason(second->transfer.fell_back_reason, "native", got.error().message);
        done(std::move(second));
      });
    } else if (inline_done) {
      done(std::move(got));
    } else {
      workers_->post([done, got = std::move(got)]() mutable { done(std::move(got)); });
    }
  };
  session_->get_async(bucket, key, memory.bytes, memory.native, options, std::move(landed));
}

PutMemory Client::Impl::memory_of(const Buffer& from) {
  return {from.bytes_, from.memory_ ? from.memory_->native.get() : nullptr};
}

void Client::Impl::put_async(std::string bucket, std::string key, Buffer from, PutOptions options,
                             Callback<PutReply> done, bool inline_done) {
  if (from.on_device()) {
    workers_->post([=, this, done = std::move(done)] { done(device_put(bucket, key, from, options)); });
    return;
  }
  client::AsyncPut call{std::move(from), std::move(options), std::move(done), inline_done};
  if (call.options.append_at && put_in_order(bucket, key, call)) return;
  if (!session_ || !session_->open() || !fits_native(call.from.size())) {
    const client::OrderedWork::Place place = std::exchange(call.place, nullptr);
    auto work = [this, bucket, key, call] { call.done(put(bucket, key, memory_of(call.from), call.options)); };
    if (place == nullptr) return workers_->post(std::move(work));
    return appends_in_order_->fill(client::Appends::name_of(bucket, key), place, std::move(work), call.options.cancel,
                                   when_cancelled(bucket, key, call));
  }
  put_by_session(bucket, key, std::move(call));
}

void Client::Impl::put_by_session(const std::string& bucket, const std::string& key, client::AsyncPut call) {
  if (call.options.append_at) {
    // A message belongs to one trace at most, that of the sending thread.
    if (client::thread_trace() == nullptr && client::Appends::may_join(call)) {
      return appends_->add(bucket, key, std::move(call));
    }
  }
  flush_appends(bucket, key);
  const PutMemory memory = memory_of(call.from);
  // Captures the call: its memory lives until the completion.
  auto landed = [this, bucket, key, call](Outcome<PutReply> outcome) {
    put_landed(bucket, key, call, std::move(outcome));
  };
  session_->put_async(bucket, key, memory.bytes, memory.native, call.options, std::move(landed));
}

// True: the append is under way in the order of those of its key, because the native door is not open or earlier ones
// wait that found it so. Those that are still with the native door may have to go by another door, each at its place:
// an append by HTTP waits for them, and one by the native door, if that is open again, does not. False: it has a place,
// and may go by the native door.
bool Client::Impl::put_in_order(const std::string& bucket, const std::string& key, client::AsyncPut& call) {
  const std::string name = client::Appends::name_of(bucket, key);
  if (session_ && session_->open() && !appends_in_order_->has(name)) {
    call.place = appends_in_order_->reserve(name);
    return false;
  }
  auto when_stopped = when_cancelled(bucket, key, call);
  auto by_http = [this, bucket, key, call] { call.done(put(bucket, key, memory_of(call.from), call.options)); };
  if (!session_) {
    appends_in_order_->add(name, std::move(by_http), call.options.cancel, std::move(when_stopped));
    return true;
  }
  auto work = [this, bucket, key, name, call, by_http = std::move(by_http), when_stopped] {
    client::AsyncPut now = call;
    now.place = appends_in_order_->own_place(name);
    if (session_->open()) return put_by_session(bucket, key, std::move(now));
    appends_in_order_->fill(name, now.place, by_http, call.options.cancel, when_stopped);
  };
  appends_in_order_->add_beside_places(name, std::move(work), call.options.cancel, std::move(when_stopped));
  return true;
}

std::function<void()> Client::Impl::when_cancelled(const std::string& bucket, const std::string& key,
                                                   const client::AsyncPut& call) {
  if (!call.options.cancel.stop_possible()) return nullptr;
  return [this, bucket, key, call] { put_landed(bucket, key, call, cancelled()); };
}

void Client::Impl::flush_appends(const std::string& bucket, const std::string& key) {
  if (appends_) appends_->flush(bucket, key);
}

void Client::Impl::put_landed(const std::string& bucket, const std::string& key, client::AsyncPut call,
                              Outcome<PutReply> outcome) {
  if (!outcome && call.options.cancel.stop_requested()) outcome = cancelled();
  if (!outcome) outcome = std::unexpected(client::Doubt().about(std::move(outcome).error()));
  const bool again = !outcome && !closing_ && options_.via != Via::native &&
                     change_may_fall_back(outcome.error(), !conditional(call.options));
  const client::OrderedWork::Place place = std::exchange(call.place, nullptr);
  if (place != nullptr && !again) appends_in_order_->give_up(client::Appends::name_of(bucket, key), place);
  if (again) {
    if (speaks_against_door(outcome.error())) session_->suspend(outcome.error());
    auto second_way = [this, bucket, key, call, first = outcome.error()] {
      auto second = put(bucket, key, memory_of(call.from), call.options, false);
      if (second) {
        add_reason(second->transfer.fell_back_reason, "native", first.message);
      } else {
        client::Doubt doubt;
        doubt.after(first);
        second = std::unexpected(doubt.about(std::move(second).error()));
      }
      call.done(std::move(second));
    };
    if (place != nullptr) {
      appends_in_order_->fill(client::Appends::name_of(bucket, key), place, std::move(second_way), call.options.cancel,
                              when_cancelled(bucket, key, call));
    } else {
      workers_->post(std::move(second_way));
    }
  } else if (call.inline_done) {
    call.done(std::move(outcome));
  } else {
    workers_->post([done = std::move(call.done), outcome = std::move(outcome)]() mutable { done(std::move(outcome)); });
  }
}

client::Appends::Ways Client::Impl::ways_of_appends() {
  client::Appends::Ways ways;
  ways.send = [this](const std::string& bucket, const std::string& key, const PutOptions& options, Bytes bytes,
                     Callback<PutReply> done) {
    // The sending thread may be another caller's, with an unrelated trace.
    const client::ThreadTrace* const trace = client::thread_trace();
    const std::string kept = trace != nullptr ? trace->traceparent : std::string();
    if (trace != nullptr) client::set_thread_trace({});
    session_->put_async(bucket, key, bytes, nullptr, options, std::move(done));
    if (!kept.empty()) client::set_thread_trace(kept);
  };
  ways.post = [this](std::function<void()> work) { append_worker_->post(std::move(work)); };
  ways.answered = [this](const std::string& bucket, const std::string& key, client::AsyncPut call,
                         Outcome<PutReply> outcome) { put_landed(bucket, key, std::move(call), std::move(outcome)); };
  return ways;
}

}  // namespace verbena
