// One line per request, in a file of its own. Lines are queued and written by a thread, so that a slow disk never holds
// up a core; when the queue is full, lines are dropped and counted.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"

namespace verbena::http {

// What a line says. Views are borrowed for the call. Never a signature, a token or a query string: a presigned query is
// a credential.
struct AccessLine {
  int64_t time_us = 0;  // when the request came, microseconds since the epoch
  std::string_view peer = {};
  std::string_view access_key = {};  // empty: anonymous or not authenticated
  std::string_view method = {};
  std::string_view path = {};  // as sent, percent-encoded
  std::string_view door = {};
  int status = 0;
  std::string_view error_code = {};  // empty: none
  uint64_t bytes_in = 0, bytes_out = 0, rdma_bytes = 0;
  int64_t duration_us = 0;
  std::string_view request_id = {};
};

// 2026-01-02T03:04:05.678Z peer=127.0.0.1 key=AKID method=GET path="/b/k" door=http status=200 error=- bytes_in=0
// bytes_out=4096 rdma_bytes=0 duration_us=123 id=0123456789ABCDEF
std::string format_access_line(const AccessLine& line);

class AccessLog {
 public:
  // Appends to the file; "-" is standard output. bad_config with errno when it cannot be opened.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path);
  ~AccessLog();  // writes what is queued
  AccessLog(const AccessLog&) = delete;

  void write(const AccessLine& line);  // thread-safe
  uint64_t dropped() const;

 private:
  explicit AccessLog(int fd);
  void run();

  static constexpr size_t queued_bytes_max = 4 << 20;
  int fd_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::string queued_;
  uint64_t dropped_ = 0;
  bool stopping_ = false;
  std::thread writer_;
};

}  // namespace verbena::http
