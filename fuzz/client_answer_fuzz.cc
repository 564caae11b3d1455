// What a hostile server answers a client, beside S3's XML lists: the terms of a native session, sessions of directory
// buckets, headers of objects.
#include <cstdlib>
#include <string>

#include "client/http/object_headers.h"
#include "client/http/s3_xml.h"
#include "client/native/handshake.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::client;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto answer = parse_session_answer(text)) {
    // Without endpoints is an answer, too: the client has then no provider in common with the server.
    if (answer->terms.version == 0 || answer->terms.credits == 0) std::abort();
  }
  static_cast<void>(parse_session_xml(text));
  static_cast<void>(parse_checksum(text));
  // "name: value" lines, as the HTTP client hands them on.
  verbena::net::HttpReply reply;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size()), colon = std::min(rest.find(": "), end);
    if (colon < end) {
      reply.headers.emplace_back(std::string(rest.substr(0, colon)),
                                 std::string(rest.substr(colon + 2, end - colon - 2)));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  static_cast<void>(object_info(reply, "key"));
  static_cast<void>(said_headers(reply));
  static_cast<void>(matches(checksum_of(reply), {}));
  return 0;
}
