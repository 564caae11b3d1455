#include "s3_http/token.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "auth/account_of.h"
#include "auth/network_rules.h"
#include "base/bytes.h"
#include "base/decimal.h"
#include "base/text.h"
#include "call/door_metrics.h"
#include "fabric/sealing_names.h"
#include "rdma/rc/connections.h"
#include "rdma/sealed_streams.h"
#include "rdma/sealing.h"
#include "s3/access/authorize.h"
#include "s3/errors.h"
#include "s3/objects/send.h"
#include "s3_http/delivered.h"
#include "s3_http/error_response.h"

namespace verbena::s3 {
namespace {

constexpr std::string_view empty_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// Reads nothing: a 0-byte object is stored without posting an operation, since some devices drop those.
class EmptySource : public memory::Source {
 public:
  std::optional<uint64_t> size() const override { return 0; }
  Task<Result<size_t>> read(MutableBytes) override { co_return size_t{0}; }
};

RdmaEncryption encryption_for(const RouterOptions& options, const Call& caller) {
  return options.networks == nullptr ? options.encryption : options.networks->encryption(caller.peer_address);
}

}  // namespace

std::optional<Error> refuse_plain_rdma(const RouterOptions& options, const Call& caller) {
  if (encryption_for(options, caller) != RdmaEncryption::required) return std::nullopt;
  if (options.networks != nullptr)
    return Error{Errc::rdma_not_supported, 0, "token: its payload is not encrypted, as this network requires"};
  return Error{Errc::rdma_not_supported, 0, "token: its payload is not encrypted, as rdma.encryption requires"};
}

namespace {

std::optional<Error> refuse_sealed_rdma(const RouterOptions& options, const Call& caller, fabric::Sealing sealing) {
  if (encryption_for(options, caller) == RdmaEncryption::off)
    return Error{Errc::rdma_not_supported, 0, "token: rdma.encryption is off, and the client wants it sealed"};
  if (!options.has_aead(fabric::aead_of(sealing)))
    return Error{Errc::rdma_not_supported, 0, "token: this server does not have its cipher"};
  return std::nullopt;
}

std::optional<Error> refuse_window(const Context& context, const rdma::Token& token) {
  if (context.windows == nullptr) return Error{Errc::rdma_not_supported, 0, "token: RDMA is off"};
  if (!context.windows->serves(token.form)) {
    return Error{Errc::rdma_not_supported, 0, rdma::traits_of(token.form).unserved};
  }
  if (token.flaw != nullptr) return Error{Errc::rdma_not_supported, 0, token.flaw};
  return token.seal ? refuse_sealed_rdma(context.options, context.caller(), token.seal->sealing)
                    : refuse_plain_rdma(context.options, context.caller());
}

fabric::WindowDescriptor window_of(const rdma::Token& token) { return {token.base, token.size, token.key}; }

Task<Result<std::unique_ptr<fabric::Window>>> open_window(Context& context, const rdma::Token& token,
                                                          fabric::Access access) {
  const Call& caller = context.caller();
  const rdma::TokenClient client{caller.peer_address, token_owner(caller), auth::account_of(caller.identity)};
  co_return co_await context.windows->open(token, client, access);
}

// A client gives up after about 10 s and reuses its memory. So operations are posted in the first half of a transfer's
// time, and each operation has the other half to complete: after both, nothing is in flight.
std::chrono::milliseconds operation_deadline(const Context& context) { return context.options.rdma_deadline / 2; }
Deadline last_post(const Context& context) { return deadline_in(context.options.rdma_deadline / 2); }

// A late read does not change the client's memory, so a large PUT also has the time for its bytes at the slowest rate.
Deadline last_read(const Context& context, uint64_t size) {
  const auto moving = std::chrono::milliseconds(size * 1000 / std::max<uint64_t>(context.options.rdma_rate_min, 1));
  return last_post(context) + moving;
}

class DigestedSink : public memory::Sink {
 public:
  DigestedSink(memory::Sink& inner, Delivered& delivered) : inner_(inner), delivered_(delivered) {}
  Task<Result<void>> begin(uint64_t length) override { co_return co_await inner_.begin(length); }
  Task<Result<void>> push(memory::Chunk chunk) override {
    delivered_.update(chunk.bytes);
    co_return co_await inner_.push(std::move(chunk));
  }
  Task<Result<void>> drained() override { co_return co_await inner_.drained(); }
  Task<Result<void>> finish() override { co_return co_await inner_.finish(); }

