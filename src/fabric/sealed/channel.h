// One side of a sealed connection: seals what it sends, opens what it receives, in strict order.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "fabric/sealed/cipher.h"
#include "fabric/sealed/frames.h"
#include "fabric/sealed/sealed.h"

namespace verbena::fabric::sealed {

static_assert(UINT64_MAX - numbers_max_default >= records_per_segment);

// Bytes that an envelope adds to a message, at most: header, the first one's salt, tag.
inline constexpr size_t envelope_overhead = Header::size + salt_size + aead_tag_size;

class Channel {
 public:
  using Transmit = std::function<Result<void>(Bytes envelope)>;  // would_block: not sent, try again

  // With `salt` this side opens the connection (the client): its first envelope carries it. `numbers_max`: it sends no
  // more messages than that, and no more records.
  Channel(uint64_t session, Ciphers ciphers, std::optional<Salt> salt, size_t envelope_size_max,
          uint64_t numbers_max = numbers_max_default)
      : session_(session),
        ciphers_(std::move(ciphers)),
        salt_(salt),
        peer_opens_(!salt),
        envelope_size_max_(envelope_size_max),
        numbers_max_(numbers_max) {}

  // Sends what waits, then this message of the layer above, which is copied. would_block: it was not sent. closed:
  // there are no numbers left, for ever.
  Result<void> send(Bytes first, Bytes second, const Transmit& transmit);
  // Queues a message of the connection's own.
  void queue(Kind kind, std::vector<std::byte> body);
  Result<void> flush(const Transmit& transmit);  // would_block: something still waits
  bool has_waiting() const { return !waiting_.empty(); }
  size_t waiting_bytes() const { return waiting_bytes_; }  // what they take in memory, about
  void close();                                            // nothing is sent any more

  // Opens an envelope. nullopt: forged, repeated or out of order. `body` is valid until this thread's next call, of any
  // channel.
  struct Opened {
    Kind kind;
    Bytes body;
  };
  std::optional<Opened> open(const Header& header, Bytes envelope);

  // Seals the bytes of a place as records, one behind the other, from `plain` to `out`. closed: there are not enough
  // numbers left, and nothing was sealed.
  Result<Seals> seal_records(const Place& place, Bytes plain, std::byte* out);
  // Opens them. `out` may be the memory of `sealed`. False: `out` is wiped.
  [[nodiscard]] bool open_records(const Place& place, const Seals& seals, Bytes sealed, std::byte* out);
  // Opens the records of a place out of memory that others can write meanwhile, as a ring that is lent: each into
  // memory of this thread's own, and `take` gets it once its tag was right. False: one does not open; `take` has had
  // those before it.
  using TakeRecord = std::function<void(const Place& part, Bytes plain)>;
  [[nodiscard]] bool open_shared(const Place& place, const Seals& seals, Bytes sealed, const TakeRecord& take);

 private:
  [[nodiscard]] bool open_record(const Place& part, const Seals& seals, size_t i, Bytes sealed, std::byte* out);
  Result<void> transmit(Kind kind, Bytes first, Bytes second, const Transmit& transmit);

  const uint64_t session_;
  Ciphers ciphers_;
  std::optional<Salt> salt_;  // until the first envelope has left
  const bool peer_opens_;
  const size_t envelope_size_max_;
  const uint64_t numbers_max_;
  uint64_t sent_ = 0, seen_ = 0;
  uint64_t records_ = 0;  // sealed so far: the number of the next one
  std::deque<std::pair<Kind, std::vector<std::byte>>> waiting_;
  size_t waiting_bytes_ = 0;
};

}  // namespace verbena::fabric::sealed
