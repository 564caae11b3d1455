// Appends: bytes that are added to the end of an object in one change. What readers have open stays as it was.
//
// An object that was appended to is a list of parts like one that was uploaded in parts; parts that appends made have
// no entity tag. Small ones do not stay: an append takes the last part along into its own when that is short, and
// eight parts of about one size become one. So a log that is written record by record has few parts, each of its bytes
// is written a few times over its life, and the last of them lie with the rows, where a commit costs one sync.
//
// Small appends to a key that wait for the one before them are one change together (AppendQueues), each with its own
// conditions and its own answer.
//
// An object that lies encrypted grows likewise: what is appended becomes a part under the object's key, with a salt of
// its own (sealed_object.h), short parts are opened and sealed anew, and each change authenticates the new list.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/append_seal.h"
#include "store/logic/context.h"

namespace verbena::store {

// One append and its answer.
struct Appending {
  ObjectInfo info;  // size: bytes that come. Headers and what else there is count where it makes the object
  CommitConditions conditions;
  AppendSealPtr seal{};  // null: what is there must not be encrypted
  memory::Chunk bytes{};

  Result<ObjectInfo> outcome = fail(Errc::internal, "append: no answer");
  std::function<void()> done{};  // called once, on any thread
};
using AppendingPtr = std::shared_ptr<Appending>;

// Appends that wait, by key. Thread-safe.
class AppendQueues {
 public:
  static constexpr uint64_t group_bytes_max = 1 * MiB;
  static constexpr size_t group_max = 1024;
  using Name = std::pair<uint64_t, std::string>;  // bucket, key

  // True: nobody serves this key's queue, so the caller has to.
  bool add(const Name& name, AppendingPtr one);
  // The next to be done together. None: the queue is gone, and the next add() says true.
  std::vector<AppendingPtr> take(const Name& name);
  // Those that wait will never be served: their callers' loop is ending.
  void abandon(const Name& name);

 private:
  std::mutex mutex_;
  std::map<Name, std::deque<AppendingPtr>> queues_;
};

// Does these in order, as one change; those that cannot be done fail by themselves. All have their outcome then.
Task<void> append_group(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket, std::string key,
                        std::vector<AppendingPtr> group);

// What a long one needs, whose bytes are written as they come.

// Of the object that is there now; nullopt: there is none.
Task<Result<std::optional<Attributes>>> attributes_now(std::shared_ptr<Context> context,
                                                       std::shared_ptr<const Bucket> bucket, std::string key);
struct WrittenPart {
  std::shared_ptr<BlobWriter> bytes;
  Attributes attributes{};  // where it was sealed, and under which object's key
  Secret sealed_under{};
};
// Makes it the last part of whatever is there.
Task<Result<ObjectInfo>> append_part(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                                     std::string key, AppendingPtr one, WrittenPart part);

// Takes bytes as any writer does; its commit appends them. Of its conditions if_size is the size that the object must
// have (invalid_write_offset; 0 where there is none), if_match and if_none_match are as for any commit, if_without is
// an attribute that it must not have if there is no `seal` (encryption_type_mismatch). Answers with the object as it is
// with these bytes at its end. too_many_parts; invalid_bucket_state: the bucket has or had versions;
// conditional_conflict: many bytes were sealed for an object that was another one in the end.
std::unique_ptr<ObjectWriter> make_append_writer(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                                                 std::string key, std::optional<uint64_t> size_hint,
                                                 AppendSealPtr seal);

}  // namespace verbena::store
