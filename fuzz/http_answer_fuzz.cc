// The HTTP client of the server and of the library (net/http_client.h), answered by a hostile server. The first byte
// selects what is asked: the method, a body, memory to receive into, a body that may be cut off.
#include <cstdlib>
#include <cstring>

#include "net/http_client.h"
#include "support/answering_server.h"

namespace {

using namespace verbena;
using namespace std::chrono_literals;

void expect(bool holds) {
  if (!holds) std::abort();
}

constexpr size_t collected_max = 4096, room = 512;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static fuzz::AnsweringServer& server = *new fuzz::AnsweringServer;
  server.answer_with({reinterpret_cast<const char*>(data) + 1, size - 1});
  net::HttpOptions options{.host = "127.0.0.1", .port = server.port()};
  options.stall_timeout = 5s;
  options.head_bytes_max = 8192;
  const auto client = net::HttpClient::create(options);
  expect(client.has_value());
  static const std::string body(100, 'b');
  static std::byte memory[room + 16];
  std::memset(memory, 0x5a, sizeof memory);
  net::HttpRequest request;
  request.method = std::to_array<const char*>({"GET", "HEAD", "PUT", "POST"})[data[0] & 3];
  if (request.changes()) request.body = as_bytes(body);
  if ((data[0] & 4) != 0) request.into = MutableBytes(memory).first(room);
  request.status_suffices = (data[0] & 8) != 0;
  request.collected_body_max = collected_max;
  const auto reply = (*client)->request(request);
  for (size_t i = room; i < sizeof memory; ++i) expect(memory[i] == std::byte{0x5a});
  if (!reply) return 0;
  expect(reply->status >= 100 && reply->status <= 999 && reply->body.size() <= collected_max);
  expect(reply->body.empty() || reply->body.size() == reply->body_bytes);
  if (request.method == "HEAD") expect(reply->body.empty() && reply->body_bytes == 0);
  // A body that is whole has the declared length.
  if (reply->content_length && request.method != "HEAD" && !request.status_suffices && reply->status != 304 &&
      reply->status != 204 && reply->status >= 200) {
    expect(reply->body_bytes == *reply->content_length);
  }
  for (const auto& [name, value] : reply->headers) {
    expect(!name.empty() && value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
  }
  return 0;
}
