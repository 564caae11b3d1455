// A watch of the native door (docs/native-protocol.md 3.8), begun anew on a new session when the old one was lost.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "client/native/session.h"

namespace verbena::client {

class NativeStream;
class NativeStreams;

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

// Used by one thread at a time.
class NativeWatch {
 public:
  static Result<std::unique_ptr<NativeWatch>> open(std::shared_ptr<NativeSession> session, std::string bucket,
                                                   std::string prefix, const std::stop_token& stop);
  ~NativeWatch();  // ends the watch on the server
  NativeWatch(const NativeWatch&) = delete;

  // The next events; none when the deadline has come. After timed_out, cancelled and slow_down the watch goes on. Any
  // other error ends it on the server; the next call begins another.
  Result<NativeNews> next(Deadline until, const std::stop_token& stop);

 private:
  NativeWatch(std::shared_ptr<NativeSession> session, std::string bucket, std::string prefix);
  NativeStream& stream() const;
  Result<void> begin(NativeStreams& streams, const std::stop_token& stop);
  Result<NativeNews> ask(NativeStreams& streams, Deadline until, const std::stop_token& stop);
  void forget();

  const std::shared_ptr<NativeSession> session_;
  const std::string bucket_, prefix_;
  std::shared_ptr<NativeStreams> streams_;  // the session of the watch; null: none
  uint64_t id_ = 0;                         // in that session
  uint64_t seen_ = 0;                       // of the event numbers in that session
  uint64_t before_ = 0;                     // event numbers used in earlier sessions
};

}  // namespace verbena::client
