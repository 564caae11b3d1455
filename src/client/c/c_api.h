// Declarations shared by the files of the C API. Its functions let no exception out.
#pragma once

#include <algorithm>
#include <cstring>
#include <new>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "client/outcome.h"
#include "verbena/client.h"
#include "verbena/verbena.h"

struct verbena_client {
  verbena::Client client;
};
struct verbena_buffer {
  verbena::Buffer buffer;
};
struct verbena_info {
  verbena::ObjectInfo info;
  std::vector<verbena_pair> metadata, headers;  // into `info`
};
struct verbena_page {
  verbena::ListPage page;
};
struct verbena_list {
  verbena::Client client;
  std::string bucket;
  verbena::ListOptions options;
  verbena::ListPage page;
  size_t next = 0;
  bool started = false;
};
struct verbena_cancellation {
  std::stop_source source;
};

namespace verbena::c_api {

inline thread_local ClientError last_error{ErrorCode{}, {}, {}, 0, {}};

inline int failed(const verbena::ClientError& error) {
  last_error = error;
  return static_cast<int>(error.code);
}

// Runs `body` (returning Outcome<>) and converts its error to a code.
template <class Fn>
int guarded(Fn&& body) noexcept {
  try {
    last_error.code = ErrorCode{};
    last_error.message.clear();
    Outcome<> outcome = body();
    return outcome ? VERBENA_OK : failed(outcome.error());
  } catch (const std::bad_alloc&) {
    last_error.code = ErrorCode::local_error;
    last_error.message.clear();
    return VERBENA_LOCAL_ERROR;
  } catch (const std::exception& problem) {
    return failed({ErrorCode::local_error, problem.what(), {}, 0, {}});
  }
}

inline std::string text(const char* value) { return value == nullptr ? std::string() : std::string(value); }

// As much of it as there is room for, cut between two characters of UTF-8.
template <size_t n>
void copy_text(char (&into)[n], std::string_view from) {
  size_t size = std::min(from.size(), n - 1);
  const auto continues = [&](size_t at) { return (static_cast<unsigned char>(from[at]) & 0xc0) == 0x80; };
  // A character has three bytes after its first one at most: what has more is no UTF-8.
  for (int back = 0; back < 3 && size != 0 && size < from.size() && continues(size); ++back) --size;
  std::copy_n(from.begin(), size, into);
  into[size] = '\0';
}

inline int64_t microseconds(std::chrono::system_clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count();
}

inline auto null_argument() {
  return verbena::client::fault(ErrorCode::invalid_argument, "a required argument is NULL");
}

inline constexpr size_t struct_size_max = 4096;

// The part of a structure that the caller's version has; the rest is zero, as is all of it for NULL.
template <class T>
Outcome<T> known(const T* from) {
  T out{};
  if (from == nullptr) return out;
  const size_t size = from->struct_size;
  if (size < sizeof size || size > struct_size_max) {
    return verbena::client::fault(ErrorCode::invalid_argument, "struct_size is not the size of the structure");
  }
  std::memcpy(static_cast<void*>(&out), from, std::min(size, sizeof out));
  return out;
}

// Checks a structure that the caller wants filled (or NULL) before anything is done.
template <class T>
Outcome<> fillable(const T* into) {
  OUT_TRY(known(into));
  return {};
}

// Writes the part that the caller's version has.
template <class T>
void give(T* into, T full) {
  full.struct_size = into->struct_size;
  std::memcpy(static_cast<void*>(into), &full, std::min(into->struct_size, sizeof full));
}

inline void fill(verbena_object* out, const verbena::ObjectInfo& info) {
  if (out == nullptr) return;
  verbena_object object{};
  object.size = info.size;
  object.modified_us = microseconds(info.last_modified);
  copy_text(object.etag, info.etag);
  copy_text(object.version_id, info.version_id);
  give(out, object);
}

inline void fill(verbena_object* out, const verbena::PutReply& put) {
  if (out == nullptr) return;
  verbena_object object{};
  object.size = put.object_size != 0 ? put.object_size : put.transfer.bytes;  // of an append: the whole object
  copy_text(object.etag, put.etag);
  copy_text(object.version_id, put.version_id);
  give(out, object);
}

inline void fill(verbena_transfer* out, const verbena::Transfer& transfer) {
  if (out == nullptr) return;
  verbena_transfer made{};
  made.bytes = transfer.bytes;
  made.attempts = transfer.attempts;
  copy_text(made.door, verbena::to_string(transfer.door));
  copy_text(made.provider, transfer.provider);
  copy_text(made.fell_back_reason, transfer.fell_back_reason);
  copy_text(made.device_path, verbena::to_string(transfer.device_path));
  copy_text(made.device_verified, verbena::to_string(transfer.device_verified));
  give(out, made);
}

verbena_info* make_info(verbena::ObjectInfo info);
verbena_info* make_info(verbena::PutReply& put);  // takes its headers

// Requests converted from the C structures. Their pointers are read once, here.
struct GetRequest {
  verbena::GetOptions options;
  std::vector<verbena::Range> ranges;  // more than one
  verbena_info** info = nullptr;
};
Outcome<GetRequest> get_request(const verbena_get_options* options);
struct PutRequest {
  verbena::PutOptions options;
  verbena_info** info = nullptr;
};
Outcome<PutRequest> put_request(const verbena_put_options* options);
struct HeadRequest {
  verbena::HeadOptions options;
  verbena_info** info = nullptr;
};
Outcome<HeadRequest> head_request(const verbena_head_options* options);
Outcome<verbena::RemoveOptions> delete_request(const verbena_delete_options* options);
Outcome<verbena::RenameOptions> rename_request(const verbena_rename_options* options);
Outcome<verbena::ListOptions> list_request(const verbena_list_options* options);
Outcome<verbena::WatchOptions> watch_request(const verbena_watch_options* options);

Outcome<verbena::Buffer> part_of(const verbena_buffer* buffer, size_t offset, size_t size);

}  // namespace verbena::c_api
