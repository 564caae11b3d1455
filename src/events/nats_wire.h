// The part of NATS that a publisher needs (its client protocol, and JetStream's answers). The server's data is not
// trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::events {

inline constexpr size_t nats_line_max = 64 * 1024, nats_payload_max = 64 * 1024;  // of what a server sends

// A line of a server.
struct NatsLine {
  enum class Kind : uint8_t { info, message, headed_message, ping, pong, ok, error };
  Kind kind = Kind::ok;
  std::string_view rest{};     // info: the JSON; error: the message
  std::string_view subject{};  // of a message
  size_t head = 0, bytes = 0;  // of a message: of its headers, and of all that follows the line (without its end)
};
// nullopt: none of these, or a message that is too long.
std::optional<NatsLine> parse_nats_line(std::string_view line);

struct NatsInfo {
  bool tls_required = false, headers = false;
  uint64_t payload_max = 0;
};
std::optional<NatsInfo> parse_nats_info(std::string_view json);

// `secret`: "USER:PASSWORD", a token, or empty.
std::string nats_connect(const std::string& secret, bool tls);
// `id`: a stream drops repetitions of it.
std::string nats_publication(std::string_view subject, std::string_view reply_to, std::string_view id,
                             std::string_view message);

// Empty: the stream has stored it; else its error.
std::string parse_stream_answer(std::string_view head, std::string_view body);

}  // namespace verbena::events
