// Mutations of buckets.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "store/local/engine.h"

namespace verbena::store::local {

Mutation create_bucket_mutation(Engine& engine, BucketInfo info);  // bucket_already_exists
using BucketChange = std::function<Result<void>(BucketInfo&)>;
Mutation change_bucket_mutation(std::shared_ptr<const Bucket> bucket, BucketChange change);
Mutation remove_bucket_mutation(Engine& engine,
                                std::shared_ptr<const Bucket> bucket);  // bucket_not_empty; uploads, documents go too
// invalid_argument when the bucket has too many.
Mutation set_document_mutation(std::shared_ptr<const Bucket> bucket, std::string name, Document document);
Mutation remove_document_mutation(std::shared_ptr<const Bucket> bucket, std::string name);

}  // namespace verbena::store::local
