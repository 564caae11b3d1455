// Changes of buckets and of their documents.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "store/catalogue.h"
#include "store/logic/bucket.h"

namespace verbena::store {

// `buckets` is told what happened, and lives as long as the change.
Change create_bucket_change(Buckets& buckets, BucketInfo info);  // bucket_already_exists
using BucketEdit = std::function<Result<void>(BucketInfo&)>;
Change edit_bucket_change(std::shared_ptr<const Bucket> bucket, BucketEdit edit);
// bucket_not_empty; documents go with it, uploads soon after.
Change remove_bucket_change(Buckets& buckets, std::shared_ptr<const Bucket> bucket);
// invalid_argument when the bucket has too many.
// `was`: what the document must still be, null for none of that name (precondition_failed); nullopt: it may be
// anything.
Change set_document_change(std::shared_ptr<const Bucket> bucket, std::string name, Document document,
                           std::optional<Document> was = std::nullopt);
Change remove_document_change(std::shared_ptr<const Bucket> bucket, std::string name);

}  // namespace verbena::store
