// MATCH by the native door: in one message, and further ones where the answer is full.
#pragma once

#include <chrono>
#include <span>
#include <string_view>
#include <vector>

#include "client/native/streams.h"
#include "native/wire/match.h"

namespace verbena::client {

struct NativeMatch {
  std::string_view bucket, prefix;
  Bytes hashes;  // of all lists
  size_t width = 16;
  std::span<const uint32_t> counts;
  bool sizes = false, places = false;
  std::chrono::milliseconds lease{0};
  uint64_t join = 0;
  std::chrono::milliseconds timeout{30'000};
};
struct NativeMatchedList {
  uint32_t leading = 0;
  Errc code = Errc::ok;
  std::vector<native::wire::MatchRun> runs;
};
struct NativeMatched {
  uint64_t lease = 0;
  std::vector<NativeMatchedList> lists;
};

// A lease is of one core of the server: the caller's number says which, beside the server's number. So other clients'
// sessions find it, too.
struct ClientLease {
  static constexpr unsigned shift = 48;
  static uint64_t make(size_t core, uint64_t id) { return uint64_t{core} << shift | id; }
  static size_t core(uint64_t lease) { return lease >> shift; }
  static uint64_t id(uint64_t lease) { return lease & ((uint64_t{1} << shift) - 1); }
};

Result<void> end_lease(NativeStreams& streams, uint64_t lease, std::chrono::milliseconds timeout);

// Precondition, not checked here: `hashes` holds what `counts` say. unsupported: the server's session is too old.
Result<NativeMatched> match(NativeStreams& streams, const NativeMatch& request);

}  // namespace verbena::client
