// Batches by the native door: items go to the cores that own them, in as many messages as it takes, several in flight.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <vector>

#include "client/native/lanes.h"
#include "client/outcome.h"

namespace verbena::client {

struct ManyCall {
  native::wire::Type type = native::wire::Type::get_many;
  std::span<const BatchItem> items;
  std::span<const MutableBytes> windows;  // only read by put_many
  std::span<BatchResult> results;
  bool verify = false;   // whole objects that were read, where the server knows a checksum
  bool checked = false;  // bytes that are written go with their CRC32C
  std::function<void(size_t)> in_order;
  // How many of the leading items in_order has been told of. Their places are the caller's again: one whose answer has
  // been lost is asked for once more for its result alone, where that can be the result of the same bytes.
  size_t told = 0;
  std::chrono::milliseconds timeout{30'000};
  // Which items have their result. A call that failed can be made again: it does the others.
  std::vector<uint8_t> answered;

  // To be called before an item that has no result is asked for again. False: it has one now, an error. What the caller
  // was told of are bytes whose version only the lost answer named, and by now the key may have others.
  bool may_ask_again(size_t item);
};

// Whether whatever answers this item has the same bytes: it names a version that cannot be replaced, or an ETag.
bool names_its_bytes(const BatchItem& item);

// Places lie inside their windows, and of writes no two items name the same key: the caller has looked.
// unsupported: the server's session is of version 1. Else what ended the session, or refused a message as a whole:
// items that have no result then may (writes: when it was `closed` or `timed_out`) or may not have been done.
Result<void> run_many(NativeLanes& lanes, ManyCall& call);

}  // namespace verbena::client
