#include "s3/documents/bucket_document.h"

#include <array>
#include <cstddef>

#include "base/bytes.h"
#include "base/checksum.h"
#include "s3/access_generation.h"
#include "s3/service.h"

namespace verbena::s3 {
namespace {

// What the store answers only if nothing was changed. After any other failure the change may have happened.
bool is_refusal(Errc code) {
  switch (code) {
    case Errc::bucket_already_exists:
    case Errc::bucket_not_empty:
    case Errc::too_many_buckets:
    case Errc::invalid_bucket_state:
    case Errc::invalid_argument:
    case Errc::precondition_failed:
    case Errc::too_large:
    case Errc::limit_exceeded:
    case Errc::insufficient_storage:
      return true;
    default:
      return false;
  }
}

// Documents that no access record is made of (access/access.cc), and that nothing else caches.
bool is_in_no_record(std::string_view name) {
  return name == cors_document || name == tagging_document || name == append_document;
}

std::string hash_of(std::string_view text) { return to_hex(as_bytes(sha256(as_bytes(text)))); }

}  // namespace

std::string policy_binding(std::string_view policy) {
  std::array<std::byte, 16> own;
  fill_random(own);
  return hash_of(policy) + "." + to_hex(own);
}

bool binds_root(const store::Document& policy, const store::Document& binding) {
  if (policy == nullptr || binding == nullptr) return false;
  return *binding == "root" || binding->starts_with(hash_of(*policy));
}

void note_change(Service& service, const std::string& bucket, const Result<void>& outcome) {
  if (outcome || !is_refusal(outcome.error().code)) service.access->changed(bucket);
}

Task<Result<void>> keep_document(Service& service, store::NamedBucket bucket, std::string_view name, std::string text) {
  auto done = co_await service.store.set_document(bucket, name, std::move(text));
  if (!is_in_no_record(name)) note_change(service, std::string(bucket.name), done);
  co_return done;
}

Task<Result<void>> replace_document(Service& service, store::NamedBucket bucket, std::string_view name,
                                    store::Document was, std::string text) {
  const bool none = was == nullptr && text.empty();
  auto done = co_await service.store.replace_document(bucket, name, std::move(was), std::move(text));
  if (!(none && done) && !is_in_no_record(name)) note_change(service, std::string(bucket.name), done);
  co_return done;
}

Task<Result<void>> drop_document(Service& service, store::NamedBucket bucket, std::string_view name) {
  const uint64_t generation = service.access->now(bucket.name);
  const auto there = co_await service.store.document(bucket.name, name);
  // Committed even if there is none: of a change that failed the store may not know whether a crash brings it back.
  auto done = co_await service.store.remove_document(bucket, name);
  // One that another request has set meanwhile has made, or will make, the number another one.
  const bool none = !there && there.error() == Errc::not_found && service.access->now(bucket.name) == generation;
  if (!none && !is_in_no_record(name)) note_change(service, std::string(bucket.name), done);
  co_return done;
}

}  // namespace verbena::s3
