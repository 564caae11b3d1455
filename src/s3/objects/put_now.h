// PUT of a small object whose bytes are here already: no coroutine is made for it.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <string_view>
#include <vector>

#include "s3/service.h"

namespace verbena::s3 {

struct PutNow {
  std::string_view bucket, key;  // for as long as put_now() runs
  Headers headers{};             // as PutRequest has these two
  std::vector<store::Checksum> expected{};
  memory::Chunk bytes{};
  boost::asio::any_io_executor executor{};
  bool more_follow = false;  // as WholePut has it
  // What put_object() would return. Once: within put_now(), or later on the executor.
  std::move_only_function<void(Result<store::ObjectInfo>)> then{};
};

inline constexpr uint64_t put_now_max = 16 * KiB;  // larger objects are never taken

enum class PutNowOutcome : uint8_t {
  done,     // taken: `put.then` is called with what the store says
  refused,  // `put.then` was called with the error that put_object() would return
  wait,     // something has to be waited for: nothing was stored, and put_object() is to be called
};

// put_object() of a request without conditions, MD5 and whatever else PutNow does not have: one look (write_plan.h),
// and the store's put_whole() where the plan says go. On `wait` the bytes are still in `put`; its other fields are
// unusable.
PutNowOutcome put_now(Service& service, const Call& call, PutNow& put);

}  // namespace verbena::s3
