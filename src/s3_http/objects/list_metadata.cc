// MinIO's ?metadata=true in listings, which its clients use instead of a HEAD per object.
#include "auth/auth.h"
#include "s3/access/authorize.h"
#include "s3_http/objects/listing.h"

namespace verbena::s3 {
namespace {

// "x-amz-meta-some-key" -> "X-Amz-Meta-Some-Key", as MinIO writes it. Empty for header names that are not valid XML
// names.
std::string element_name(std::string_view header) {
  std::string name(header);
  bool first = true;
  for (char& c : name) {
    const bool letter = c >= 'a' && c <= 'z';
    if (!letter && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.') return {};
    if (first && letter) c = static_cast<char>(c - 'a' + 'A');
    first = c == '-';
  }
  return name;
}

std::string tags_text(const store::Tags& tags) {
  std::string text;
  for (const auto& [key, value] : tags) {
    if (!text.empty()) text += '&';
    text += auth::uri_encode(key, false) + "=" + auth::uri_encode(value, false);
  }
  return text;
}

}  // namespace

bool wants_metadata(const Context& context) { return context.query.get_or_empty("metadata") == "true"; }

void write_metadata(XmlWriter& xml, const Context& context, const BucketAccess& access, const std::string& key,
                    std::string_view version_id, const store::ObjectInfo& info) {
  const auto may = [&](const Action& action) {
    const Asked asked{.action = action, .key = key, .version_id = version_id, .object = &info};
    return authorize(context.service, context.caller(), access, asked).has_value();
  };
  if (!may(action::get_object)) return;
  xml.open("UserMetadata");
  for (const auto& [header, value] : info.headers) {
    const bool own = header.starts_with("x-amz-meta-");
    const std::string name = own ? element_name(header) : header == "content-type" ? header : std::string();
    if (!name.empty()) xml.element(name, value);
  }
  xml.close();
  if (!info.tags.empty() && may(action::get_object_tagging)) xml.element("UserTags", tags_text(info.tags));
}

}  // namespace verbena::s3
