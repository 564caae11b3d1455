// A small object with all its bytes, to be stored without a coroutine (Store::put_whole).
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <string_view>

#include "store/store.h"

namespace verbena::store {

struct WholePut {
  std::string_view bucket, key;  // valid while put_whole() runs
  // The bucket's creation time, which distinguishes it from other buckets of its name: nothing is stored in another
  // one. 0: any bucket.
  int64_t bucket_created_us = 0;
  ObjectInfo info;      // as for ObjectWriter::commit()
  memory::Chunk bytes;  // stored_size(info) bytes, at least one
  boost::asio::any_io_executor executor;
  Wanted wanted{};
  bool more_follow = false;  // more objects follow at once and can share the sync
  // Called exactly once with the result of commit(): within put_whole(), or later on the executor.
  std::move_only_function<void(Result<ObjectInfo>&&)> then;
};

}  // namespace verbena::store
