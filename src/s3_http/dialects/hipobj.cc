// hipobj-rc-v2: PREPARE, READY, CANCEL. Sources: hipObject's and elbencho's test servers, Ceph's rgw_rest_rdma_rc.cc.
#include <algorithm>
#include <array>
#include <cerrno>

#include "call/door_metrics.h"
#include "rdma/rc/staging_source.h"
#include "rdma/token_windows.h"
#include "s3/access/authorize.h"
#include "s3_http/address.h"
#include "s3_http/delivered.h"
#include "s3_http/dialects/routes.h"
#include "s3_http/error_response.h"
#include "s3_http/token.h"

namespace verbena::s3 {
namespace {

using rdma::rc::SessionPtr;

constexpr uint64_t transfer_size_max = 0x7fffffff;  // of the dialect
constexpr std::chrono::milliseconds transfer_time{30'000}, operation_time{10'000};

// The request of S3 that a session's transfer is.
struct TransferRequest {
  std::string path, query;
  Headers headers;
};

Result<void> check_target_query(std::string_view raw, bool put) {
  VB_ASSIGN(const Query query, Query::parse(raw));
  for (const auto& [name, value] : query.items()) {
    if (name == "versionId" && !put) continue;
    if ((name == "partNumber" || name == "uploadId") && put) continue;
    return fail(Errc::invalid_argument, "x-amz-rdma-target must name an object, a version or a part.");
  }
  return {};
}

// Headers about the object count, as of a GET or PUT; those about this request's empty body, and a copy's, do not.
bool is_of_transfer(std::string_view name) {
  constexpr auto own = std::to_array<std::string_view>({"content-length", "content-md5", "transfer-encoding", "expect",
                                                        "range", "x-amz-trailer", "x-amz-sdk-checksum-algorithm",
                                                        "x-amz-decoded-content-length"});
  if (name.starts_with("x-amz-rdma-") || name.starts_with("x-amz-copy-source")) return false;
  return std::ranges::find(own, name) == own.end();
}

TransferRequest transfer_request(const Context& context, const rdma::rc::SessionRequest& asked) {
  TransferRequest request;
  const size_t mark = std::min(asked.target.find('?'), asked.target.size());
  request.path = asked.target.substr(0, mark);
  request.query = asked.target.substr(std::min(mark + 1, asked.target.size()));
  for (const auto& header : context.request.headers) {
    if (is_of_transfer(header.first)) request.headers.push_back(header);
  }
  if (!asked.put) {
    const uint64_t last = asked.offset + asked.size - 1;
    request.headers.emplace_back("range", "bytes=" + std::to_string(asked.offset) + "-" + std::to_string(last));
  }
  return request;
}

bool has_header(const Headers& headers, std::string_view name) {
  return std::ranges::any_of(headers, [&](const auto& header) { return header.first == name; });
}

// The checksum that READY's answer tells is that of the object, as far as there is one of it: then it is not computed
// besides. Of a whole object that is stored without any there will be.
void ask_for_checksum(TransferRequest& request, const rdma::rc::SessionRequest& asked, Delivered& delivered) {
  if (!asked.put) {
    if (!has_header(request.headers, "x-amz-checksum-mode")) {
      request.headers.emplace_back("x-amz-checksum-mode", "ENABLED");
    }
    return;
  }
  const auto is_checksum = [](const auto& header) { return header.first.starts_with(checksum_header_prefix); };
  if (request.query.empty() && std::ranges::none_of(request.headers, is_checksum)) {
    request.headers.emplace_back("x-amz-checksum-algorithm", to_string(delivered.algorithm()));
    delivered.leave();
  } else if (has_header(request.headers, delivered.s3_header())) {
    delivered.leave();
  }
}

// Serves it as any other request of the caller, and takes over its names for logs.
Task<bool> serve_transfer(const DialectCall& call, const TransferRequest& of, std::string_view method,
                          memory::Source& body, memory::Sink& sink) {
  Context& context = call.context;
  Request request{context.call};
  request.method = method;
  request.host = context.request.host;
  request.raw_path = of.path;
  request.raw_query = of.query;
  request.headers = of.headers;
  request.content_length = body.size();
  const call::Facts facts = std::exchange(context.call.facts, {.http = true, .headers = of.headers});
  context.call.facts.arrived_us = facts.arrived_us;
  context.call.door = Door::token;  // its payload is outside of TLS
  Context inner{.service = context.service,
                .windows = nullptr,
                .options = context.options,
                .request = request,
                .call = context.call,
                .trailing = context.trailing,
                .body = body,
                .response = context.response,
                .sink = WatchedSink(sink)};
  const bool whole = co_await call.serve(inner);
  context.bucket = std::move(inner.bucket);
  context.key = std::move(inner.key);
  context.call.facts = facts;
  co_return whole;
}

class EmptyBody final : public memory::Source {
 public:
  std::optional<uint64_t> size() const override { return 0; }
  Task<Result<size_t>> read(MutableBytes) override { co_return size_t{0}; }
};

class NoAnswer final : public memory::Sink {
 public:
  Task<Result<void>> begin(uint64_t) override { co_return fail(Errc::internal, "hipobj: no body is expected"); }
  Task<Result<void>> push(memory::Chunk) override { co_return fail(Errc::internal, "hipobj: no body is expected"); }
  Task<Result<void>> finish() override { co_return fail(Errc::internal, "hipobj: no body is expected"); }
};

std::string header_of(const Response& response, std::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return std::string(value);
  }
  return {};
}

// Into the client's memory; the last write carries the cookie.
class CookieSink final : public memory::Sink {
 public:
  // `answer`: of the GET.
  CookieSink(std::unique_ptr<rdma::rc::RcWindow> window, uint32_t cookie, const Response& answer, Delivered& delivered)
      : window_(*window),
        inner_(std::move(window), operation_time),
        cookie_(cookie),
        answer_(answer),
        delivered_(delivered) {
    inner_.post_until(deadline_in(transfer_time - operation_time));
    inner_.digest_with([&delivered](Bytes bytes) { delivered.update(bytes); });
  }
  Task<Result<void>> begin(uint64_t length) override {
    if (length == 0) co_return fail(Errc::invalid_range, "hipobj: an empty object is read over HTTP");
    window_.announce_end(length, cookie_);
    bytes_ = length;
    delivered_.know(header_of(answer_, delivered_.s3_header()));
    co_return note(co_await inner_.begin(length));
  }
  Task<Result<void>> push(memory::Chunk chunk) override { co_return note(co_await inner_.push(std::move(chunk))); }
  Task<Result<void>> drained() override { co_return note(co_await inner_.drained()); }
  Task<Result<void>> finish() override {
    auto done = note(co_await inner_.finish());
    finished_ = done.has_value();
    co_return done;
  }
  bool finished() const { return finished_; }
  uint64_t bytes() const { return bytes_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  Result<void> note(Result<void> done) {
    // Its clients know a time that is over by 408.
    if (!done && done.error() == Errc::timed_out) {
      done = fail(Errc::rdma_transfer_failed, "hipobj: time to post is over", ETIMEDOUT);
    }
    if (!done && !error_) error_ = done.error();
    return done;
  }

  rdma::rc::RcWindow& window_;
  rdma::WindowSink inner_;
  uint32_t cookie_;
  const Response& answer_;
  Delivered& delivered_;
  uint64_t bytes_ = 0;
  bool finished_ = false;
  std::optional<Error> error_;
};

class DeliveredSource final : public memory::Source, public memory::GivesChunk {
 public:
  DeliveredSource(rdma::rc::StagingSource& inner, Delivered& delivered) : inner_(inner), delivered_(delivered) {}
  std::optional<uint64_t> size() const override { return inner_.size(); }
  Task<Result<void>> ready() override { co_return note(co_await inner_.ready()); }
  Task<Result<size_t>> read(MutableBytes into) override {
    auto n = co_await inner_.read(into);
    if (n) delivered_.update(into.first(*n));
    if (!n && !error_) error_ = n.error();
    co_return n;
  }
  std::optional<memory::Chunk> give_all() override {
    auto chunk = inner_.give_all();
    if (chunk) delivered_.update(chunk->bytes);
    return chunk;
  }
  uint64_t arrived() const override { return inner_.arrived(); }
  const std::optional<Error>& error() const { return error_; }

