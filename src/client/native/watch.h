// A watch of the native door (docs/native-protocol.md 3.8): begun anew on a new session where the old one was lost.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "client/native/session.h"

namespace verbena::client {

class NativeLane;
class NativeLanes;

struct NativeChange {
  uint8_t what = 0;
  std::string key, version_id, etag;
  uint64_t size = 0;
  int64_t time_us = 0;
  uint64_t number = 0;
};
struct NativeNews {
  bool gap = false;
  std::vector<NativeChange> changes;
};

// Of one thread at a time.
class NativeWatch {
 public:
  static Result<std::unique_ptr<NativeWatch>> open(std::shared_ptr<NativeSession> session, std::string bucket,
                                                   std::string prefix, const std::stop_token& stop);
  ~NativeWatch();  // tells the server
  NativeWatch(const NativeWatch&) = delete;

  // Nothing in it when the time has come. timed_out, cancelled, slow_down: the watch goes on. Another error ends it on
  // the server; the next call begins another one.
  Result<NativeNews> next(Deadline until, const std::stop_token& stop);

 private:
  NativeWatch(std::shared_ptr<NativeSession> session, std::string bucket, std::string prefix);
  NativeLane& lane() const;
  Result<void> begin(NativeLanes& lanes, const std::stop_token& stop);
  Result<NativeNews> ask(NativeLanes& lanes, Deadline until, const std::stop_token& stop);
  void forget();

  const std::shared_ptr<NativeSession> session_;
  const std::string bucket_, prefix_;
  std::shared_ptr<NativeLanes> lanes_;  // where it was begun; null: nowhere
  uint64_t id_ = 0;                     // there
  uint64_t seen_ = 0;                   // of the numbers there
  uint64_t before_ = 0;                 // numbers that were given by earlier ones
};

}  // namespace verbena::client
