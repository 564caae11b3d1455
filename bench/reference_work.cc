// Never change this workload: every recorded baseline contains its count.
#include "reference_work.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::bench {
namespace {

constexpr std::string_view head =
    "PUT /bucket/a/long/key%20with%2Fescapes?partNumber=17&uploadId=0123456789abcdef HTTP/1.1\r\n"
    "Host: storage.example.com:9000\r\nUser-Agent: reference/1.0\r\nAccept-Encoding: identity\r\n"
    "X-Amz-Date: 20260102T030405Z\r\nX-Amz-Content-Sha256: UNSIGNED-PAYLOAD\r\nContent-Length: 65536\r\n"
    "Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/us-east-1/s3/aws4_request\r\n\r\n";

std::map<std::string, std::string> parse(std::string_view text) {
  std::map<std::string, std::string> fields;
  text.remove_prefix(text.find("\r\n") + 2);
  while (!text.starts_with("\r\n")) {
    const size_t end = text.find("\r\n"), colon = text.find(':');
    std::string name(text.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    fields.emplace(std::move(name), text.substr(colon + 2, end - colon - 2));
    text.remove_prefix(end + 2);
  }
  return fields;
}

std::string joined(const std::map<std::string, std::string>& fields) {
  std::string out;
  for (const auto& [name, value] : fields) {
    out += name;
    out += ':';
    for (const char c : value) {
      constexpr std::string_view digits = "0123456789ABCDEF";
      if (c == ' ' || c == '/' || c == '=') {
        out += '%';
        out += digits[static_cast<unsigned char>(c) >> 4];
        out += digits[static_cast<unsigned char>(c) & 15];
      } else {
        out += c;
      }
    }
    out += '\n';
  }
  return out;
}

// Integer work like a digest's: rounds over blocks.
uint64_t mixed(std::string_view text) {
  std::array<uint32_t, 8> state{1, 2, 3, 4, 5, 6, 7, 8};
  for (int round = 0; round < 24; ++round) {
    for (size_t at = 0; at + 4 <= text.size(); at += 4) {
      uint32_t word;
      std::memcpy(&word, text.data() + at, 4);
      uint32_t& s = state[(at / 4) & 7];
      s = (s << 7 | s >> 25) + word * 0x9E3779B1u + state[(at / 4 + 3) & 7];
    }
  }
  uint64_t sum = 0;
  for (const uint32_t s : state) sum = sum * 31 + s;
  return sum;
}

}  // namespace

uint64_t reference_work() {
  uint64_t sum = 0;
  std::vector<std::unique_ptr<std::string>> kept;
  std::vector<std::function<uint64_t()>> later;
  for (int i = 0; i < 4; ++i) {
    auto fields = parse(head);
    fields["x-amz-meta-number"] = std::to_string(i * 1'234'567);
    kept.push_back(std::make_unique<std::string>(joined(fields)));
    later.emplace_back([text = kept.back().get()] { return mixed(*text); });
  }
  std::ranges::sort(kept, {}, [](const auto& text) { return std::string_view(*text); });
  for (const auto& work : later) sum += work();
  return sum;
}

}  // namespace verbena::bench