 private:
  Result<void> note(Result<void> done) {
    if (!done && !error_) error_ = done.error();
    return done;
  }

  rdma::rc::StagingSource& inner_;
  Delivered& delivered_;
  std::optional<Error> error_;
};

// Forgets a session that READY has claimed.
struct SessionEnd {
  rdma::rc::Sessions& sessions;
  SessionPtr session;
  SessionEnd(rdma::rc::Sessions& of, SessionPtr one) : sessions(of), session(std::move(one)) {}
  SessionEnd(const SessionEnd&) = delete;
  ~SessionEnd() { sessions.end(std::move(session)); }
};

Result<rdma::rc::SessionRequest> read_prepare(const Context& context) {
  rdma::rc::SessionRequest asked;
  const std::string_view op = context.request.header("x-amz-rdma-op").value_or("");
  if (op != "GET" && op != "PUT") return fail(Errc::invalid_argument, "x-amz-rdma-op must be GET or PUT.");
  asked.put = op == "PUT";
  const auto peer = rdma::rc::parse_peer_token(context.request.header("x-amz-rdma-token").value_or(""));
  if (!peer) return fail(Errc::invalid_argument, "x-amz-rdma-token must be a queue pair's, of a reliable connection.");
  asked.peer = *peer;
  VB_ASSIGN(asked.client_sequence, sequence_field(context));
  VB_ASSIGN(const uint64_t cookie, hex_field(context, "x-amz-rdma-cookie", 8, "x-amz-rdma-cookie: 8 hex digits."));
  asked.cookie = static_cast<uint32_t>(cookie);
  VB_ASSIGN(asked.size, decimal_field(context, "x-amz-rdma-size", "x-amz-rdma-size must be a number of bytes."));
  if (asked.size == 0) return fail(Errc::invalid_argument, "x-amz-rdma-size must not be 0.");
  if (asked.size > transfer_size_max) return fail(Errc::too_large, "x-amz-rdma-size");
  if (context.request.header("x-amz-rdma-offset")) {
    VB_ASSIGN(asked.offset,
              decimal_field(context, "x-amz-rdma-offset", "x-amz-rdma-offset must be a number of bytes."));
    if (asked.put && asked.offset != 0) return fail(Errc::invalid_argument, "x-amz-rdma-offset is for GET.");
    if (asked.offset > store::object_size_max) return fail(Errc::invalid_range, "x-amz-rdma-offset");
  }
  asked.target = context.request.header("x-amz-rdma-target").value_or("");
  const size_t mark = std::min(asked.target.find('?'), asked.target.size());
  if (!asked.target.starts_with('/') || asked.target.starts_with("/.")) {
    return fail(Errc::invalid_argument, "x-amz-rdma-target must be the path of an object.");
  }
  VB_TRY(check_target_query(std::string_view(asked.target).substr(std::min(mark + 1, asked.target.size())), asked.put));
  asked.owner = token_owner(context.caller());
  asked.payer = payer_of(context.caller());
  return asked;
}

Result<Address> target_object(const Context& context, const rdma::rc::SessionRequest& asked) {
  const std::string_view path = std::string_view(asked.target).substr(0, asked.target.find('?'));
  VB_ASSIGN(Address address, resolve_address(context.request.host, path, context.options.domain));
  if (address.key.empty()) return fail(Errc::invalid_argument, "x-amz-rdma-target must be the path of an object.");
  return address;
}

// Memory is pinned only for a caller who could store there; the PUT itself decides.
Task<Result<void>> could_put(Context& context, const Address& address) {
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, address.bucket));
  const Asked wanted{.action = action::put_object, .key = address.key};
  co_return could_authorize(context.service, context.caller(), *access, wanted);
}

