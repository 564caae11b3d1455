#include "net/http_client.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <cstring>

#include "base/copy.h"
#include "base/text.h"
#include "net/stream.h"
#include "net/tls.h"

namespace verbena::net {
namespace asio = boost::asio;
namespace bhttp = boost::beast::http;

namespace {

constexpr size_t read_bytes = 16 * KiB;  // at a time, where a body does not go straight into memory
constexpr size_t field_bytes_max = 60 * KiB;
constexpr int interim_replies_max = 8;
constexpr size_t addresses_tried_max = 4;  // of those that are found in time

using Message = bhttp::request<bhttp::span_body<const std::byte>>;
using Serializer = bhttp::request_serializer<bhttp::span_body<const std::byte>>;
using Parser = bhttp::response_parser<bhttp::buffer_body>;

std::unexpected<Error> failed(const error_code& ec) {
  using bhttp::error;
  if (ec == error::end_of_stream || ec == error::partial_message) {
    return fail(Errc::closed, "http client: the reply is cut off");
  }
  if (ec == error::header_limit || ec == error::buffer_overflow) {
    return fail(Errc::too_large, "http client: reply header too large");
  }
  if (ec.category() == make_error_code(error::end_of_stream).category()) {
    return fail(Errc::malformed, "http client: malformed reply");
  }
  return std::unexpected(stream_error(ec));
}

HttpReply reply_of(Parser& parser) {
  HttpReply reply;
  reply.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    const std::string_view name(field.name_string().data(), field.name_string().size());
    reply.headers.emplace_back(lower(name), std::string(field.value().data(), field.value().size()));
  }
  if (auto length = parser.content_length()) reply.content_length = *length;
  return reply;
}

bool has_crlf(std::string_view text) { return text.find_first_of(std::string_view("\r\n\0", 3)) != text.npos; }

}  // namespace

std::optional<std::string_view> HttpReply::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return std::nullopt;
}

struct HttpClient::Network {
  asio::io_context io;
  std::optional<asio::ssl::context> tls;  // none: plain
  std::vector<std::string> thumbprints;
};

// One connection and the bytes that were read past the current reply.
struct HttpClient::Connection {
  Connection(std::unique_ptr<Stream> made, size_t head_max)
      : stream(std::move(made)), head_bytes_max(head_max), buffer(std::max(head_max, read_bytes) + 1 * KiB) {
    buffer.reserve(read_bytes);
  }

  std::unique_ptr<Stream> stream;
  const size_t head_bytes_max;
  boost::beast::flat_buffer buffer;
  bool reused = false;

  Bytes unread() const { return {static_cast<const std::byte*>(buffer.data().data()), buffer.size()}; }
  // Bytes have arrived, or the peer has closed, while the connection was idle: it is then of no use, and a request in
  // the middle of its body has been answered early.
  bool has_input() {
    if (buffer.size() > 0) return true;
    error_code ec;
    buffer.commit(stream->read_now(buffer.prepare(1), ec));
    return ec != asio::error::timed_out;
  }

  // answered_early: the server answered before the whole request went out.
  enum class Sent : uint8_t { whole, answered_early };
  Result<Sent> send(const Message& message);
  Result<void> read_head(Parser& parser);
  Result<void> read_known_body(uint64_t length, const HttpRequest& request, HttpReply& reply);
  Result<void> read_framed_body(Parser& parser, const HttpRequest& request, HttpReply& reply);
  Result<HttpReply> exchange(const Message& message, const HttpRequest& request, bool& keep, bool& answered);
};

// A small request goes out in one piece.
Result<HttpClient::Connection::Sent> HttpClient::Connection::send(const Message& message) {
  Serializer serializer(message);
  error_code ec;
  Bytes body(message.body().data(), message.body().size());
  if (body.size() <= 16 * KiB) {
    bhttp::write(*stream, serializer, ec);
    body = {};
  } else {
    bhttp::write_header(*stream, serializer, ec);
  }
  while (!ec && !body.empty()) {
    if (has_input()) return Sent::answered_early;
    body = body.subspan(stream->write_some(asio::buffer(body.data(), std::min<size_t>(body.size(), MiB)), ec));
  }
  if (ec) return failed(ec);
  return Sent::whole;
}

Result<void> HttpClient::Connection::read_head(Parser& parser) {
  error_code ec;
  bhttp::read_header(*stream, buffer, parser, ec);
  if (ec) return failed(ec);
  return {};
}

namespace {

// Where a reply's body goes: the caller's memory, or the reply itself.
class BodySink {
 public:
  BodySink(const HttpRequest& request, HttpReply& reply) : request_(request), reply_(reply) {
    wanted_ = reply.status / 100 == 2;
  }
  Result<void> take(Bytes bytes) {
    if (wanted_ && request_.into) {
      if (bytes.size() > request_.into->size() - reply_.body_bytes) {
        return fail(Errc::too_large, "http client: the reply does not fit the buffer");
      }
      copy_bytes(request_.into->data() + reply_.body_bytes, bytes);
    } else {
      if (bytes.size() > request_.collected_body_max - reply_.body.size()) {
        return fail(Errc::too_large, "http client: reply too large");
      }
      reply_.body.append(as_text(bytes));
    }
    reply_.body_bytes += bytes.size();
    return {};
  }
  // A body of that length comes: refused at once where it cannot fit.
  Result<void> expect(uint64_t length) const {
    if (!wanted_ || !request_.into || length <= request_.into->size()) return {};
    return fail(Errc::too_large, "http client: the reply does not fit the buffer");
  }
  // Room to receive into without a copy; empty when there is none.
  MutableBytes room() const {
    return wanted_ && request_.into ? request_.into->subspan(reply_.body_bytes) : MutableBytes();
  }
  void received(size_t n) { reply_.body_bytes += n; }

