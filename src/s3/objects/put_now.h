// PUT of a small object whose bytes have arrived, without a coroutine.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <string_view>
#include <vector>

#include "s3/service.h"

namespace verbena::s3 {

struct PutNow {
  std::string_view bucket, key;  // valid while put_now() runs
  Headers headers{};             // these two as in PutRequest
  std::vector<store::Checksum> expected{};
  memory::Chunk bytes{};
  boost::asio::any_io_executor executor{};
  store::Wanted wanted{};
  bool more_follow = false;  // as in WholePut
  // Called exactly once with the result of put_object(): within put_now(), or later on the executor.
  std::move_only_function<void(Result<store::ObjectInfo>&&)> then{};
};

// Larger objects are never taken, nor any above the store's whole_put_max().
inline constexpr uint64_t put_now_max = 64 * KiB;

enum class PutNowOutcome : uint8_t {
  done,     // accepted: `put.then` is called with the store's result
  refused,  // `put.then` was called with the error that put_object() would return
  wait,     // it cannot be done without waiting: nothing was stored; call put_object()
};

// put_object() for requests that consist of PutNow's fields only (no conditions, no MD5): one look (write_plan.h), then
// the store's put_whole(). On `wait` the bytes are still in `put`; its other fields are unusable.
PutNowOutcome put_now(Service& service, const Call& call, PutNow& put);

}  // namespace verbena::s3
