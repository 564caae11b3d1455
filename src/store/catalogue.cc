#include "store/catalogue.h"

#include "base/log.h"
#include "store/blobs.h"

namespace verbena::store {

Result<void> Transaction::run(const Judge& judge, const BlobWriter* blob) {
  brought_ = blob == nullptr ? 0 : blob->id();
  contradicts_ = false;
  VB_TRY(judge(*this));
  if (!contradicts_) return {};
  log::error("store: a change would remove blob {}, which it brings: it is not made", brought_);
  return fail(Errc::internal, "store: a change kills its own blob");
}

}  // namespace verbena::store