 private:
  memory::Sink& inner_;
  Delivered& delivered_;
};

// After its time the client may have reused the window, so its bytes must not become an object. Remembers whether the
// window failed: the piece ahead may fail beside the store, whose error is the answer then.
class BoundedSource : public memory::Source {
 public:
  BoundedSource(memory::Source& inner, Deadline end, Delivered& delivered)
      : inner_(inner), last_post_(end), delivered_(delivered) {}
  std::optional<uint64_t> size() const override { return inner_.size(); }
  Task<Result<void>> ready() override {
    if (const auto late = may_post(); !late) co_return remember(late.error());
    const auto done = co_await inner_.ready();  // reads tags: the client's part
    last_read_ = SteadyClock::now();
    if (!done) co_return remember(done.error());
    co_return done;
  }
  Task<Result<size_t>> read(MutableBytes into) override {
    // The end is no operation. It may be asked for late, since the bytes were stored meanwhile.
    if (bytes_read_ == inner_.size()) co_return co_await inner_.read(into);
    if (const auto late = may_post(); !late) co_return remember(late.error());
    const auto n = co_await inner_.read(into);
    last_read_ = SteadyClock::now();
    if (!n) co_return remember(n.error());
    delivered_.update(into.first(*n));
    bytes_read_ += *n;
    co_return n;
  }
  bool by_device() const override { return inner_.by_device(); }
  uint64_t arrived() const override { return inner_.arrived(); }
  uint64_t bytes_read() const { return bytes_read_; }
  bool failed_with(const Error& error) const {
    return failure_ && failure_->code == error.code && failure_->sys == error.sys && failure_->context == error.context;
  }

 private:
  std::unexpected<Error> remember(const Error& failure) {
    failure_ = failure;
    return std::unexpected(failure);
  }
  // If the client's part was done in time, the server took the rest of it: for memory, or for its disk.
  Result<void> may_post() const {
    if (SteadyClock::now() < last_post_) return {};
    if (last_read_ < last_post_) return fail(Errc::slow_down, "token: the server is too busy to read in time");
    return fail(Errc::timed_out, "token: time to post is over");
  }

