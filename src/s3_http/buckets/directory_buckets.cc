// ListDirectoryBuckets.
#include "base/date.h"
#include "s3/access/authorize.h"
#include "s3/names.h"
#include "s3/xml.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {

Task<Result<void>> serve_list_directory_buckets(Context& context) {
  VB_CO_ASSIGN(const int64_t max,
               context.query.number("max-directory-buckets", 0, 1'000, 1'000,
                                    "Argument max-directory-buckets must be an integer between 0 and 1000."));
  const auto after = context.query.get_or_empty("continuation-token");
  VB_CO_TRY(authorize_service(context.service, context.caller(), action::list_directory_buckets, {}));
  VB_CO_ASSIGN(const auto buckets, co_await context.service.store.buckets());
  const std::string_view owner = owner_of(context.caller());
  XmlWriter xml("ListAllMyDirectoryBucketsResult");
  xml.open("Buckets");
  int64_t written = 0;
  std::string_view last;
  bool truncated = false;
  for (const auto& bucket : buckets) {
    if (!is_directory_bucket(bucket.name) || bucket.owner != owner || (!after.empty() && bucket.name <= after))
      continue;
    if ((truncated = written == max)) break;
    xml.open("Bucket");
    xml.element("Name", bucket.name);
    xml.element("CreationDate", format_iso8601(bucket.created_us));
    xml.element("BucketRegion", context.service.region);
    xml.close();
    last = bucket.name;
    ++written;
  }
  xml.close();
  if (truncated && written > 0) xml.element("ContinuationToken", last);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

}  // namespace verbena::s3
