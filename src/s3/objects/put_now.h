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

// What put_object() does of a request without conditions, MD5 and whatever else PutNow does not have. True: `put.then`
// is told. False: nothing was stored, and put_object() has to say what becomes of it. The bytes are still there then,
// the rest is of no use any more.
bool put_now(Service& service, const Call& caller, PutNow& put);

}  // namespace verbena::s3
