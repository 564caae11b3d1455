// ListDirectoryBuckets.
#include "s3/xml.h"
#include "s3_http/buckets/bucket_list.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {

Task<Result<void>> serve_list_directory_buckets(Context& context) {
  VB_CO_ASSIGN(const int64_t max,
               context.query.number("max-directory-buckets", 0, 1'000, 1'000,
                                    "Argument max-directory-buckets must be an integer between 0 and 1000."));
  const auto after = context.query.get_or_empty("continuation-token");
  ListBucketsRequest request{.after = std::string(after), .max = static_cast<size_t>(max), .directory = true};
  VB_CO_ASSIGN(const BucketPage page, co_await list_buckets(context.service, context.caller(), std::move(request)));
  XmlWriter xml("ListAllMyDirectoryBucketsResult");
  VB_CO_TRY(co_await write_buckets(context, xml, page.buckets));
  if (page.truncated && !page.buckets.empty()) xml.element("ContinuationToken", page.buckets.back().name);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

}  // namespace verbena::s3
