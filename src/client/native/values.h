// A listing with its values by the native door: one page in one answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/native/streams.h"

namespace verbena::client {

struct NativeValues {
  std::string_view bucket, prefix, after;
  uint64_t value_size_max = 0;
  uint32_t max_keys = 1000;
  MutableBytes into;
  bool verify = false;  // checks checksums where the server has them
  std::chrono::milliseconds timeout{30'000};
};
struct NativeValue {
  std::string key, etag, version_id;
  uint64_t size = 0;
  int64_t modified_us = 0;
  std::optional<uint64_t> offset;  // of its bytes in `into`; none: larger than requested, or failed
  Errc code = Errc::ok;            // why its bytes are missing
};
struct NativeValuePage {
  std::vector<NativeValue> values;  // in byte order of their keys
  bool more = false;
};

// unsupported: the server's session is of version 1. Failures of single values are reported in the page.
Result<NativeValuePage> list_values(NativeStreams& streams, const NativeValues& request);
// By a stream of a session of version 2 or later.
Result<NativeValuePage> list_values(NativeStream& stream, const NativeValues& request);

}  // namespace verbena::client
