#include "client/http_client.h"

#include <boost/beast/http.hpp>

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace verbena::client {
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;

namespace {

constexpr size_t header_bytes_max = 64 * KiB;
constexpr size_t buffer_bytes = 64 * KiB;
constexpr int interim_replies_max = 8;

using Parser = bhttp::response_parser<bhttp::buffer_body>;

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

// One connection and the bytes that were read past the current reply.
struct HttpClient::Connection {
  std::unique_ptr<HttpSocket> socket;
  std::vector<std::byte> buffer = std::vector<std::byte>(buffer_bytes);
  size_t begin = 0, end = 0;
  bool reused = false;
  bool answered = false;  // a byte of this request's reply has arrived
  std::chrono::milliseconds stall{};
  std::optional<Deadline> whole;

  Deadline deadline() const {
    const Deadline stalled = deadline_in(stall);
    return whole ? std::min(*whole, stalled) : stalled;
  }
  Bytes unread() const { return Bytes(buffer).subspan(begin, end - begin); }

  Result<size_t> fill() {
    if (begin > 0 && begin == end) begin = end = 0;
    if (end == buffer.size()) {
      if (begin == 0) return fail(Errc::too_large, "http client: reply header too large");
      std::memmove(buffer.data(), buffer.data() + begin, end - begin);
      end -= begin;
      begin = 0;
    }
    VB_ASSIGN(const size_t n, socket->read_some(MutableBytes(buffer).subspan(end), deadline()));
    end += n;
    answered = true;
    return n;
  }

  Result<void> write_all(Bytes bytes) {
    while (!bytes.empty()) {
      VB_ASSIGN(const size_t n, socket->write_some(bytes, deadline()));
      bytes = bytes.subspan(n);
    }
    return {};
  }

  // True when the whole body went out; false when the server answered before that.
  Result<bool> write_body(Bytes bytes) {
    while (!bytes.empty()) {
      if (socket->readable_now()) return false;
      VB_ASSIGN(const size_t n, socket->write_some(bytes.first(std::min<size_t>(bytes.size(), MiB)), deadline()));
      bytes = bytes.subspan(n);
    }
    return true;
  }

  Result<bool> send(const std::string& head, const HttpRequest& request);
  Result<void> read_head(Parser& parser);
  Result<void> read_known_body(uint64_t length, const HttpRequest& request, HttpReply& reply);
  Result<void> read_framed_body(Parser& parser, const HttpRequest& request, HttpReply& reply);
  Result<HttpReply> exchange(const std::string& head, const HttpRequest& request, bool& keep);
};

// Small requests go out in one piece: head and body in one segment.
Result<bool> HttpClient::Connection::send(const std::string& head, const HttpRequest& request) {
  if (request.body.size() <= 16 * KiB) {
    std::string all = head;
    all.append(as_text(request.body));
    VB_TRY(write_all(as_bytes(all)));
    return true;
  }
  VB_TRY(write_all(as_bytes(head)));
  return write_body(request.body);
}

Result<void> HttpClient::Connection::read_head(Parser& parser) {
  while (!parser.is_header_done()) {
    if (begin == end) {
      if (auto got = fill(); !got) return std::unexpected(got.error());
    }
    beast::error_code ec;
    const size_t used = parser.put(boost::asio::buffer(buffer.data() + begin, end - begin), ec);
    begin += used;
    if (ec == bhttp::error::need_more) {
      if (begin < end || used == 0) {
        if (auto got = fill(); !got) return std::unexpected(got.error());
      }
      continue;
    }
    if (ec && ec != bhttp::error::need_buffer) return fail(Errc::malformed, "http client: malformed reply");
  }
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
      if (!bytes.empty()) std::memcpy(request_.into->data() + reply_.body_bytes, bytes.data(), bytes.size());
    } else {
      if (bytes.size() > request_.collected_body_max - reply_.body.size()) {
        return fail(Errc::too_large, "http client: reply too large");
      }
      reply_.body.append(as_text(bytes));
    }
    reply_.body_bytes += bytes.size();
    return {};
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

Result<void> HttpClient::Connection::read_known_body(uint64_t length, const HttpRequest& request, HttpReply& reply) {
  BodySink sink(request, reply);
  if (reply.status / 100 == 2 && request.into && length > request.into->size()) {
    return fail(Errc::too_large, "http client: the reply does not fit the buffer");
  }
  for (uint64_t left = length; left > 0;) {
    if (begin < end) {
      const size_t n = std::min<uint64_t>(left, end - begin);
      VB_TRY(sink.take(unread().first(n)));
      begin += n;
      left -= n;
    } else if (MutableBytes room = sink.room(); !room.empty()) {
      VB_ASSIGN(const size_t n, socket->read_some(room.first(std::min<uint64_t>(left, room.size())), deadline()));
      sink.received(n);
      left -= n;
    } else {
      if (auto got = fill(); !got) return std::unexpected(got.error());
    }
  }
  return {};
}

// Chunked, or until the connection ends: Beast takes the framing off.
Result<void> HttpClient::Connection::read_framed_body(Parser& parser, const HttpRequest& request, HttpReply& reply) {
  BodySink sink(request, reply);
  std::vector<std::byte> piece(buffer_bytes);
  while (!parser.is_done()) {
    auto& body = parser.get().body();
    body.data = piece.data();
    body.size = piece.size();
    body.more = true;
    beast::error_code ec;
    const size_t used = parser.put(boost::asio::buffer(buffer.data() + begin, end - begin), ec);
    begin += used;
    const size_t filled = piece.size() - body.size;
    if (filled > 0) VB_TRY(sink.take(Bytes(piece).first(filled)));
    if (ec == bhttp::error::need_buffer) continue;
    if (ec && ec != bhttp::error::need_more) return fail(Errc::malformed, "http client: malformed reply body");
    if (parser.is_done()) break;
    if (!ec && used > 0 && begin < end) continue;  // the parser stops after each element
    if (auto got = fill(); !got) {
      if (got.error().code != Errc::closed || parser.chunked()) return std::unexpected(got.error());
      parser.put_eof(ec);
      if (ec) return fail(Errc::malformed, "http client: truncated reply");
    }
  }
  return {};
}

Result<HttpReply> HttpClient::Connection::exchange(const std::string& head, const HttpRequest& request, bool& keep) {
  keep = false;
  auto sent = send(head, request);
  // A server that refuses early may close before the whole body went out: its reply says why, so look for it.
  if (!sent && sent.error().code != Errc::connection_failed) return std::unexpected(sent.error());
  const bool whole_body_sent = sent && *sent;

  std::optional<Parser> parser;
  for (int i = 0;; ++i) {
    parser.emplace();
    parser->header_limit(header_bytes_max);
    parser->body_limit(boost::none);
    if (request.method == "HEAD") parser->skip(true);
    if (auto head_read = read_head(*parser); !head_read) {
      if (!sent) return std::unexpected(Error{Errc::closed, sent.error().sys, sent.error().context});
      return std::unexpected(head_read.error());
    }
    if (parser->get().result_int() >= 200) break;
    if (i == interim_replies_max) return fail(Errc::malformed, "http client: too many interim replies");
  }
  HttpReply reply = reply_of(*parser);
  const bool bodyless = request.method == "HEAD" || reply.status == 204 || reply.status == 304;
  if (!bodyless) {
    if (parser->chunked() || !reply.content_length) {
      VB_TRY(read_framed_body(*parser, request, reply));
    } else {
      VB_TRY(read_known_body(*reply.content_length, request, reply));
    }
  }
  keep = whole_body_sent && parser->get().keep_alive() &&
         (bodyless || parser->chunked() || reply.content_length.has_value()) && begin == end;
  return reply;
}

Result<std::unique_ptr<HttpClient>> HttpClient::create(HttpOptions options) {
  SslContext tls;
  if (options.tls) {
    VB_ASSIGN(tls, make_client_tls(options.ca_file, options.insecure));
  }
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(options), std::move(tls)));
}

