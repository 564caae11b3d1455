#include "native/wire/keys.h"

#include <cstring>

#include "base/checksum.h"
#include "native/wire/cursor.h"

namespace verbena::native::wire {
namespace {

std::string endpoint_key(const MasterKey& master, std::string_view label, uint16_t endpoint) {
  std::array<std::byte, 64> input;
  Writer out(input);
  out.text(label);
  out.u8(0);
  out.u16(endpoint);
  return hmac_sha256(master.bytes, Bytes(input).first(out.size()));
}

MacKey stream_key(const MasterKey& master, std::string_view label, uint16_t endpoint) {
  const std::string digest = endpoint_key(master, label, endpoint);
  MacKey key;
  std::memcpy(key.bytes, digest.data(), sizeof key.bytes);
  return key;
}

}  // namespace

MasterKey derive_master(std::string_view secret_key, const Nonce& client, const Nonce& server, uint64_t session) {
  std::array<std::byte, 128> input;
  Writer out(input);
  out.text("verbena-native-1 session");
  out.u8(0);
  out.bytes(client);
  out.bytes(server);
  out.u64(session);
  const std::string digest = hmac_sha256(as_bytes(secret_key), Bytes(input).first(out.size()));
  MasterKey master;
  std::memcpy(master.bytes.data(), digest.data(), master.bytes.size());
  return master;
}

StreamKeys derive_stream(const MasterKey& master, uint16_t endpoint, bool sealed) {
  StreamKeys keys{.to_server = stream_key(master, "verbena-native-1 client to server", endpoint),
                  .to_client = stream_key(master, "verbena-native-1 server to client", endpoint)};
  keys.to_server.in_envelope = keys.to_client.in_envelope = sealed;
  return keys;
}

std::array<std::byte, 32> derive_connection(const MasterKey& master, uint16_t endpoint) {
  const std::string digest = endpoint_key(master, "verbena-native-1 connection", endpoint);
  std::array<std::byte, 32> key;
  std::memcpy(key.data(), digest.data(), key.size());
  return key;
}

std::string answer_proof(const MasterKey& master, std::string_view body) {
  std::string input("verbena-native-1 answer");
  input.push_back('\0');
  input += body;
  return to_hex(as_bytes(hmac_sha256(master.bytes, as_bytes(input))));
}

uint32_t core_of(std::string_view bucket, std::string_view key, uint32_t cores) {
  if (cores <= 1) return 0;
  return crc32c(as_bytes(key), crc32c(as_bytes("/"), crc32c(as_bytes(bucket)))) % cores;
}

}  // namespace verbena::native::wire
