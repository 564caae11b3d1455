#include "server/process_metrics.h"

#include <sys/statvfs.h>

#include <mutex>

#include "base/metrics.h"

namespace verbena::server {
namespace {

#if defined(__clang__)
constexpr const char* compiler = "clang " __clang_version__;
#else
constexpr const char* compiler = "gcc " __VERSION__;
#endif

struct Watched {
  std::mutex mutex;
  std::filesystem::path data;
};
Watched& watched() {
  static auto* const instance = new Watched;
  return *instance;
}

void read_space() {
  std::filesystem::path data;
  {
    const std::lock_guard lock(watched().mutex);
    data = watched().data;
  }
  struct statvfs found{};
  if (data.empty() || ::statvfs(data.c_str(), &found) != 0) return;
  static auto& free = metrics::gauge("verbena_store_free_bytes", "Free on the file system of the data directory");
  static auto& size = metrics::gauge("verbena_store_size_bytes", "Size of the file system of the data directory");
  free.set(static_cast<int64_t>(found.f_bavail * found.f_frsize));
  size.set(static_cast<int64_t>(found.f_blocks * found.f_frsize));
}

}  // namespace

void export_process_metrics(const std::filesystem::path& data) {
  metrics::gauge("verbena_build_info", "What this server is; always 1",
                 {{"version", VERBENA_VERSION}, {"compiler", compiler}})
      .set(1);
  {
    const std::lock_guard lock(watched().mutex);
    watched().data = data;
  }
  static std::once_flag once;
  std::call_once(once, [] { metrics::before_exposition(read_space); });
}

}  // namespace verbena::server
