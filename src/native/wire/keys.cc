#include "native/wire/keys.h"

#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "base/wiped.h"
#include "native/wire/cursor.h"

namespace verbena::native::wire {
namespace {

// Leaves nothing of the key in memory.
Sha256 hmac(Bytes key, Bytes data) { return Wiped<HmacSha256>(key)->sign(data); }

Sha256 endpoint_key(const MasterKey& master, std::string_view label, uint16_t endpoint) {
  std::array<std::byte, 64> input;
  Writer out(input);
  out.text(label);
  out.u8(0);
  out.u16(endpoint);
  return hmac(master.bytes, Bytes(input).first(out.size()));
}

MacKey stream_key(const MasterKey& master, std::string_view label, uint16_t endpoint) {
  Sha256 digest = endpoint_key(master, label, endpoint);
  MacKey key;
  std::memcpy(key.bytes, digest.data(), sizeof key.bytes);
  OPENSSL_cleanse(digest.data(), digest.size());
  return key;
}

}  // namespace

MasterKey derive_master(std::string_view secret_key, const SessionNumbers& numbers) {
  std::array<std::byte, 128> input;
  Writer out(input);
  out.text("verbena-native-1 session");
  out.u8(0);
  out.bytes(numbers.client);
  out.bytes(numbers.server);
  out.u64(numbers.session);
  MasterKey master;
  master.bytes = hmac(as_bytes(secret_key), Bytes(input).first(out.size()));
  return master;
}

// RFC 5869: extract, then one block of expand.
MasterKey derive_master(std::string_view secret_key, const SessionNumbers& numbers, const KeyExchange& exchange,
                        const Secret& shared) {
  const MasterKey salt = derive_master(secret_key, numbers);
  MasterKey extracted, master;
  extracted.bytes = hmac(salt.bytes, shared.bytes());
  std::array<std::byte, 256> context;
  Writer out(context);
  out.text("verbena-native-1 ephemeral");
  out.u8(0);
  out.bytes(exchange.request);
  out.bytes(exchange.client);
  out.bytes(exchange.server);
  out.bytes(numbers.client);
  out.bytes(numbers.server);
  out.u64(numbers.session);
  out.u8(1);  // the block's number
  master.bytes = hmac(extracted.bytes, Bytes(context).first(out.size()));
  return master;
}

StreamKeys derive_stream(const MasterKey& master, uint16_t endpoint, bool sealed) {
  StreamKeys keys{.to_server = stream_key(master, "verbena-native-1 client to server", endpoint),
                  .to_client = stream_key(master, "verbena-native-1 server to client", endpoint)};
  keys.to_server.in_envelope = keys.to_client.in_envelope = sealed;
  return keys;
}

Sha256 derive_connection(const MasterKey& master, uint16_t endpoint) {
  return endpoint_key(master, "verbena-native-1 connection", endpoint);
}

std::string answer_proof(const MasterKey& master, std::string_view body) {
  std::string input("verbena-native-1 answer");
  input.push_back('\0');
  input += body;
  return to_hex(hmac(master.bytes, as_bytes(input)));
}

uint32_t core_of(std::string_view bucket, std::string_view key, uint32_t cores) {
  if (cores <= 1) return 0;
  return crc32c(as_bytes(key), crc32c(as_bytes("/"), crc32c(as_bytes(bucket)))) % cores;
}

bool read_hex(std::string_view text, MutableBytes into) {
  const auto raw = from_hex(text);
  if (!raw || raw->size() != into.size()) return false;
  std::ranges::copy(*raw, into.begin());
  return true;
}

}  // namespace verbena::native::wire
