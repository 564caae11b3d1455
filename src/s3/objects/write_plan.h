// The plan of a write, made before its bytes arrive by looks that never wait and may run again.
//
// A look returns the plan, an error (refusal), or the one thing to fetch before the next look. If everything is cached,
// the first look returns the plan; else settle_plan() fetches and looks again. If a key or a document may have changed
// while the bytes arrived, the rights are judged again before the commit.
#pragma once

#include <optional>
#include <string_view>

#include "s3/access/access.h"
#include "s3/service.h"

namespace verbena::s3 {

enum class WriteOf : uint8_t { object, part };

// The parts of a write's request that are judged. Views; null: the request has none.
struct PlannedWrite {
  std::string_view bucket, key;
  WriteOf of = WriteOf::object;
  const Headers* headers = nullptr;
  const store::Tags* tags = nullptr;
  const store::ObjectLock* lock = nullptr;
  const store::CommitConditions* conditions = nullptr;
  const AclWish* acl = nullptr;
  const EncryptionWish* encryption = nullptr;
  uint64_t size = 0;  // as declared
};
// For a whole object. `request` must not move while the result is used.
PlannedWrite planned(const PutRequest& request, std::optional<uint64_t> size);

// The inputs of a plan besides the request; a look names the missing one.
struct WriteFacts {
  const BucketAccess* access = nullptr;
  BucketAccessPtr held{};  // owns `access`; null: `access` is valid until this thread's next look-up of a bucket
  // The key's current object, for conditions.
  std::optional<Result<store::ObjectInfo>> current{};
  // The bucket's default encryption; a null document: it has none.
  std::optional<store::Document> encryption{};
};
WriteFacts facts_at_hand(const Service& service, const PlannedWrite& write);

enum class WriteNeed : uint8_t { nothing, access, current, encryption };

struct WritePlan {
  WriteNeed needs = WriteNeed::nothing;  // else the fields below are not set yet
  store::Attributes attributes{};        // of a new object: its owner, its ACL
  EncryptionWish encryption{};           // by the request, the session, the bucket or the server; none: plain
};

// The rights only: to write the object with its ACL, tags and lock, and to what its conditions reveal. access_denied,
// acl_not_supported.
Result<WritePlan> judge_write(const Service& service, const Call& call, const PlannedWrite& write,
                              const WriteFacts& have);

// The whole plan: names, headers, rights, size, encryption.
Result<WritePlan> plan_write(const Service& service, const Call& call, const PlannedWrite& write,
                             const WriteFacts& have);

// Continues from `looked`, the result of a look (plan_write() or judge_write()): fetches what is missing and looks
// again, until there is a plan or a refusal.
using WriteLook = Result<WritePlan>(const Service& service, const Call& call, const PlannedWrite& write,
                                    const WriteFacts& have);
Task<Result<WritePlan>> settle_plan(Service& service, const Call& call, const PlannedWrite& write, WriteFacts& have,
                                    Result<WritePlan> looked, WriteLook& look = plan_write);

// Judges the rights again after the body, which may take minutes, by the caller's current key and the bucket's current
// record. Returns the new object's attributes. Errors as for a new request; no_such_bucket: a new bucket has the name
// of `before`.
Task<Result<store::Attributes>> judge_again(Service& service, const Call& call, const PlannedWrite& write,
                                            const BucketAccess& before);

}  // namespace verbena::s3
