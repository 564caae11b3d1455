#include "s3/workers/damaged_keys.h"

#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/metrics.h"

namespace verbena::s3 {
namespace {

metrics::Counter& damaged_keys() {
  static auto& counter = metrics::counter(
      "verbena_damaged_keys_total",
      "Keys with a damaged row of the index, which passes over buckets (TTL, lifecycle, bounds) met and left as they "
      "are; each once for a start of the server");
  return counter;
}

class Told {
 public:
  bool is_new(std::string_view bucket, std::string_view key) {
    const std::lock_guard lock(mutex_);
    return keys_.size() < told_keys_max && keys_.emplace(bucket, key).second;
  }

 private:
  std::mutex mutex_;
  std::set<std::pair<std::string, std::string>> keys_;  // guarded by mutex_
};

}  // namespace

void register_damaged_keys() { damaged_keys(); }

void tell_damaged(std::string_view pass, std::string_view bucket, std::string_view key) {
  static Told told;
  if (!told.is_new(bucket, key)) return;
  damaged_keys().add();
  log::error("{}: {}/{} has a damaged row in the index, and is passed over", pass, bucket, log::printable(key));
}

void tell_damaged(std::string_view pass, std::string_view bucket, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) tell_damaged(pass, bucket, key);
}

}  // namespace verbena::s3
