// Search in the access log's own files, newest line first, a page at a time (docs/admin.md). What a call may read, take
// and answer is bounded, whatever the files hold; a page that ends for that says where the next one goes on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace verbena::admin {

// What a line must have; what is empty asks for nothing.
struct AuditFilter {
  int64_t since_us = 0;                                    // when the request came, at the earliest
  int64_t until_us = std::numeric_limits<int64_t>::max();  // and before this
  std::string text = {};                                   // part of any of its texts, whatever the case
  std::string principal = {};                              // part of its ARN, whatever the case, or its access key
  std::string account = {};                                // id
  std::string action = {};                                 // part, whatever the case: "PUT object"
  std::string bucket = {}, door = {}, request_id = {}, error = {};
  std::string prefix = {};                // of the key
  std::string peer = {};                  // an address, or a range of them ("10.0.0.0/8")
  int status_first = 0, status_last = 0;  // both 0: any
};

struct AuditBounds {
  size_t lines_max = 100;                  // of one page
  uint64_t read_bytes_max = 256ull << 20;  // of the files
  size_t answer_bytes_max = 1 << 20;       // of lines as they lie there, but for one
  std::chrono::milliseconds time_max{1000};
};

struct AuditPage {
  std::vector<nlohmann::json> lines;  // of known members alone
  std::string next;                   // where to go on; empty: that was all
  uint64_t bytes_read = 0;
  uint64_t unreadable = 0;            // lines that no server has written so, or not to their ends
  std::vector<std::string> problems;  // files that cannot be read, for people
  std::string reaches;                // time of the oldest line that was looked at; empty: none was
};

// `path`, path.1 to path.`files_max`, and what is kept of those before them (http/access_log_history.h). `from`: a
// page's `next`, or empty for the newest lines; invalid_argument when it is none, or its file is gone. An end in the
// middle (`stopping`) is a page like any other. Blocks.
Result<AuditPage> search_audit(const std::string& path, unsigned files_max, const AuditFilter& filter,
                               const std::string& from, const AuditBounds& bounds, const std::atomic<bool>& stopping);

}  // namespace verbena::admin
