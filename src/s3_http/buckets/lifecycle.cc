// The verbs of a bucket's lifecycle.
#include "s3/documents/lifecycle.h"
#include "base/bytes.h"
#include "s3/document_reading.h"
#include "s3/documents/bucket_document.h"
#include "s3_http/buckets/bucket_document.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr size_t lifecycle_document_max = 512 * KiB;
// A header of PutBucketLifecycleConfiguration.
constexpr std::string_view minimum_header = "x-amz-transition-default-minimum-object-size";
constexpr std::string_view minimum_of_all = "all_storage_classes_128K", minimum_varies = "varies_by_storage_class";

}  // namespace

Task<Result<void>> serve_bucket_lifecycle(Context& context) {
  VB_CO_ASSIGN(const auto document,
               co_await read_bucket_document(context, lifecycle_document, Errc::no_such_lifecycle));
  LifecycleShown shown = shown_lifecycle(*document);
  context.reply_header(minimum_header, shown.minimum_varies ? minimum_varies : minimum_of_all);
  context.reply_xml(std::move(shown.xml));
  co_return Result<void>();
}

Task<Result<void>> serve_put_bucket_lifecycle(Context& context) {
  const std::string_view minimum = context.header(minimum_header).value_or(minimum_of_all);
  if (minimum != minimum_of_all && minimum != minimum_varies) {
    co_return fail(Errc::invalid_argument, "The default minimum object size of transitions is not one of S3's.");
  }
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, lifecycle_document_max));
  const auto work = [&] { return kept_lifecycle(text, minimum == minimum_varies); };
  Result<std::string> document;
  if (text.size() > read_at_once_bytes) {
    document = co_await beside_loop("document", work);
  } else {
    document = work();
  }
  VB_CO_TRY(document);
  context.reply_header(minimum_header, minimum);
  co_return co_await keep_document(context.service, context.made_bucket(), lifecycle_document, std::move(*document));
}

Task<Result<void>> serve_delete_bucket_lifecycle(Context& context) {
  VB_CO_TRY(co_await drop_document(context.service, context.made_bucket(), lifecycle_document));
  reply_no_content(context);
  co_return Result<void>();
}

}  // namespace verbena::s3
