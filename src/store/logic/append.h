// Appends: bytes that are added to the end of an object in one change. Open readers keep seeing the object as it was.
//
// An object that was appended to is a list of parts like a multipart upload; parts made by appends have no entity tag.
// Small parts are merged: an append absorbs a short last part into its own, and eight parts of about one size become
// one. So a log that is written record by record has few parts, each of its bytes is written a few times over its life,
// and its last parts are stored with the rows, where a commit costs one sync.
//
// Small appends to a key that wait for the one before them become one change (AppendQueues), each with its own
// conditions and its own answer.
//
// An encrypted object grows likewise: appended bytes become a part under the object's key, with a salt of its own
// (sealed_object.h), short parts are decrypted and encrypted again, and each change authenticates the new list.
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
  ObjectInfo info;  // size: of the appended bytes. Headers and the rest count if the append creates the object
  CommitConditions conditions;
  AppendSealPtr seal{};  // null: the object must not be encrypted
  memory::Chunk bytes{};

  Result<ObjectInfo> outcome = fail(Errc::internal, "append: no answer");
  std::function<void()> done{};  // called once, on any thread
};
using AppendingPtr = std::shared_ptr<Appending>;

// Waiting appends, by key. Thread-safe.
class AppendQueues {
 public:
  static constexpr uint64_t group_bytes_max = 1 * MiB;
  static constexpr size_t group_max = 1024;
  using Name = std::pair<uint64_t, std::string>;  // bucket, key

  // True: this key's queue has no server, so the caller must serve it.
  bool add(const Name& name, AppendingPtr one);
  // The next appends to make as one change. Empty: the queue is gone, and the next add() returns true.
  std::vector<AppendingPtr> take(const Name& name);
  // Drops the queue's appends unserved: their callers' loop is ending.
  void abandon(const Name& name);

 private:
  std::mutex mutex_;
  std::map<Name, std::deque<AppendingPtr>> queues_;
};

// Makes these appends in order, as one change; each that cannot be made fails by itself. On return all have their
// outcome.
Task<void> append_group(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket, std::string key,
                        std::vector<AppendingPtr> group);

// For a long append, whose bytes are written as they arrive.

// The attributes of the current object; nullopt: there is none.
Task<Result<std::optional<Attributes>>> attributes_now(std::shared_ptr<Context> context,
                                                       std::shared_ptr<const Bucket> bucket, std::string key);
struct WrittenPart {
  std::shared_ptr<BlobWriter> bytes;
  Attributes attributes{};  // if it was sealed: of the object whose key sealed it
  Secret sealed_under{};
};
// Adds the blob as the last part of the current object.
Task<Result<ObjectInfo>> append_part(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                                     std::string key, AppendingPtr one, WrittenPart part);

// A writer whose commit appends the written bytes. Its conditions: if_size is the size that the object must have
// (invalid_write_offset; 0 if there is no object; quota_exceeded without may_make_object), if_match and if_none_match
// are as for any commit, if_without is an attribute that the object must not have if there is no `seal`
// (encryption_type_mismatch). Returns the object including the new bytes. too_many_parts; invalid_bucket_state: the
// bucket has or had versions; conditional_conflict: many bytes were sealed for an object that was replaced meanwhile.
std::unique_ptr<ObjectWriter> make_append_writer(std::shared_ptr<Context> context, std::shared_ptr<const Bucket> bucket,
                                                 std::string key, std::optional<uint64_t> size_hint,
                                                 AppendSealPtr seal);

}  // namespace verbena::store
