// Changes of buckets and of their documents.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "store/catalogue.h"
#include "store/logic/bucket.h"

namespace verbena::store {

// `buckets` is updated by the change, and lives as long.
// bucket_already_exists.
Change create_bucket_change(Buckets& buckets, BucketInfo info);
using BucketEdit = std::function<Result<void>(BucketInfo&)>;
Change edit_bucket_change(std::shared_ptr<const Bucket> bucket, BucketEdit edit);
// bucket_not_empty. Removes the documents too; uploads soon after.
Change remove_bucket_change(Buckets& buckets, std::shared_ptr<const Bucket> bucket);
// invalid_argument when the bucket has too many.
// Of both, `was`: the document that must still be there, null for none of that name (precondition_failed); nullopt:
// any.
Change set_document_change(std::shared_ptr<const Bucket> bucket, std::string name, Document document,
                           std::optional<Document> was = std::nullopt);
Change remove_document_change(std::shared_ptr<const Bucket> bucket, std::string name,
                              std::optional<Document> was = std::nullopt);

}  // namespace verbena::store
