// The ciphers of one sealed connection. docs/sealed-rdma.md has the format; tests/sealed has vectors of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/aead.h"
#include "base/bytes.h"
#include "base/hmac.h"
#include "base/wiped.h"
#include "fabric/fabric.h"

namespace verbena::fabric::sealed {

inline constexpr size_t salt_size = 16;
using Salt = std::array<std::byte, salt_size>;  // random; chosen by the client for each connection

// One direction's cipher for messages, or for records. Each seal() takes a number that was never used before; the key
// is renewed after 2^24 numbers (an epoch), far below what AES-GCM bears with records of 64 KiB.
class Cipher {
 public:
  static constexpr unsigned epoch_bits_default = 24;
  Cipher(const Sha256& root, AeadKind kind, unsigned epoch_bits = epoch_bits_default);

  void seal(uint64_t number, Bytes context, Bytes plain, std::byte* out, AeadTag& tag);
  // seal() in pieces: begin, update ..., end. In between nothing else is sealed.
  void begin(uint64_t number, Bytes context);
  void update(Bytes plain, std::byte* out) { now_->aead.update(plain, out); }
  void end(AeadTag& tag) { now_->aead.end(tag); }
  // False: not sealed under this key with this number and context, or under a key from before the last renewal but one;
  // `out` is then wiped. `out` may be the memory of `sealed`.
  [[nodiscard]] bool open(uint64_t number, Bytes context, Bytes sealed, Bytes tag, std::byte* out);

 private:
  struct Epoch {
    uint64_t number;
    Aead aead;
  };
  Epoch make(uint64_t epoch) const;
  Aead& of(uint64_t number);  // to seal with

  Wiped<HmacSha256> root_;
  AeadKind kind_;
  unsigned epoch_bits_;
  std::optional<Epoch> now_, before_;  // the newest in use, and the one before it
};

enum class Side : uint8_t { server, client };
enum class Direction : uint8_t { to_server, to_client };

// All four ciphers of a connection, for one side.
struct Ciphers {
  Cipher messages_out, messages_in, records_out, records_in;
};
Ciphers derive(const ConnectionKey& key, const Salt& salt, Side side, unsigned epoch_bits = Cipher::epoch_bits_default);

// The cipher of one transfer of `length` bytes, outside a connection.
Cipher derive_transfer(const ConnectionKey& key, const Salt& salt, Direction direction, uint64_t length);

}  // namespace verbena::fabric::sealed