HttpClient::HttpClient(HttpOptions options, SslContext tls) : options_(std::move(options)), tls_(std::move(tls)) {
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
  VB_ASSIGN(auto connection, take(false, deadline_in(options_.connect_timeout)));
  give_back(std::move(connection));
  return {};
}

Result<std::unique_ptr<HttpClient::Connection>> HttpClient::take(bool fresh, Deadline deadline) {
  while (!fresh) {
    std::unique_ptr<Connection> kept;
    {
      std::lock_guard lock(mutex_);
      if (idle_.empty()) break;
      kept = std::move(idle_.back());
      idle_.pop_back();
    }
    if (kept->socket->readable_now()) continue;  // closed by the server while idle
    kept->reused = true;
    kept->answered = false;
    return kept;
  }
  auto connection = std::make_unique<Connection>();
  VB_ASSIGN(connection->socket,
            HttpSocket::connect(options_.host, options_.port, tls_.get(), !options_.insecure, deadline));
  std::lock_guard lock(mutex_);
  peer_address_ = connection->socket->peer_address();
  local_address_ = connection->socket->local_address();
  return connection;
}

void HttpClient::give_back(std::unique_ptr<Connection> connection) {
  std::lock_guard lock(mutex_);
  if (idle_.size() < options_.idle_connections_max) idle_.push_back(std::move(connection));
}

Result<HttpReply> HttpClient::request(const HttpRequest& request) {
  std::string head = request.method + " " + request.target + " HTTP/1.1\r\n";
  bool has_host = false;
  if (has_crlf(request.method) || has_crlf(request.target)) {
    return fail(Errc::invalid_argument, "http client: line break in the request line");
  }
  for (const auto& [name, value] : request.headers) {
    if (has_crlf(name) || has_crlf(value)) return fail(Errc::invalid_argument, "http client: line break in a header");
    if (lower(name) == "content-length") continue;
    has_host = has_host || lower(name) == "host";
    head += name + ": " + value + "\r\n";
  }
  if (!has_host) head += "host: " + host_header_ + "\r\n";
  const uint64_t body_size = request.body.size();
  if (body_size > 0 || (request.method != "GET" && request.method != "HEAD" && request.method != "DELETE")) {
    head += "content-length: " + std::to_string(body_size) + "\r\n";
  }
  head += "\r\n";

  for (bool fresh = false;; fresh = true) {
    Deadline connect_by = deadline_in(options_.connect_timeout);
    if (request.deadline) connect_by = std::min(connect_by, *request.deadline);
    VB_ASSIGN(auto connection, take(fresh, connect_by));
    connection->stall = options_.stall_timeout;
    connection->whole = request.deadline;
    connection->socket->stop_with(request.stop);
    bool keep = false;
    auto reply = connection->exchange(head, request, keep);
    if (reply) {
      if (keep) give_back(std::move(connection));
      return reply;
    }
    const bool broke = reply.error().code == Errc::closed || reply.error().code == Errc::connection_failed;
    if (broke && connection->reused && !connection->answered && request.replayable && !fresh) {
      continue;
    }
    // After sending began, a broken connection is never "nothing was sent".
    if (reply.error().code == Errc::connection_failed) {
      return fail(Errc::closed, reply.error().context, reply.error().sys);
    }
    return reply;
  }
}

}  // namespace verbena::client