  memory::Source& inner_;
  Deadline last_read_{};  // ended
  Deadline last_post_;
  Delivered& delivered_;
  uint64_t bytes_read_ = 0;
  std::optional<Error> failure_;
};

// `why`: a constant text for x-verbena-rdma-declined, an extension that shows why RDMA was not used.
void mark_declined(Context& context, const rdma::Token& token, call::Direction direction, const char* why) {
  context.reply_header("x-amz-rdma-reply", "501");
  context.reply_header("x-verbena-rdma-declined", why);
  const rdma::FormTraits& traits = rdma::traits_of(token.form);
  if (traits.protocol_status != nullptr) context.reply_header("x-amz-rdma-protocol-status", traits.protocol_status);
  call::count_decline(direction);
  rdma::count_declined(token.form);
}

void mark_moved(Context& context, const rdma::Token& token, call::Direction direction, uint64_t bytes,
                Delivered& delivered) {
  context.reply_header("x-amz-rdma-reply",
                       std::to_string(direction == call::Direction::in ? 200 : context.response.status));
  context.reply_header("x-amz-rdma-bytes-transferred", std::to_string(bytes));
  delivered.tell(context);
  call::Outcome& outcome = context.call.outcome;
  outcome.by_token = true;
  outcome.token_bytes = bytes;
  outcome.transport = rdma::transport_of(token.provider);
  rdma::count_moved(token.form);
  (direction == call::Direction::in ? outcome.in : outcome.out) = bytes;
}

// Of the answer to a sealed token.
void mark_sealed(Context& context, const rdma::Token& token, const fabric::sealed::Salt& salt) {
  if (token.seal) context.reply_header(rdma::sealed_header, rdma::format_sealed(salt));
}

// An empty body, without headers about a body.
Result<void> check_put_framing(const Context& context) {
  if (context.request.content_length.value_or(1) != 0) {
    return fail(Errc::invalid_request, "A request with x-amz-rdma-token must have Content-Length: 0.");
  }
  if (context.request.header("content-md5")) {
    return fail(Errc::invalid_request, "A request with x-amz-rdma-token must not have Content-MD5.");
  }
  if (context.request.header("x-amz-trailer") || context.request.header("x-amz-decoded-content-length")) {
    return fail(Errc::invalid_request, "A request with x-amz-rdma-token must not use aws-chunked.");
  }
  const auto hash = context.request.header("x-amz-content-sha256").value_or("UNSIGNED-PAYLOAD");
  if (hash != "UNSIGNED-PAYLOAD" && hash != empty_sha256) {
    return fail(Errc::invalid_request, "A request with x-amz-rdma-token must be signed with UNSIGNED-PAYLOAD.");
  }
  return {};
}

// The window's size, or the smaller value of a signed x-amz-rdma-bytes.
Result<uint64_t> put_size(const Context& context, const rdma::Token& token) {
  uint64_t size = token.size;
  if (const auto header = context.request.header("x-amz-rdma-bytes")) {
    if (!context.caller().identity.signs("x-amz-rdma-bytes")) {
      return fail(Errc::access_denied, "x-amz-rdma-bytes must be among the signed headers.");
    }
    const auto bytes = parse_decimal(*header);
    if (!bytes || *bytes > token.size) {
      return fail(Errc::invalid_argument, "x-amz-rdma-bytes must be a number of bytes inside the token's window.");
    }
    size = *bytes;
  }
  if (size > store::part_size_max) return fail(Errc::entity_too_large, "token: window");
  if (token.seal && (!context.request.header("x-amz-rdma-bytes") || !fabric::sealed::fits(size, token.size))) {
    return fail(Errc::invalid_argument,
                "A sealed PUT must have x-amz-rdma-bytes, and its window room for the bytes and their tags.");
  }
  return size;
}

// Nothing is stored, so there is no ETag. The status is the one after which clients of that dialect send a body: some
// take any other 2xx for a stored object.
TokenPut decline_put(Context& context, const rdma::Token& token, const Error& why) {
  mark_declined(context, token, call::Direction::in, why.context);
  const Error error{Errc::rdma_not_supported, 0, ""};
  context.response.status = rdma::traits_of(token.form).declined_put_status;
  context.response.error_code = error_form(error.code).code;
  context.reply_header("content-type", "application/xml");
  context.response.body = error_xml(error, context.request.raw_path, context.caller().request_id);
  return {};
}

Task<Result<PutReply>> store_body(Context& context, UploadPartRequest& part, memory::Source& body) {
  Call caller = context.caller();
  caller.door = Door::token;
  if (part.part_number == 0) co_return co_await put_object(context.service, caller, std::move(part.put), body);
  co_return co_await upload_part(context.service, caller, std::move(part), body);
}

// Serving a token makes the server connect to the client, so the right to write is checked before.
Task<Result<void>> may_write(Context& context, const PutRequest& put, bool whole_object) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, put.bucket));
  const Asked asked{.action = action::put_object,
                    .key = put.key,
                    .tags = &put.tags,
                    .lock = &put.lock,
                    .headers = &put.headers,
                    .conditions = &put.conditions,
                    .creates = whole_object};
  co_return authorize(context.service, context.caller(), *access, asked);
}

