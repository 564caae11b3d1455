#include "s3/documents/bucket_document.h"

#include "s3/documents/access_generation.h"
#include "s3/service.h"

namespace verbena::s3 {

Task<Result<void>> keep_document(Service& service, const std::string& bucket, std::string_view name, std::string text) {
  auto done = co_await service.store.set_document(bucket, name, std::move(text));
  service.access->changed();
  co_return done;
}

Task<Result<void>> drop_document(Service& service, const std::string& bucket, std::string_view name) {
  auto done = co_await service.store.remove_document(bucket, name);
  service.access->changed();
  co_return done;
}

}  // namespace verbena::s3
