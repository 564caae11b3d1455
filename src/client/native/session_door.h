// The native door as the client uses it: a session that is opened on first use. After it could not be opened or broke,
// it is not tried again for a while. Thread-safe.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "client/native/many.h"
#include "client/native/match.h"
#include "client/native/session.h"
#include "client/native/watch.h"
#include "client/outcome.h"

namespace verbena::client {

class SessionDoor {
 public:
  SessionDoor(NativeOptions options, bool verify_checksums);

  // The session, opened if needed. connection_failed (with the reason) when it is not available now. A stop ends the
  // wait for it with `cancelled`, and not the opening.
  Outcome<std::shared_ptr<NativeSession>> session(const std::stop_token& stop = {});
  // Called after a failure of the door itself: it is not tried again for `rest`.
  void suspend(const ClientError& why);
  bool open() const;
  // Ends the session for good; requests in flight complete before this returns.
  void close();
  std::string provider() const;  // empty while closed

  // `memory`: the session memory that contains `into` or `from`, or nullptr.
  Outcome<GetReply> get(const std::string& bucket, const std::string& key, MutableBytes into,
                        const NativeMemory* memory, const GetOptions& options, std::span<const Range> ranges);
  Outcome<PutReply> put(const std::string& bucket, const std::string& key, Bytes from, const NativeMemory* memory,
                        const PutOptions& options);
  // Neither supports versions.
  Outcome<ObjectInfo> head(const std::string& bucket, const std::string& key, const HeadOptions& options);
  Outcome<> remove(const std::string& bucket, const std::string& key, const RemoveOptions& options);
  Outcome<> rename(const std::string& bucket, const std::string& from, const std::string& to,
                   const RenameOptions& options);
  Outcome<NativePage> list(const std::string& bucket, const ListOptions& options);

  // Sets the parts of `call` that this door decides (checksums, time). Answered items are marked in it, also on
  // failure.
  Outcome<> many(ManyCall& call);
  Outcome<> list_values(const std::string& bucket, const ValueOptions& options, MutableBytes into, ValuePage& page);

  // `unsupported`: the server knows no MATCH.
  Outcome<> match(const NativeMatch& keys, const MatchOptions& options, MatchReply& reply);
  void end_lease(uint64_t lease);  // best effort

  // `unsupported`: the server has no change feed.
  Outcome<std::unique_ptr<NativeWatch>> watch(const std::string& bucket, const std::string& prefix,
                                              const std::stop_token& stop);
  static Outcome<WatchNews> next(NativeWatch& watch, Deadline until, const std::stop_token& stop);

  // As above; `done` comes once, possibly on a progress thread: it must not block nor call this door.
  void get_async(const std::string& bucket, const std::string& key, MutableBytes into, const NativeMemory* memory,
                 const GetOptions& options, Callback<GetReply> done);
  void put_async(const std::string& bucket, const std::string& key, Bytes from, const NativeMemory* memory,
                 const PutOptions& options, Callback<PutReply> done);

 private:
  NativeOptions options_;
  bool verify_checksums_;
  mutable std::mutex mutex_;
  bool opening_ = false;  // one thread opens, the others wait for its result
  std::condition_variable_any opened_;
  std::shared_ptr<NativeSession> session_;
  std::shared_ptr<NativeSession> unopened_;  // whose caller did not wait for it
  void rest_for(const std::string& why);     // under the mutex
  Deadline closed_until_{};
  std::string closed_reason_;
};

}  // namespace verbena::client
