// ListDirectoryBuckets.
#include "s3/access/authorize.h"
#include "s3/names.h"
#include "s3/xml.h"
#include "s3_http/buckets/bucket_list.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {

Task<Result<void>> serve_list_directory_buckets(Context& context) {
  VB_CO_ASSIGN(const int64_t max,
               context.query.number("max-directory-buckets", 0, 1'000, 1'000,
                                    "Argument max-directory-buckets must be an integer between 0 and 1000."));
  const auto after = context.query.get_or_empty("continuation-token");
  VB_CO_TRY(authorize_service(context.service, context.caller(), action::list_directory_buckets, {}));
  VB_CO_ASSIGN(auto buckets, co_await context.service.store.buckets());
  const std::string_view owner = owner_of(context.caller());
  std::erase_if(buckets, [&](const store::BucketInfo& bucket) {
    return !is_directory_bucket(bucket.name) || bucket.owner != owner || (!after.empty() && bucket.name <= after);
  });
  const bool truncated = buckets.size() > static_cast<size_t>(max);
  if (truncated) buckets.resize(static_cast<size_t>(max));
  XmlWriter xml("ListAllMyDirectoryBucketsResult");
  VB_CO_TRY(co_await write_buckets(context, xml, buckets));
  if (truncated && !buckets.empty()) xml.element("ContinuationToken", buckets.back().name);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

}  // namespace verbena::s3