// A HEAD: so that a client learns at once that it may not read, or that there is nothing.
Task<bool> could_get(const DialectCall& call, const rdma::rc::SessionRequest& asked) {
  const TransferRequest head = transfer_request(call.context, asked);
  EmptyBody body;
  NoAnswer sink;
  (void)co_await serve_transfer(call, head, "HEAD", body, sink);
  Context& context = call.context;
  if (context.response.status >= 300) co_return false;
  context.response = Response();
  add_request_ids(context.response, context.caller().request_id);
  co_return true;
}

void answer_prepared(Context& context, const rdma::rc::Session& session) {
  rdma::rc::PeerToken own;
  own.queue_pair = session.pair->number();
  own.gid = session.own_gid;
  if (session.asked.put) {
    own.address = reinterpret_cast<uintptr_t>(session.staging.bytes().data());
    own.key = session.staging.region()->remote_key();
    own.length = session.asked.size;
  }
  const std::string token = rdma::rc::format_peer_token(own);
  context.reply_header("x-amz-rdma-reply", "200:" + token);
  context.reply_header("x-amz-rdma-token", token);
  context.reply_header("x-amz-rdma-session", session.id);
  context.reply_header("x-amz-rdma-psn", hex_text(session.own_sequence, 6));
  context.reply_header("x-amz-rdma-qpn", hex_text(own.queue_pair, 1));
  if (!session.asked.put) return;
  context.reply_header("x-amz-rdma-mr-addr", hex_text(own.address, 1));
  context.reply_header("x-amz-rdma-mr-rkey", hex_text(own.key, 1));
}

