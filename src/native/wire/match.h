// MATCH: how many leading keys of a list exist. Version 6 of the protocol.
//
// Keys travel as packed hashes: a key is the prefix and the hash in lower-case hexadecimal. They are in the message, or
// in a window that the server reads. Layout: docs/native-protocol.md.
#pragma once

#include <string_view>

#include "native/wire/bodies.h"

namespace verbena::native::wire {

inline constexpr unsigned version_of_match = 6;
inline constexpr size_t match_keys_max = 65'536;  // of all lists
inline constexpr size_t match_lists_max = 256;

enum MatchDetails : uint8_t {
  match_places = 1,
  match_sizes = 2,
  match_details_all = 3,
};

// Where an object's bytes lie; `unknown` where it was not requested.
enum class KeyPlace : uint8_t { unknown = 0, memory = 1, disk = 2 };
inline constexpr uint8_t key_places = 3;

struct Match {
  Descriptor window;  // of the packed hashes; with a size of 0 they are in the message
  uint8_t details = 0;
  uint8_t width = 16;     // bytes of a hash, 16 or 32; 0: whole keys behind the prefix, in the message, each a text16
  uint32_t lease_ms = 0;  // 0: none
  uint64_t lease = 0;     // of this session, that the new one joins; 0: none
  std::string_view bucket, prefix;
  Few<uint32_t, match_lists_max> counts;  // keys of each list, at least one
  Bytes keys;

  size_t total() const {
    size_t sum = 0;
    for (const uint32_t count : counts) sum += count;
    return sum;
  }
};
bool encode(Writer& out, const Match& request);
std::optional<Match> decode_match(Bytes body);

struct LeaseEnd {
  uint64_t lease = 0;
};
bool encode(Writer& out, const LeaseEnd& request);
std::optional<LeaseEnd> decode_lease_end(Bytes body);
inline constexpr size_t lease_size = 8;  // behind a body, with flag_lease

// Version 7: GET_MANY and HEAD_MANY with flag_take_lease hold what they find. The answer has the lease's number behind
// its head.
inline constexpr unsigned version_of_batch_leases = 7;
struct LeaseWish {
  uint32_t milliseconds = 0;
  uint64_t joins = 0;  // a lease of this stream; 0: none
};
inline constexpr size_t lease_wish_size = 12;
inline void put_lease_wish(Writer& out, LeaseWish wish) {
  out.u32(wish.milliseconds);
  out.u64(wish.joins);
}
inline LeaseWish get_lease_wish(Reader& in) {
  const uint32_t milliseconds = in.u32();
  return {milliseconds, in.u64()};
}

// Neighbours of one place and one size.
struct MatchRun {
  uint32_t count = 0;
  KeyPlace place = KeyPlace::unknown;
  uint64_t size = 0;
  bool operator==(const MatchRun&) const = default;
};
struct MatchedList {
  bool more = false;     // the answer ended here: ask again for what follows the leading ones
  Errc code = Errc::ok;  // of the key that ended it; ok: all of the list, or `more`
  uint32_t leading = 0;
  uint16_t runs = 0;  // only where details were requested
};

// Writes the answer: begin(), then for each list begin_list(), add() for its leading keys, end_list(); finish().
class MatchWriter {
 public:
  MatchWriter(MutableBytes body, uint8_t details) : out_(body), details_(details) { out_.reserve(head_size); }
  // False: the answer has no room for another list.
  bool begin_list();
  // So many keys alike. False: no room, and none was added.
  bool add(KeyPlace place, uint64_t size, uint32_t count = 1);
  uint32_t leading() const { return list_.leading; }
  void end_list(Errc code, bool more);
  // Writes the head; returns the size of the body.
  size_t finish(uint64_t lease);

 private:
  static constexpr size_t head_size = 13, list_size = 9, run_size = 13;
  void end_run();

  Writer out_;
  const uint8_t details_;
  uint16_t lists_ = 0;
  MutableBytes list_head_;
  MatchedList list_;
  MatchRun run_;
};

class MatchReader {
 public:
  // nullopt: malformed.
  static std::optional<MatchReader> open(Bytes body);

  uint8_t details() const { return details_; }
  uint64_t lease() const { return lease_; }  // 0: none
  uint16_t left() const { return left_; }    // lists
  // The next list; false: malformed, or the end. Then its runs, all of them, by next_run().
  bool next(MatchedList& list);
  bool next_run(MatchRun& run);
  bool complete() const { return left_ == 0 && runs_left_ == 0 && in_.complete(); }

 private:
  explicit MatchReader(Bytes body) : in_(body) {}

  Reader in_;
  uint8_t details_ = 0;
  uint64_t lease_ = 0;
  uint16_t left_ = 0, runs_left_ = 0;
  uint32_t keys_left_ = 0;  // of the list, that the runs have still to name
};

}  // namespace verbena::native::wire
