// What the files of the C API share. No exception leaves its functions.
#pragma once

#include <algorithm>
#include <new>
#include <string>
#include <string_view>

#include "client/outcome.h"
#include "verbena/client.h"
#include "verbena/verbena.h"

struct verbena_client {
  verbena::Client client;
};
struct verbena_buffer {
  verbena::Buffer buffer;
};
struct verbena_list {
  verbena::Client client;
  std::string bucket;
  verbena::ListOptions options;
  verbena::ListPage page;
  size_t next = 0;
  bool started = false;
};

namespace verbena::c_api {

inline thread_local std::string last_error;

inline int failed(const verbena::ClientError& error) {
  last_error = error.message;
  return static_cast<int>(error.code);
}

// Runs `body` (returning Outcome<>), and turns what it says into a code.
template <class Fn>
int guarded(Fn&& body) noexcept {
  try {
    last_error.clear();
    Outcome<> outcome = body();
    return outcome ? VERBENA_OK : failed(outcome.error());
  } catch (const std::bad_alloc&) {
    last_error.clear();
    return VERBENA_LOCAL_ERROR;
  } catch (const std::exception& problem) {
    return failed({ErrorCode::local_error, problem.what(), {}, 0, {}});
  }
}

inline std::string text(const char* value) { return value == nullptr ? std::string() : std::string(value); }

template <size_t n>
void copy_text(char (&into)[n], std::string_view from) {
  const size_t size = std::min(from.size(), n - 1);
  std::copy_n(from.begin(), size, into);
  into[size] = '\0';
}

inline void fill(verbena_object* out, const verbena::ObjectInfo& info) {
  if (out == nullptr) return;
  out->size = info.size;
  out->modified_us =
      std::chrono::duration_cast<std::chrono::microseconds>(info.last_modified.time_since_epoch()).count();
  copy_text(out->etag, info.etag);
}

inline void fill(verbena_transfer* out, const verbena::Transfer& transfer) {
  if (out == nullptr) return;
  copy_text(out->door, verbena::to_string(transfer.door));
  copy_text(out->provider, transfer.provider);
  out->bytes = transfer.bytes;
  copy_text(out->fell_back_reason, transfer.fell_back_reason);
}

inline auto null_argument() {
  return verbena::client::fault(ErrorCode::invalid_argument, "a required argument is NULL");
}

}  // namespace verbena::c_api
