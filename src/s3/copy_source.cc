#include "s3/copy_source.h"

#include "auth/auth.h"
#include "s3/names.h"

namespace verbena::s3 {

std::string CopySource::text() const {
  std::string out = bucket + "/" + key;
  if (!version_id.empty()) out.append("?versionId=").append(version_id);
  return out;
}

Result<CopySource> parse_copy_source(std::string_view text) {
  std::string_view version_id;
  if (const size_t mark = text.find("?versionId="); mark != std::string_view::npos) {
    version_id = text.substr(mark + 11);
    if (version_id.empty()) return fail(Errc::invalid_argument, "Version id cannot be the empty string.");
    text = text.substr(0, mark);
  }
  if (text.starts_with("arn:")) return fail(Errc::not_implemented, "Access point ARNs are not implemented.");
  auto decoded = auth::uri_decode(text);
  if (!decoded) return fail(Errc::invalid_copy_source, "copy source: percent escape");
  std::string_view path = *decoded;
  if (path.starts_with('/')) path.remove_prefix(1);
  const size_t slash = path.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == path.size()) {
    return fail(Errc::invalid_copy_source, "copy source: shape");
  }
  CopySource source{std::string(path.substr(0, slash)), std::string(path.substr(slash + 1)), std::string(version_id)};
  VB_TRY(check_bucket_name(source.bucket));
  VB_TRY(check_key(source.key));
  return source;
}

}  // namespace verbena::s3
