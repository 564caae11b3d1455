// Batches by the native door: items go to the cores that own them, in as many messages as needed, several in flight.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <vector>

#include "client/native/streams.h"
#include "client/outcome.h"

namespace verbena::client {

struct ManyCall {
  native::wire::Type type = native::wire::Type::get_many;
  std::span<const BatchItem> items;
  std::span<const MutableBytes> windows;  // put_many only reads them
  std::span<BatchResult> results;
  // For each window the memory of a device that it lies in (on_device()), or null; empty: all are host memory. With one
  // of a device, no bytes travel in messages, and neither `verify` nor `checked` is set.
  std::span<const NativeMemory* const> devices = {};
  bool verify = false;          // checksums of whole objects that are read, where the server has them
  bool checked = false;         // written bytes carry their CRC32C
  bool tell_checksums = false;  // get_many: those of whole objects are put into the results
  std::function<void(size_t)> in_order;
  // Number of leading items reported to in_order. Their places belong to the caller again: an item whose answer was
  // lost is requested once more for its result alone, if that is sure to be for the same bytes.
  size_t told = 0;
  uint64_t lease = 0;                         // get_many: whose versions are read (match.h); 0: none
  BatchLease* take = nullptr;                 // get_many, head_many: of what is found; null: none
  const NativeStreams* taken_from = nullptr;  // whose lease that is, once items are held by it
  std::chrono::milliseconds timeout{30'000};
  // Items that have their result. A failed call can be made again: it does the others.
  std::vector<uint8_t> answered;

  const NativeMemory* device(size_t window) const { return devices.empty() ? nullptr : devices[window]; }
  // Must be called before an item without a result is requested again. False: the item has a result now, an error,
  // because only the lost answer named the version of the bytes that were reported, and the key may have changed since.
  bool may_ask_again(size_t item);
};

// True when any answer for this item has the same bytes: it names an immutable version, or an ETag.
bool names_its_bytes(const BatchItem& item);

// Runs a batch. Preconditions, not checked here: places lie inside their windows, and no two writes name the same key.
// unsupported: the server's session is of version 1. Else the error that ended the session or refused a whole message:
// items without a result may then have been done (writes: after `closed` or `timed_out`) or not.
Result<void> run_many(NativeStreams& streams, ManyCall& call);

}  // namespace verbena::client
