// A small object whose bytes are all here, to be stored without a coroutine (Store::put_whole).
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <string_view>

#include "store/store.h"

namespace verbena::store {

struct WholePut {
  std::string_view bucket, key;  // for as long as put_whole() runs
  // When that bucket was made, which tells it from others that have its name in time; another one takes nothing. 0:
  // any.
  int64_t bucket_created_us = 0;
  ObjectInfo info;      // as ObjectWriter::commit() takes it
  memory::Chunk bytes;  // stored_size(info) of them, one at least
  boost::asio::any_io_executor executor;
  bool more_follow = false;  // others come within a moment, for which the same sync is enough
  // What commit() would return. Once: within put_whole(), or later on the executor.
  std::move_only_function<void(Result<ObjectInfo>)> then;
};

}  // namespace verbena::store
