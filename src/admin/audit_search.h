// Search in the access log's own files, newest line first, a page at a time (docs/admin.md). Reading, time and answer
// of a call are bounded, whatever the files contain; a page that ends early names where the next one continues.
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

// Conditions on a line; empty members match all.
struct AuditFilter {
  int64_t since_us = 0;                                    // when the request arrived, at the earliest
  int64_t until_us = std::numeric_limits<int64_t>::max();  // and before this
  std::string text = {};                                   // part of any of its texts, ignoring case
  std::string principal = {};                              // part of its ARN, ignoring case, or its access key
  std::string account = {};                                // id
  std::string action = {};                                 // part, ignoring case: "PUT object"
  std::string bucket = {}, door = {}, request_id = {}, error = {};
  std::string prefix = {};                // of the key
  std::string peer = {};                  // an address, or a range of them ("10.0.0.0/8")
  int status_first = 0, status_last = 0;  // both 0: any
};

struct AuditBounds {
  size_t lines_max = 100;                  // of one page
  uint64_t read_bytes_max = 256ull << 20;  // of the files
  size_t answer_bytes_max = 1 << 20;       // of lines as stored, except for a single one
  std::chrono::milliseconds time_max{1000};
};

struct AuditPage {
  std::vector<nlohmann::json> lines;  // with known members only
  std::string next;                   // where to continue; empty: the end
  uint64_t bytes_read = 0;
  uint64_t unreadable = 0;            // lines that no server has written so, or not completely
  std::vector<std::string> problems;  // files that cannot be read, for users
  std::string reaches;                // time of the oldest line read; empty: none
};

// Searches `path`, path.1 to path.`files_max`, and archived ones before them (call/access_log_history.h). `from`: a
// page's `next`, or empty for the newest lines; invalid_argument when it is malformed, or its file is gone. An early
// end (`stopping`) is a page like any other. Blocks.
Result<AuditPage> search_audit(const std::string& path, unsigned files_max, const AuditFilter& filter,
                               const std::string& from, const AuditBounds& bounds, const std::atomic<bool>& stopping);

}  // namespace verbena::admin
