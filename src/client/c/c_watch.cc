// The C API's watches.
#include <mutex>

#include "client/c/c_api.h"

struct verbena_watch {
  verbena::Watch watch;
  std::mutex mutex;  // guards news that were received and are not taken yet
  verbena::WatchNews news;
  size_t next = 0;
};

namespace {

using namespace verbena::c_api;
using verbena::Outcome;

void fill(verbena_change* out, const verbena::KeyChange& from) {
  if (out == nullptr) return;
  verbena_change change{};
  change.what = static_cast<int>(from.what);
  change.size = from.size;
  change.time_us = microseconds(from.time);
  change.number = from.number;
  copy_text(change.etag, from.etag);
  copy_text(change.version_id, from.version_id);
  give(out, change);
}

}  // namespace

extern "C" {

int verbena_watch_begin(verbena_client* client, const char* bucket, const verbena_watch_options* options,
                        verbena_watch** watch) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr || watch == nullptr) return null_argument();
    *watch = nullptr;
    OUT_ASSIGN(const auto request, watch_request(options));
    OUT_ASSIGN(auto begun, client->client.watch(bucket, request));
    *watch = new verbena_watch{std::move(begun), {}, {}, 0};
    return {};
  });
}

int verbena_watch_next(verbena_watch* watch, int timeout_ms, const char** key, verbena_change* change) {
  int found = VERBENA_WATCH_NOTHING;
  const int code = guarded([&]() -> Outcome<> {
    if (watch == nullptr || key == nullptr) return null_argument();
    OUT_TRY(fillable(change));
    *key = nullptr;
    const std::lock_guard lock(watch->mutex);
    if (watch->next == watch->news.changes.size()) {
      using std::chrono::milliseconds;
      OUT_ASSIGN(watch->news, watch->watch.next(timeout_ms < 0 ? milliseconds::max() : milliseconds(timeout_ms)));
      watch->next = 0;
    }
    if (std::exchange(watch->news.gap, false)) {
      found = VERBENA_WATCH_GAP;
      return {};
    }
    if (watch->news.changes.empty()) return {};
    const verbena::KeyChange& told = watch->news.changes[watch->next++];
    *key = told.key.c_str();
    fill(change, told);
    found = VERBENA_WATCH_CHANGE;
    return {};
  });
  return code != VERBENA_OK ? -code : found;
}

void verbena_watch_stop(verbena_watch* watch) {
  if (watch == nullptr) return;
  (void)guarded([&]() -> Outcome<> {
    watch->watch.end();
    return {};
  });
}

void verbena_watch_end(verbena_watch* watch) { delete watch; }

const char* verbena_key_event_name(int what) {
  if (what < 0 || what > 255) return "?";
  return verbena::to_string(static_cast<verbena::KeyEvent>(what)).data();  // of a literal
}

}  // extern "C"
