#include "s3/objects/hot_reads.h"

#include "auth/limits.h"
#include "s3/access/authorize.h"
#include "s3/access/bound.h"
#include "s3/objects/read.h"

namespace verbena::s3 {

bool HotReads::may_read_all() {
  const uint64_t credentials_now = caller_->identity.generation;
  if (credentials_ == credentials_now && service_->access->is_current(record_)) return all_;
  const BucketAccess* const access = cached_access(*service_, bucket_);
  if (access == nullptr) return false;  // the first read that may wait fetches it
  all_ = authorize_all(*service_, *caller_, *access, action::get_object);
  bound_ = access->bound;
  record_ = access->mark;
  credentials_ = credentials_now;
  return all_;
}

void HotReads::note_bounded_read(std::string_view key, const store::ObjectInfo& seen) const {
  bound_->note_read(key, seen, service_->clock);
}

HotReads::Found HotReads::find(std::string_view key) {
  if (!looks_in_memory()) return {};
  auto object = service_->store.hot(bucket_, key);
  if (object == nullptr) return {Answer::absent};
  if (!is_sent_as_it_lies(object->info())) return {};
  note_read(key, object->info());
  return {Answer::present, std::move(object)};
}

// Only an ObjectRead charges rates.
bool HotReads::looks_in_memory() { return may_read_all() && !auth::rates_are_in_use(); }

}  // namespace verbena::s3
