// A NATS server's messages: lines, its INFO, and a stream's answers.
#include <cstdint>
#include <string_view>

#include "events/nats_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::events;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto line = parse_nats_line(text)) {
    if (line->head > line->bytes || line->bytes > nats_payload_max) __builtin_trap();
    if (line->kind == NatsLine::Kind::info) (void)parse_nats_info(line->rest);
  }
  const size_t half = text.find('\n');
  if (half != std::string_view::npos) (void)parse_stream_answer(text.substr(0, half), text.substr(half + 1));
  return 0;
}
