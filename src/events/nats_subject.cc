#include "events/nats_subject.h"

#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "base/checksum.h"
#include "events/client_tls.h"
#include "events/complaints.h"
#include "events/nats_wire.h"
#include "events/stream.h"

namespace verbena::events {
namespace {

using Kind = NatsLine::Kind;

constexpr size_t random_bytes = 12, id_bytes = 16;

std::string random_name() {
  std::byte bytes[random_bytes];
  fill_random(bytes);
  return to_hex(bytes);
}

// An event contains request, time and sequencer: equal text means the same event.
std::string id_of(const std::string& message) { return to_hex(as_bytes(sha256(as_bytes(message))).first(id_bytes)); }

class NatsSubject final : public Target {
 public:
  NatsSubject(boost::asio::ssl::context tls, TargetSettings settings)
      : stream_(std::move(tls), settings), settings_(std::move(settings)), complaints_(settings_.name) {}

  // One after the other: an event that a stream refuses must not be overtaken by an accepted one.
  Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) override {
    complaints_.begin();
    for (const std::string& message : messages) {
      const bool reused = stream_.is_open();
      auto done = publish(message);
      // The server may have closed an idle connection meanwhile.
      if (!done && reused && done.error() == Errc::connection_failed) done = publish(message);
      if (!done) co_return done;
      complaints_.forget();
      ++delivered;
    }
    co_return Result<void>();
  }

  std::string said() const override { return complaints_.said(); }
  void cut() override { stream_.cut(); }

 private:
  Result<void> publish(const std::string& message) {
    auto done = exchange(message);
    if (!done) stream_.close();
    return done;
  }

  Result<void> exchange(const std::string& message) {
    if (!stream_.is_open()) VB_TRY(connect());
    stream_.begin();
    if (payload_max_ != 0 && message.size() + nats_head_max > payload_max_) {
      return fail(Errc::invalid_request, "nats: the event is longer than the server takes");
    }
    const std::string reply_to = inbox_ + "." + std::to_string(++published_);
    const std::string text = nats_publication(settings_.path, reply_to, id_of(message), message);
    VB_TRY(may_send());
    VB_TRY(stream_.write(text));
    return wait_for_answer(reply_to);
  }

  Result<void> connect() {
    VB_TRY(stream_.connect());
    VB_ASSIGN(const std::string greeting, stream_.read_line(nats_line_max));
    const auto line = parse_nats_line(greeting);
    const auto info = line && line->kind == Kind::info ? parse_nats_info(line->rest) : std::nullopt;
    if (!info) return fail(Errc::connection_failed, "nats: what answers is no NATS server");
    if (info->tls_required && !settings_.tls) {
      return fail(Errc::invalid_request, "nats: the server wants TLS (nats+tls://)");
    }
    if (!info->headers) return fail(Errc::invalid_request, "nats: the server is too old (no headers)");
    payload_max_ = info->payload_max;
    if (settings_.tls) VB_TRY(stream_.start_tls());
    inbox_ = "_INBOX." + random_name();
    const std::string hello = nats_connect(settings_.secret, settings_.tls) + "SUB " + inbox_ + ".* 1\r\nPING\r\n";
    VB_TRY(stream_.write(hello));
    for (;;) {
      VB_ASSIGN(const Heard heard, hear());
      if (heard.kind == Kind::pong) return {};
    }
  }

  Result<void> wait_for_answer(const std::string& reply_to) {
    for (;;) {
      VB_ASSIGN(const Heard heard, hear());
      if (heard.subject != reply_to) continue;
      const std::string said = parse_stream_answer(heard.head, heard.body);
      if (said.empty()) return {};
      complaints_.say(said);
      return fail(Errc::invalid_request, "nats: no stream has stored the event");
    }
  }

  struct Heard {
    Kind kind = Kind::ok;
    std::string subject{}, head{}, body{};
  };

  // The next message, apart from the connection's own. Any error ends the connection: it may concern what was published
  // or not.
  Result<Heard> hear() {
    for (;;) {
      VB_ASSIGN(const std::string text, stream_.read_line(nats_line_max));
      const auto line = parse_nats_line(text);
      if (!line) return fail(Errc::connection_failed, "nats: what the server says is not NATS");
      if (line->kind == Kind::error) {
        complaints_.say(line->rest);
        return fail(Errc::invalid_request, "nats: the server refuses");
      }
      if (line->kind == Kind::ping) VB_TRY(stream_.write("PONG\r\n"));
      if (line->kind == Kind::pong) return Heard{.kind = Kind::pong};
      if (line->kind != Kind::message && line->kind != Kind::headed_message) continue;
      Heard heard{.kind = line->kind, .subject = std::string(line->subject)};
      VB_ASSIGN(const std::string bytes, stream_.read_bytes(line->bytes + 2));
      heard.head = bytes.substr(0, line->head);
      heard.body = bytes.substr(line->head, line->bytes - line->head);
      return heard;
    }
  }

  static constexpr size_t nats_head_max = 128;  // of a publication

  Stream stream_;
  const TargetSettings settings_;
  Complaints complaints_;
  std::string inbox_;
  uint64_t published_ = 0, payload_max_ = 0;
};

}  // namespace

std::expected<std::unique_ptr<Target>, std::string> make_nats_subject(const TargetSettings& settings) {
  auto tls = make_target_tls(settings);
  if (!tls) return std::unexpected(tls.error());
  return std::make_unique<NatsSubject>(std::move(*tls), settings);
}

}  // namespace verbena::events