// `part.part_number` 0: a whole object.
Task<Result<TokenPut>> store_by_token(Context& context, const rdma::Token& token, UploadPartRequest part) {
  VB_CO_TRY(check_put_framing(context));
  VB_CO_TRY(co_await may_write(context, part.put, part.part_number == 0));
  if (const auto refusal = refuse_window(context, token)) co_return decline_put(context, token, *refusal);
  VB_CO_ASSIGN(const uint64_t size, put_size(context, token));
  const Deadline read_until = last_read(context, size);  // opening may wait for the peer's network
  std::unique_ptr<fabric::Window> window;
  if (size > 0) {
    auto opened = co_await open_window(context, token, fabric::Access::server_reads);
    if (!opened && (opened.error() == Errc::rdma_not_supported || opened.error() == Errc::io_error)) {
      co_return decline_put(context, token, opened.error());
    }
    if (!opened) co_return std::unexpected(opened.error());
    // The client has waited for that: nothing was read, so it may send a body as for any other decline.
    if (SteadyClock::now() >= read_until) {
      co_return decline_put(context, token, {Errc::rdma_not_supported, 0, "token: its window was not open in time"});
    }
    window = std::move(*opened);
  }
  EmptySource empty;
  const fabric::sealed::Salt salt{};  // the client alone seals, once with its key
  Delivered delivered(context);
  delivered.know(part.put.expected);  // verified before anything is stored
  // A whole object gets the checksum that its answer tells, so that no GET computes it again.
  const bool may_get = part.part_number == 0 && part.put.expected.empty() && !part.put.append;
  if (may_get && !part.put.compute) part.put.compute = delivered.algorithm();
  if (part.put.compute == delivered.algorithm()) delivered.leave();
  std::unique_ptr<memory::Source> out_of_window;
  std::optional<BoundedSource> bounded;
  if (window && token.seal) {
    fabric::sealed::Transfer transfer(*token.seal, salt, fabric::sealed::Direction::to_server, window_of(token), size);
    out_of_window =
        std::make_unique<rdma::SealedSource>(std::move(window), std::move(transfer), operation_deadline(context),
                                             context.service.arena, context.caller().peer_address);
  } else if (window) {
    out_of_window = std::make_unique<rdma::WindowSource>(std::move(window), size, operation_deadline(context));
  }
  if (out_of_window) bounded.emplace(*out_of_window, read_until, delivered);
  memory::Source& source = bounded ? static_cast<memory::Source&>(*bounded) : empty;
  auto stored = co_await store_body(context, part, source);
  if (!stored && bounded && bounded->failed_with(stored.error()) && stored.error() != Errc::slow_down) {
    call::count_failure();
    rdma::count_failed(token.form);
    // The client refused the first read: its window is not readable or is gone. It will send a body.
    const bool refused = stored.error() == Errc::rdma_transfer_failed && stored.error().sys != ETIMEDOUT;
    if (refused && bounded->bytes_read() == 0) {
      co_return decline_put(context, token, {Errc::rdma_not_supported, 0, "token: its window could not be read"});
    }
    co_return fail(Errc::rdma_transfer_failed, stored.error().context, stored.error().sys);
  }
  if (!stored) co_return std::unexpected(stored.error());
  delivered.know(stored->info.checksums);
  mark_moved(context, token, call::Direction::in, size, delivered);
  mark_sealed(context, token, salt);
  co_return TokenPut{TokenOutcome::done, std::move(*stored)};
}

}  // namespace

std::string_view token_owner(const Call& caller) {
  const auth::Identity& identity = caller.identity;
  if (identity.anonymous) return {};
  return identity.principal == nullptr ? auth::root_canonical_id : std::string_view(identity.principal->arn);
}

rdma::rc::Payer payer_of(const Call& caller) {
  return {std::string(auth::account_of(caller.identity)), caller.peer_address};
}

std::string connection_owner(const Call& caller) {
  if (caller.identity.anonymous) return rdma::rc::address_owner(caller.peer_address);
  return std::string(token_owner(caller));
}

Result<bool> wants_md5(const Context& context) {
  const auto header = context.request.header("x-verbena-etag");
  if (header && lower(*header) != "md5") return fail(Errc::invalid_argument, "x-verbena-etag can only be MD5.");
  return header.has_value();
}

namespace {

Result<void> read_sealing(const Context& context, std::string_view text, rdma::Token& token) {
  if (!context.caller().secure) {
    return fail(Errc::invalid_request, "x-verbena-rdma-sealing is a secret, which is taken over https alone.");
  }
  if (!context.caller().identity.signs(rdma::sealing_header)) {
    return fail(Errc::access_denied, "x-verbena-rdma-sealing must be among the signed headers.");
  }
  token.seal = rdma::parse_sealing(text);
  if (!token.seal) return fail(Errc::invalid_rdma_token, "token: x-verbena-rdma-sealing");
  context.call.seals_rdma = true;
  return {};
}

// The window is too small for the object.
std::optional<const char*> too_small(const rdma::Token& token, uint64_t length) {
  if (token.seal && !fabric::sealed::fits(length, token.size)) {
    return "token: the object and its tags are larger than the window";
  }
  if (token.size < length) return "token: the object is larger than the window";
  return std::nullopt;
}

}  // namespace

bool lends_by_foreign_token(const Context& context) {
  const auto lends = [](const auto& header) { return is_foreign_token(header.first); };
  return std::ranges::any_of(context.request.headers, lends) && !context.request.header("x-amz-rdma-token");
}

Result<void> refuse_foreign_token() {
  rdma::count_declined(rdma::TokenForm::unknown);
  return fail(Errc::rdma_not_supported, "tokens of other headers than x-amz-rdma-token are not served");
}