 private:
  const HttpRequest& request_;
  HttpReply& reply_;
  bool wanted_ = false;
};

}  // namespace

// Into the caller's memory without a copy, but for what came with the head.
Result<void> HttpClient::Connection::read_known_body(uint64_t length, const HttpRequest& request, HttpReply& reply) {
  BodySink sink(request, reply);
  VB_TRY(sink.expect(length));
  for (uint64_t left = length; left > 0;) {
    error_code ec;
    if (const Bytes here = unread().first(std::min<uint64_t>(left, buffer.size())); !here.empty()) {
      VB_TRY(sink.take(here));
      left -= here.size();
      buffer.consume(here.size());
    } else if (const MutableBytes room = sink.room(); !room.empty()) {
      const size_t n = stream->read_some(asio::buffer(room.data(), std::min<uint64_t>(left, room.size())), ec);
      sink.received(n);
      left -= n;
    } else {
      buffer.commit(stream->read_some(buffer.prepare(read_bytes), ec));
    }
    if (ec) return failed(ec);
  }
  return {};
}

// Chunked, or until the connection ends: Beast takes the framing off.
Result<void> HttpClient::Connection::read_framed_body(Parser& parser, const HttpRequest& request, HttpReply& reply) {
  BodySink sink(request, reply);
  std::vector<std::byte> piece(read_bytes);
  while (!parser.is_done()) {
    auto& body = parser.get().body();
    body.data = piece.data();
    body.size = piece.size();
    body.more = true;
    error_code ec;
    bhttp::read_some(*stream, buffer, parser, ec);
    if (ec && ec != bhttp::error::need_buffer) return failed(ec);
    VB_TRY(sink.take(Bytes(piece).first(piece.size() - body.size)));
  }
  return {};
}

Result<HttpReply> HttpClient::Connection::exchange(const Message& message, const HttpRequest& request, bool& keep,
                                                   bool& answered) {
  keep = answered = false;
  auto sent = send(message);
  // A server that refuses early may close before the whole body went out: its reply says why, so look for it.
  if (!sent && sent.error().code != Errc::connection_failed) return std::unexpected(sent.error());

  std::optional<Parser> parser;
  for (int i = 0;; ++i) {
    parser.emplace();
    parser->header_limit(static_cast<uint32_t>(head_bytes_max));
    parser->body_limit(boost::none);
    if (request.method == "HEAD") parser->skip(true);
    const auto head = read_head(*parser);
    answered = answered || parser->got_some();
    if (!head) return sent ? std::unexpected(head.error()) : fail(Errc::closed, sent.error().context, sent.error().sys);
    if (parser->get().result_int() >= 200) break;
    if (i == interim_replies_max) return fail(Errc::malformed, "http client: too many interim replies");
  }
  HttpReply reply = reply_of(*parser);
  const bool bodyless = request.method == "HEAD" || reply.status == 204 || reply.status == 304;
  const bool framed = parser->chunked() || !reply.content_length;
  Result<void> read;
  if (!bodyless && framed) read = read_framed_body(*parser, request, reply);
  if (!bodyless && !framed) read = read_known_body(*reply.content_length, request, reply);
  if (!read && !request.status_suffices) return std::unexpected(read.error());
  const bool ends = read && (bodyless || parser->chunked() || !framed);
  keep = sent && *sent == Sent::whole && ends && parser->get().keep_alive() && buffer.size() == 0;
  return reply;
}

namespace {

bool sayable(std::string_view text) { return !has_crlf(text) && text.size() <= field_bytes_max; }

Result<Message> message_of(const HttpRequest& request, const std::string& host) {
  if (!sayable(request.method) || !sayable(request.target)) {
    return fail(Errc::invalid_argument, "http client: line break in the request line");
  }
  Message message;
  message.method_string(request.method);
  message.target(request.target);
  for (const auto& [name, value] : request.headers) {
    if (!sayable(name) || !sayable(value)) {
      return fail(Errc::invalid_argument, "http client: a header with a line break, or too long");
    }
    message.insert(name, value);
  }
  if (message.find(bhttp::field::host) == message.end()) message.insert("host", host);
  if (message.find(bhttp::field::user_agent) == message.end()) message.insert("user-agent", client_name);
  message.erase(bhttp::field::content_length);
  const bool may_be_bare = request.method == "GET" || request.method == "HEAD" || request.method == "DELETE";
  if (!request.body.empty() || !may_be_bare) message.insert("content-length", std::to_string(request.body.size()));
  message.body() = {request.body.data(), request.body.size()};
  return message;
}

}  // namespace

