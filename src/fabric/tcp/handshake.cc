#include "fabric/tcp/handshake.h"

#include <algorithm>
#include <cstring>

namespace verbena::fabric::tcp {
namespace {

constexpr std::byte magic[4] = {std::byte{'V'}, std::byte{'T'}, std::byte{'C'}, std::byte{1}};
constexpr size_t session_at = 8, random_at = 16;

}  // namespace

Hello make_hello(uint64_t session, bool encrypt) {
  Hello hello{};
  std::ranges::copy(magic, hello.begin());
  hello[4] = std::byte{encrypt};
  std::memcpy(hello.data() + session_at, &session, sizeof session);
  fill_random(MutableBytes(hello).subspan(random_at));
  return hello;
}

Result<HelloFields> parse_hello(const Hello& hello) {
  const std::byte zero[3] = {};
  if (std::memcmp(hello.data(), magic, sizeof magic) != 0 || hello[4] > std::byte{1} ||
      std::memcmp(hello.data() + 5, zero, sizeof zero) != 0) {
    return fail(Errc::malformed, "tcp: hello");
  }
  HelloFields fields{.encrypt = hello[4] == std::byte{1}};
  std::memcpy(&fields.session, hello.data() + session_at, sizeof fields.session);
  return fields;
}

Handshake::Handshake(const ConnectionKey& key, const Hello& hello, Bytes random) : key_(key.bytes) {
  std::ranges::copy(hello, said_.begin());
  std::ranges::copy(random.first(random_size), said_.begin() + hello_size);
}

Sha256 Handshake::sign(std::string_view label) const {
  std::array<std::byte, 96> text{};  // the label ends with a zero byte
  std::memcpy(text.data(), label.data(), label.size());
  std::ranges::copy(said_, text.begin() + static_cast<ptrdiff_t>(label.size()) + 1);
  return key_.sign(Bytes(text).first(label.size() + 1 + said_.size()));
}

Challenge Handshake::challenge() const {
  Challenge challenge;
  std::copy_n(said_.begin() + hello_size, random_size, challenge.begin());
  std::ranges::copy(sign("verbena-tcp-1 server"), challenge.begin() + random_size);
  return challenge;
}

Proof Handshake::proof() const { return sign("verbena-tcp-1 client"); }
Sha256 Handshake::tls_key() const { return sign("verbena-tcp-1 tls"); }

}  // namespace verbena::fabric::tcp