Result<std::optional<rdma::Token>> read_token(const Context& context) {
  const auto header = context.request.header("x-amz-rdma-token");
  const auto sealing = context.request.header(rdma::sealing_header);
  if (!header && sealing) return fail(Errc::invalid_rdma_token, "x-verbena-rdma-sealing goes with a token.");
  if (!header) return std::nullopt;
  // A token added to another party's signed request would direct the server's writes to arbitrary memory.
  if (!context.caller().identity.signs("x-amz-rdma-token")) {
    return fail(Errc::access_denied, "x-amz-rdma-token must be among the signed headers.");
  }
  VB_ASSIGN(rdma::Token token, rdma::parse_token(*header));
  const bool sealed = token.form == rdma::TokenForm::ofi1_sealed;
  if (sealed != sealing.has_value()) {
    return fail(Errc::invalid_rdma_token, "x-verbena-rdma-sealing and a token of ofi1s go together.");
  }
  if (sealed) VB_TRY(read_sealing(context, *sealing, token));
  return token;
}

Task<Result<TokenOutcome>> push_by_token(Context& context, const OpenObject& object, const rdma::Token& token) {
  if (const auto refusal = refuse_window(context, token)) {
    mark_declined(context, token, call::Direction::out, refusal->context);
    co_return TokenOutcome::declined;
  }
  Delivered delivered(context);
  if (!object.partial) delivered.know(object.info().checksums);
  fabric::sealed::Salt salt{};
  if (token.seal) fill_random(salt);  // a request that is sent twice has another key the second time
  if (object.length == 0) {
    mark_moved(context, token, call::Direction::out, 0, delivered);
    mark_sealed(context, token, salt);
    co_return TokenOutcome::done;
  }
  // An object that does not fit is never truncated.
  if (const auto why = too_small(token, object.length)) {
    mark_declined(context, token, call::Direction::out, *why);
    co_return TokenOutcome::declined;
  }
  const Deadline post_until = last_post(context);  // opening may wait for the peer's network
  auto window = co_await open_window(context, token, fabric::Access::server_writes);
  if (!window && window.error() == Errc::invalid_rdma_token) co_return std::unexpected(window.error());
  if (!window) {
    // The window cannot be served, or no data endpoint is free: falls back to the body.
    mark_declined(context, token, call::Direction::out, window.error().context);
    co_return TokenOutcome::declined;
  }

  rdma::WindowSink into_window(std::move(*window), operation_deadline(context));
  into_window.post_until(post_until);
  std::optional<rdma::SealedSink> sealed;
  if (token.seal) {
    fabric::sealed::Transfer transfer(*token.seal, salt, fabric::sealed::Direction::to_client, window_of(token),
                                      object.length);
    sealed.emplace(into_window, std::move(transfer), context.service.arena, context.caller().peer_address);
    VB_CO_TRY(co_await sealed->reserve());
  }
  std::optional<DigestedSink> digested;  // sealing changes the bytes in their place
  if (sealed) digested.emplace(*sealed, delivered);
  if (!sealed) into_window.digest_with([&delivered](Bytes bytes) { delivered.update(bytes); });
  WatchedSink sink(digested ? static_cast<memory::Sink&>(*digested) : into_window);
  auto pushed = co_await send_object(context.service, object, sink, context.caller().trace);
  if (pushed) {
    mark_moved(context, token, call::Direction::out, object.length, delivered);
    mark_sealed(context, token, salt);
    co_return TokenOutcome::done;
  }
  if (!sink.failed()) {
    // The store failed in the middle: posted writes must complete before the client gets the error.
    if (sink.begun()) (void)co_await into_window.finish();
    co_return std::unexpected(pushed.error());
  }
  // The posted writes are drained (by WindowSink, unless sealing failed before it), so the body may follow.
  if (sealed) (void)co_await into_window.drained();
  context.reply_header("x-amz-rdma-reply", "501");
  context.reply_header("x-verbena-rdma-declined", "token: the transfer failed");
  call::count_fallback();
  rdma::count_failed(token.form);
  co_return TokenOutcome::declined;
}

Task<Result<TokenPut>> put_by_token(Context& context, const rdma::Token& token, PutRequest put) {
  UploadPartRequest whole;
  whole.put = std::move(put);
  co_return co_await store_by_token(context, token, std::move(whole));
}

Task<Result<TokenPut>> upload_part_by_token(Context& context, const rdma::Token& token, UploadPartRequest part) {
  co_return co_await store_by_token(context, token, std::move(part));
}

}  // namespace verbena::s3
