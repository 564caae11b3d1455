// A request head, as it arrives on a socket: in pieces whose size is the first byte. Accepted heads have the properties
// that the rest of the code relies on.
#include <cstdlib>

#include "http/head_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::http;
  if (size < 1) return 0;
  const size_t step = 1 + data[0];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);

  HeadScanner pieces, whole;
  auto status = HeadScanner::Status::more;
  for (size_t seen = 0; status == HeadScanner::Status::more && seen < text.size();) {
    seen = std::min(seen + step, text.size());
    status = pieces.scan(text.substr(0, seen));
  }
  if (status != whole.scan(text)) std::abort();
  if (status != HeadScanner::Status::complete) return 0;
  if (pieces.size() != whole.size() || whole.size() > text.size()) std::abort();

  static RequestHead head;  // reused, as a connection does
  if (parse_head(text.substr(0, whole.size()), head) != 0) return 0;
  if (head.path.empty() || head.path.front() != '/' || head.path.find('?') != std::string::npos) std::abort();
  if (head.chunked && head.content_length) std::abort();
  int lengths = 0, hosts = 0;
  for (const auto& [name, value] : head.headers) {
    if (name.empty() || value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) std::abort();
    for (char c : name) {
      if (c <= ' ' || c == ':' || (c >= 'A' && c <= 'Z')) std::abort();
    }
    lengths += name == "content-length";
    hosts += name == "host";
  }
  if (lengths > 1 || hosts > 1 || (hosts == 0 && !head.http_1_0)) std::abort();
  return 0;
}
