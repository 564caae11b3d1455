// Common parts of listings.
#pragma once

#include <string>
#include <string_view>

#include "s3/access/access.h"
#include "s3/xml.h"
#include "s3_http/context.h"

namespace verbena::s3 {

// ?encoding-type=url. Spaces become %20, not '+': every client decodes that.
class NameEncoder {
 public:
  // invalid_argument for another encoding.
  static Result<NameEncoder> read(const Context& context);
  std::string operator()(std::string_view name) const;
  // The encoded name as a view: of `name` itself if it needs no encoding, else of `scratch`. Both must outlive it.
  std::string_view view(std::string_view name, std::string& scratch) const;
  void announce(XmlWriter& xml) const;  // <EncodingType>

 private:
  bool url_ = false;
};

// ?max-keys= and its siblings: 0 and up, more than 1000 means 1000. invalid_argument.
Result<int> read_page_size(const Context& context, std::string_view name, const char* message);

// MinIO's ?metadata=true: metadata and tags of each object, for callers that may GET it. `version_id`: empty for the
// current one.
bool wants_metadata(const Context& context);
void write_metadata(XmlWriter& xml, const Context& context, const BucketAccess& access, const std::string& key,
                    std::string_view version_id, const store::ObjectInfo& info);

// Charges a page of so many entries and the answer made from it.
Task<Result<void>> reserve_page(Context& context, int entries);
// Authorizes the listing, then charges the page. Waiting for room may take a while, so the listing is authorized again
// after it.
Task<Result<BucketAccessPtr>> admit_listing(Context& context, const Action& action, const store::ListRequest& request);

// Number of entries that are written before the listing checks whether to yield.
inline constexpr size_t entries_between_looks = 16;
Task<void> write_prefixes(XmlWriter& xml, const NameEncoder& encode, const std::vector<std::string>& prefixes);

}  // namespace verbena::s3
