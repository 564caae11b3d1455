#include "s3_http/objects/tagging.h"

#include <algorithm>

#include "s3/events/announce.h"
#include "s3/tag_set.h"
#include "s3_http/objects/versions.h"
#include "s3_http/query.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr size_t tagging_document_max = 64 * KiB;

// The stored form: sorted by key, so that equal sets compare equal.
store::Tags sorted(store::Tags tags) {
  std::ranges::sort(tags);
  return tags;
}

// invalid_tag for too many tags of an object.
Error object_tag_error(const Error& error) {
  if (!(error == Errc::bad_request)) return error;
  return {Errc::invalid_tag, 0, error.context};
}

Result<store::Tags> parse_object_tags(std::string_view text) {
  auto tags = parse_tagging(text, object_tags_max);
  if (!tags) return std::unexpected(object_tag_error(tags.error()));
  return sorted(std::move(*tags));
}

}  // namespace

Result<store::Tags> read_tagging_header(const Context& context) {
  const auto header = context.header("x-amz-tagging");
  if (!header) return store::Tags{};
  // A browser's form has the document in its field.
  if (header->starts_with('<')) return parse_object_tags(*header);
  const auto query = Query::parse(*header);
  if (!query) {
    return fail(Errc::invalid_argument,
                "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag "
                "name duplicates.");
  }
  store::Tags tags;
  for (const auto& [key, value] : query->items()) tags.emplace_back(key, value);
  if (auto sound = check_tags(tags, object_tags_max); !sound) return std::unexpected(object_tag_error(sound.error()));
  return sorted(std::move(tags));
}

Task<Result<void>> serve_object_tagging(Context& context) {
  VB_CO_ASSIGN(const store::ObjectInfo info, co_await stat_version(context, action::get_object_tagging));
  add_version_id(context.response, info.version_id);
  context.reply_xml(tagging_xml(info.tags));
  co_return Result<void>();
}

Task<Result<void>> serve_put_object_tagging(Context& context) {
  VB_CO_TRY(co_await could_change(context, action::put_object_tagging));
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, tagging_document_max));
  store::ObjectChange change;
  VB_CO_ASSIGN(change.tags, parse_object_tags(text));
  VB_CO_ASSIGN(change.announcement, co_await announce_now(context.service, context.bucket, context.caller(),
                                                          EventCause::put_tags, context.key));
  co_return co_await update_version(context, action::put_object_tagging, std::move(change));
}

Task<Result<void>> serve_delete_object_tagging(Context& context) {
  store::ObjectChange change;
  change.tags.emplace();
  VB_CO_ASSIGN(change.announcement, co_await announce_now(context.service, context.bucket, context.caller(),
                                                          EventCause::delete_tags, context.key));
  VB_CO_TRY(co_await update_version(context, action::delete_object_tagging, std::move(change)));
  reply_no_content(context);
  co_return Result<void>();
}

}  // namespace verbena::s3
