#include "events/nats_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

namespace verbena::events {
namespace {

using Json = nlohmann::json;
using Kind = NatsLine::Kind;

constexpr std::string_view blanks = " \t";

// The words of a message's line; 0: too many.
template <size_t N>
size_t split_words(std::string_view text, std::array<std::string_view, N>& words) {
  size_t count = 0;
  for (;;) {
    const size_t from = text.find_first_not_of(blanks);
    if (from == std::string_view::npos) return count;
    if (count == N) return 0;
    text.remove_prefix(from);
    const size_t end = std::min(text.find_first_of(blanks), text.size());
    words[count++] = text.substr(0, end);
    text.remove_prefix(end);
  }
}

bool parse_size(std::string_view text, size_t& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size() && into <= nats_payload_max;
}

// SUBJECT SID [REPLY-TO] [BYTES OF HEADERS] BYTES
std::optional<NatsLine> parse_message(std::string_view rest, bool headed) {
  std::array<std::string_view, 5> words;
  const size_t count = split_words(rest, words), least = headed ? 4 : 3;
  if (count < least || count > least + 1) return std::nullopt;
  NatsLine line{.kind = headed ? Kind::headed_message : Kind::message, .subject = words[0]};
  if (!parse_size(words[count - 1], line.bytes)) return std::nullopt;
  if (headed && (!parse_size(words[count - 2], line.head) || line.head > line.bytes)) return std::nullopt;
  return line;
}

Json parse_object(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json(nullptr);
}

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::optional<NatsLine> parse_nats_line(std::string_view line) {
  const size_t end = std::min(line.find_first_of(blanks), line.size());
  const std::string_view word = line.substr(0, end), rest = line.substr(std::min(end + 1, line.size()));
  if (word == "MSG" || word == "HMSG") return parse_message(rest, word == "HMSG");
  if (word == "INFO") return NatsLine{.kind = Kind::info, .rest = rest};
  if (word == "-ERR") return NatsLine{.kind = Kind::error, .rest = rest};
  if (word == "PING") return NatsLine{.kind = Kind::ping};
  if (word == "PONG") return NatsLine{.kind = Kind::pong};
  if (word == "+OK") return NatsLine{.kind = Kind::ok};
  return std::nullopt;
}

std::optional<NatsInfo> parse_nats_info(std::string_view text) {
  const Json json = parse_object(text);
  if (json.is_null()) return std::nullopt;
  const auto says = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_boolean() && found->get<bool>();
  };
  NatsInfo info{.tls_required = says("tls_required"), .headers = says("headers")};
  const auto most = json.find("max_payload");
  if (most != json.end() && most->is_number_unsigned()) info.payload_max = most->get<uint64_t>();
  return info;
}

std::string nats_connect(const std::string& secret, bool tls) {
  Json json = {{"verbose", false}, {"pedantic", false},    {"tls_required", tls}, {"name", "verbena"},
               {"lang", "c++"},    {"version", "1"},       {"protocol", 1},       {"echo", false},
               {"headers", true},  {"no_responders", true}};
  const size_t colon = secret.find(':');
  if (colon != std::string::npos) {
    json["user"] = secret.substr(0, colon);
    json["pass"] = secret.substr(colon + 1);
  } else if (!secret.empty()) {
    json["auth_token"] = secret;
  }
  return "CONNECT " + text_of(json) + "\r\n";
}

std::string nats_publication(std::string_view subject, std::string_view reply_to, std::string_view id,
                             std::string_view message) {
  const std::string head = fmt::format("NATS/1.0\r\nNats-Msg-Id: {}\r\n\r\n", id);
  return fmt::format("HPUB {} {} {} {}\r\n{}{}\r\n", subject, reply_to, head.size(), head.size() + message.size(), head,
                     message);
}

std::string parse_stream_answer(std::string_view head, std::string_view body) {
  if (head.starts_with("NATS/1.0 503")) return "no stream takes this subject (JetStream)";
  const Json json = parse_object(body);
  if (json.is_null()) return "what answers is no stream (JetStream)";
  if (const auto error = json.find("error"); error != json.end()) return text_of(*error);
  const auto stream = json.find("stream"), sequence = json.find("seq");
  const bool kept = stream != json.end() && stream->is_string() && !stream->get_ref<const std::string&>().empty() &&
                    sequence != json.end() && sequence->is_number_unsigned();
  return kept ? "" : "what answers is no stream (JetStream)";
}

}  // namespace verbena::events