void answer_moved(Context& context, const rdma::rc::SessionRequest& asked, uint64_t bytes, Delivered& delivered) {
  context.response.status = 200;
  context.reply_header("x-amz-rdma-reply", "200");
  context.reply_header("x-amz-rdma-bytes-transferred", std::to_string(bytes));
  context.reply_header("x-amz-rdma-cookie", hex_text(asked.cookie, 8));
  if (const auto etag = header_of(context.response, "etag"); etag.size() > 2) {
    context.reply_header("x-amz-rdma-etag", etag.substr(1, etag.size() - 2));
  }
  if (const auto version = header_of(context.response, "x-amz-version-id"); !version.empty()) {
    context.reply_header("x-amz-rdma-version-id", version);
  }
  delivered.tell(context);
  delivered.tell_hipobj(context);
  call::Outcome& outcome = context.call.outcome;
  outcome.by_token = true;
  outcome.token_bytes = bytes;
  outcome.transport = rdma::Transport::rdma;
  (asked.put ? outcome.in : outcome.out) = bytes;
  rdma::count_moved(rdma::TokenForm::hipobj);
}

struct ClientEnd {
  uint32_t queue_pair = 0;
  rdma::rc::RcWindow::Place memory;
};

Result<ClientEnd> read_ready(const Context& context) {
  ClientEnd client;
  VB_ASSIGN(const uint64_t number, hex_field(context, "x-amz-rdma-qpn", 8, "x-amz-rdma-qpn must be a queue pair."));
  if (number == 0 || number > rdma::rc::number_max) {
    return fail(Errc::invalid_argument, "x-amz-rdma-qpn must be a queue pair.");
  }
  client.queue_pair = static_cast<uint32_t>(number);
  if (context.request.header("x-amz-rdma-mr-addr")) {
    VB_ASSIGN(client.memory.address, hex_field(context, "x-amz-rdma-mr-addr", 16, "x-amz-rdma-mr-addr"));
  }
  if (context.request.header("x-amz-rdma-mr-rkey")) {
    VB_ASSIGN(const uint64_t key, hex_field(context, "x-amz-rdma-mr-rkey", 8, "x-amz-rdma-mr-rkey"));
    client.memory.key = static_cast<uint32_t>(key);
  }
  return client;
}

// Over the session's queue pair, which ends in the pool: the device may take long.
std::shared_ptr<rdma::rc::Channel> channel_of(DialectCall call, rdma::rc::Session& session) {
  auto give_back = [&endpoint = *call.connections.endpoint](std::unique_ptr<rdma::rc::QueuePair> pair) {
    if (pair != nullptr) endpoint.discard(std::shared_ptr<rdma::rc::QueuePair>(std::move(pair)));
  };
  return call.connections.endpoint->channel(std::move(session.pair), std::move(give_back));
}

