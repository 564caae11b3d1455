#include "s3/tagging.h"

#include <algorithm>

#include "s3/authorize.h"
#include "s3/query.h"
#include "s3/tag_set.h"
#include "s3/verbs.h"
#include "s3/versions.h"

namespace verbena::s3 {
namespace {

constexpr size_t tagging_document_max = 64 * KiB;

// As the store keeps them: sorted by key, so that equal sets are equal.
store::Tags stored_tags(std::vector<Tag> tags) {
  store::Tags stored;
  for (Tag& tag : tags) stored.emplace_back(std::move(tag.key), std::move(tag.value));
  std::ranges::sort(stored);
  return stored;
}

std::vector<Tag> shown_tags(const store::Tags& stored) {
  std::vector<Tag> tags;
  for (const auto& [key, value] : stored) tags.push_back({key, value});
  return tags;
}

// Too many tags of an object are no valid tags.
Error object_tag_error(const Error& error) {
  if (!(error == Errc::bad_request)) return error;
  return {Errc::invalid_tag, 0, error.context};
}

Result<store::Tags> parse_object_tags(std::string_view text) {
  auto tags = parse_tagging(text, object_tags_max);
  if (!tags) return std::unexpected(object_tag_error(tags.error()));
  return stored_tags(std::move(*tags));
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
  std::vector<Tag> tags;
  for (const auto& [key, value] : query->items()) tags.push_back({key, value});
  if (auto sound = check_tags(tags, object_tags_max); !sound) return std::unexpected(object_tag_error(sound.error()));
  return stored_tags(std::move(tags));
}

namespace {

Task<Result<void>> set_tags(Context& context, store::Tags tags) {
  VB_CO_TRY(authorize(context.caller()));
  VB_CO_ASSIGN(const std::string version_id, read_version_id(context));
  store::ObjectChange change;
  change.tags = std::move(tags);
  auto done = co_await context.service.store.update(context.bucket, context.key, version_id, std::move(change));
  if (!done) {
    co_await describe_missing(context, done.error(), version_id);
    co_return std::unexpected(done.error());
  }
  add_version_id(context.response, done->version_id);
  co_return Result<void>();
}

}  // namespace

Task<Result<void>> serve_object_tagging(Context& context) {
  VB_CO_TRY(authorize(context.caller()));
  VB_CO_ASSIGN(const std::string version_id, read_version_id(context));
  auto info = co_await context.service.store.stat(context.bucket, context.key, version_id);
  if (!info) {
    co_await describe_missing(context, info.error(), version_id);
    co_return std::unexpected(info.error());
  }
  add_version_id(context.response, info->version_id);
  context.reply_xml(tagging_xml(shown_tags(info->tags)));
  co_return Result<void>();
}

Task<Result<void>> serve_put_object_tagging(Context& context) {
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, tagging_document_max));
  VB_CO_ASSIGN(store::Tags tags, parse_object_tags(text));
  co_return co_await set_tags(context, std::move(tags));
}

Task<Result<void>> serve_delete_object_tagging(Context& context) {
  store::Tags none;
  VB_CO_TRY(co_await set_tags(context, std::move(none)));
  context.response.status = 204;
  context.response.no_body = true;
  co_return Result<void>();
}

}  // namespace verbena::s3