Result<std::unique_ptr<HttpClient>> HttpClient::create(HttpOptions options) try {
  auto network = std::make_unique<Network>();
  if (options.tls) {
    VB_ASSIGN(network->tls, make_client_tls({options.ca_file, options.system_too, options.insecure}));
    network->thumbprints = options.thumbprints;
    if (!network->thumbprints.empty()) trust_thumbprints(network->tls->native_handle(), network->thumbprints);
  }
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(options), std::move(network)));
} catch (const boost::system::system_error& e) {  // no descriptor for an event queue, no memory for TLS
  return fail(Errc::out_of_memory, "http client: cannot be set up", e.code().value());
}

HttpClient::HttpClient(HttpOptions options, std::unique_ptr<Network> network)
    : options_(std::move(options)), network_(std::move(network)) {
  const bool v6 = options_.host.find(':') != std::string::npos;
  host_header_ = v6 ? "[" + options_.host + "]" : options_.host;
  if (options_.port != (options_.tls ? 443 : 80)) host_header_ += ":" + std::to_string(options_.port);
}

HttpClient::~HttpClient() = default;

std::string HttpClient::peer_address() const {
  std::lock_guard lock(mutex_);
  return peer_address_;
}

std::string HttpClient::local_address() const {
  std::lock_guard lock(mutex_);
  return local_address_;
}

Result<void> HttpClient::warm_up() {
  VB_ASSIGN(auto connection, take(false, deadline_in(options_.connect_timeout), {}));
  give_back(std::move(connection));
  return {};
}

Result<std::unique_ptr<HttpClient::Connection>> HttpClient::take(bool fresh, Deadline deadline, const Stop& stop) {
  while (!fresh) {
    std::unique_ptr<Connection> kept;
    {
      std::lock_guard lock(mutex_);
      if (idle_.empty()) break;
      kept = std::move(idle_.back());
      idle_.pop_back();
    }
    if (kept->has_input()) continue;  // closed by the server while idle
    kept->reused = true;
    return kept;
  }
  auto opened = open(deadline, stop);
  // However it failed, nothing of a request has been sent.
  if (!opened && opened.error() != Errc::cancelled && opened.error() != Errc::access_denied) {
    return fail(Errc::connection_failed, opened.error().context, opened.error().sys);
  }
  return opened;
}

Result<std::unique_ptr<HttpClient::Connection>> HttpClient::open(Deadline deadline, const Stop& stop) {
  VB_ASSIGN(auto addresses, find_addresses(options_.host, options_.port, options_.allowed, deadline, stop));
  addresses.resize(std::min(addresses.size(), addresses_tried_max));
  VB_ASSIGN(auto stream, Stream::connect(network_->io, addresses, deadline, stop));
  if (network_->tls) VB_TRY(stream->start_tls(*network_->tls, options_.host, !options_.insecure));
  auto connection = std::make_unique<Connection>(std::move(stream), options_.head_bytes_max);
  std::lock_guard lock(mutex_);
  peer_address_ = connection->stream->peer_address();
  local_address_ = connection->stream->local_address();
  return connection;
}

void HttpClient::give_back(std::unique_ptr<Connection> connection) {
  connection->stream->stop_with({});  // these were that request's
  connection->stream->run_meanwhile(nullptr);
  std::lock_guard lock(mutex_);
  if (idle_.size() < options_.idle_connections_max) idle_.push_back(std::move(connection));
}

Result<HttpReply> HttpClient::request(const HttpRequest& request) {
  VB_ASSIGN(const Message message, message_of(request, host_header_));
  for (bool fresh = false;; fresh = true) {
    Deadline connect_by = deadline_in(options_.connect_timeout);
    if (request.deadline) connect_by = std::min(connect_by, *request.deadline);
    auto taken = take(fresh, connect_by, request.stop);
    // What broke off on a kept connection may have arrived.
    if (!taken && fresh && request.changes() && taken.error() == Errc::connection_failed) {
      return fail(Errc::closed, taken.error().context, taken.error().sys);
    }
    if (!taken) return std::unexpected(std::move(taken).error());
    auto connection = std::move(*taken);
    connection->stream->limit(options_.stall_timeout, request.deadline.value_or(Deadline::max()));
    connection->stream->stop_with(request.stop);
    connection->stream->run_meanwhile(request.meanwhile);
    if (request.before_sending) VB_TRY(request.before_sending());
    bool keep = false, answered = false;
    auto reply = connection->exchange(message, request, keep, answered);
    if (reply) {
      reply->repeated = fresh;
      if (keep) give_back(std::move(connection));
      return reply;
    }
    const bool broke = reply.error().code == Errc::closed || reply.error().code == Errc::connection_failed;
    if (broke && connection->reused && !answered && request.replayable && !fresh) continue;
    // After sending began, a broken connection is never "nothing was sent".
    if (reply.error().code == Errc::connection_failed) {
      return fail(Errc::closed, reply.error().context, reply.error().sys);
    }
    return reply;
  }
}

}  // namespace verbena::net
