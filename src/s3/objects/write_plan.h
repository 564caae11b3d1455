// What a write needs before its bytes come, found by looks that never wait and may run again.
//
// A look answers with a plan (go), an error (refusal), or the one thing that has to be fetched before the next look.
// A write whose facts are at hand is planned by its first look; any other by settle_plan(), which fetches and looks
// again. The same judge is asked once more before the commit where a key or a document may have changed meanwhile.
#pragma once

#include <optional>
#include <string_view>

#include "s3/access/access.h"
#include "s3/service.h"

namespace verbena::s3 {

enum class WriteOf : uint8_t { object, part };

// A write's request as far as it is judged. Views; null: the request brings none.
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
// Of a whole object. `request` keeps its place for as long as the result is used.
PlannedWrite planned(const PutRequest& request, std::optional<uint64_t> size);

// What a plan is made of besides the request; a look says which of it is missing.
struct WriteFacts {
  const BucketAccess* access = nullptr;
  BucketAccessPtr held{};  // keeps `access`; null: it is valid until this thread's next look for a bucket
  // The key's current object, for conditions.
  std::optional<Result<store::ObjectInfo>> current{};
  // The bucket's default encryption; null inside: it has none.
  std::optional<store::Document> encryption{};
};
WriteFacts facts_at_hand(const Service& service, const PlannedWrite& write);

enum class WriteNeed : uint8_t { nothing, access, current, encryption };

struct WritePlan {
  WriteNeed needs = WriteNeed::nothing;  // anything else: what follows is not settled yet
  store::Attributes attributes{};        // of a new object: whose it is, its list
  EncryptionWish encryption{};           // by the request, the session, the bucket or the server; none: plain
};

// The right to write: of the object with its list, tags and lock, and to what its conditions disclose. access_denied,
// acl_not_supported.
Result<WritePlan> judge_write(const Service& service, const Call& call, const PlannedWrite& write,
                              const WriteFacts& have);

// The whole plan: names, headers, rights, size, encryption.
Result<WritePlan> plan_write(const Service& service, const Call& call, const PlannedWrite& write,
                             const WriteFacts& have);

// Goes on from `looked`, what the look (plan_write() or judge_write()) said: fetches what is missing and looks again,
// until there is an answer.
using WriteLook = Result<WritePlan>(const Service& service, const Call& call, const PlannedWrite& write,
                                    const WriteFacts& have);
Task<Result<WritePlan>> settle_plan(Service& service, const Call& call, const PlannedWrite& write, WriteFacts& have,
                                    Result<WritePlan> looked, WriteLook& look = plan_write);

// A body may take minutes. The same judge by the caller's key and the bucket's record as they are now, and the new
// object's attributes by them. What a new request would get; no_such_bucket: another bucket has the name of `before`.
Task<Result<store::Attributes>> judge_again(Service& service, const Call& call, const PlannedWrite& write,
                                            const BucketAccess& before);

}  // namespace verbena::s3