Task<Result<bool>> transfer_get(DialectCall call, SessionPtr session, rdma::rc::RcWindow::Place to) {
  Context& context = call.context;
  const rdma::rc::SessionRequest& asked = session->asked;
  to.size = asked.size;
  auto channel = channel_of(call, *session);
  auto window = std::make_unique<rdma::rc::RcWindow>(channel, call.connections.endpoint->own_memory(), to);
  Delivered delivered(context);
  CookieSink sink(std::move(window), asked.cookie, context.response, delivered);
  EmptyBody body;
  TransferRequest request = transfer_request(context, asked);
  ask_for_checksum(request, asked, delivered);
  const bool whole = co_await serve_transfer(call, request, "GET", body, sink);
  if (sink.error()) {
    channel->stop();
    const Error& error = *sink.error();
    if (error.code == Errc::rdma_transfer_failed) {
      call::count_failure();
      rdma::count_failed(rdma::TokenForm::hipobj);
    }
    co_return std::unexpected(error);
  }
  if (!whole) {  // the store failed in the middle
    channel->stop();
    (void)co_await sink.drained();  // of writes that were posted nothing lands after the answer
    co_return fail(Errc::internal, "hipobj: the object could not be read");
  }
  if (!sink.finished()) {
    if (context.response.status < 300) co_return fail(Errc::internal, "hipobj: an answer without bytes of an object");
    co_return false;
  }
  answer_moved(context, asked, sink.bytes(), delivered);
  co_return true;
}

Task<Result<bool>> transfer_put(DialectCall call, SessionPtr session) {
  Context& context = call.context;
  const rdma::rc::SessionRequest& asked = session->asked;
  auto channel = channel_of(call, *session);
  Delivered delivered(context);
  rdma::rc::StagingSource staged(*call.connections.endpoint, session, channel, deadline_in(transfer_time));
  DeliveredSource body(staged, delivered);
  NoAnswer sink;
  TransferRequest request = transfer_request(context, asked);
  ask_for_checksum(request, asked, delivered);
  (void)co_await serve_transfer(call, request, "PUT", body, sink);
  channel->stop();
  if (body.error()) {
    call::count_failure();
    rdma::count_failed(rdma::TokenForm::hipobj);
    co_return std::unexpected(*body.error());
  }
  if (context.response.status >= 300) co_return false;
  delivered.know(header_of(context.response, delivered.s3_header()));
  answer_moved(context, asked, asked.size, delivered);
  co_return true;
}

}  // namespace

Task<Result<bool>> hipobj_prepare(DialectCall call) {
  Context& context = call.context;
  VB_CO_ASSIGN(rdma::rc::SessionRequest asked, read_prepare(context));
  VB_CO_TRY(co_await call.connections.endpoint->open());
  VB_CO_ASSIGN(const Address address, target_object(context, asked));
  if (asked.put) {
    VB_CO_TRY(co_await could_put(context, address));
  } else if (!co_await could_get(call, asked)) {
    co_return false;
  }
  VB_CO_ASSIGN(const SessionPtr session, co_await call.connections.sessions.prepare(std::move(asked)));
  answer_prepared(context, *session);
  co_return true;
}

Task<Result<bool>> hipobj_ready(DialectCall call) {
  Context& context = call.context;
  rdma::rc::Sessions& sessions = call.connections.sessions;
  VB_CO_ASSIGN(const std::string_view id, session_field(context));
  VB_CO_ASSIGN(const uint64_t cookie, hex_field(context, "x-amz-rdma-cookie", 8, "x-amz-rdma-cookie: 8 hex digits."));
  VB_CO_ASSIGN(const ClientEnd client, read_ready(context));
  VB_CO_ASSIGN(const SessionPtr session,
               sessions.claim(id, token_owner(context.caller()), static_cast<uint32_t>(cookie)));
  const SessionEnd end(sessions, session);
  const bool put = session->asked.put;
  if (!put && (client.memory.address == 0 || client.memory.key == 0)) {
    co_return fail(Errc::invalid_argument, "x-amz-rdma-mr-addr and x-amz-rdma-mr-rkey must name the client's memory.");
  }
  VB_CO_TRY(co_await sessions.connect(session, client.queue_pair));
  if (put) co_return co_await transfer_put(call, session);
  co_return co_await transfer_get(call, session, client.memory);
}

Result<bool> hipobj_cancel(DialectCall call) {
  VB_ASSIGN(const std::string_view id, session_field(call.context));
  VB_TRY(call.connections.sessions.cancel(id, token_owner(call.context.caller())));
  reply_no_content(call.context);
  return true;
}

}  // namespace verbena::s3
