#include "s3_http/objects/listing.h"

#include <algorithm>
#include <limits>

#include "auth/auth.h"
#include "base/bytes.h"
#include "base/turns.h"
#include "s3/access/authorize.h"

namespace verbena::s3 {

Result<NameEncoder> NameEncoder::read(const Context& context) {
  NameEncoder encoder;
  if (const auto type = context.query.get("encoding-type"); type && !type->empty()) {
    if (*type != "url") return fail(Errc::invalid_argument, "Invalid Encoding Method specified in Request.");
    encoder.url_ = true;
  }
  return encoder;
}

std::string NameEncoder::operator()(std::string_view name) const {
  return url_ ? auth::uri_encode(name, true) : std::string(name);
}

std::string_view NameEncoder::view(std::string_view name, std::string& scratch) const {
  if (!url_) return name;
  scratch = auth::uri_encode(name, true);
  return scratch;
}

void NameEncoder::announce(XmlWriter& xml) const {
  if (url_) xml.element("EncodingType", "url");
}

Result<int> read_page_size(const Context& context, std::string_view name, const char* message) {
  constexpr int page_max = 1000;
  VB_ASSIGN(const int64_t asked, context.query.number(name, 0, std::numeric_limits<int32_t>::max(), page_max, message));
  return static_cast<int>(std::min<int64_t>(asked, page_max));
}

Task<Result<void>> reserve_page(Context& context, int entries) {
  // A long key, its escaped form and its properties; with metadata up to 2 KiB more.
  constexpr size_t entry_bytes = 2 * KiB, page_bytes = 4 * KiB;
  const size_t each = wants_metadata(context) ? 2 * entry_bytes : entry_bytes;
  return reserve_answer(context, page_bytes + static_cast<size_t>(entries) * each);
}

Task<Result<BucketAccessPtr>> admit_listing(Context& context, const Action& action, const store::ListRequest& request) {
  const Listing listing = listing_of(context.caller(), request);
  const Asked asked{.action = action, .list = &listing};
  for (bool reserved = false;; reserved = true) {
    VB_CO_ASSIGN(BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
    VB_CO_TRY(authorize(context.service, context.caller(), *access, asked));
    if (reserved) co_return access;
    VB_CO_TRY(co_await reserve_page(context, request.max_keys));
  }
}

Task<void> write_prefixes(XmlWriter& xml, const NameEncoder& encode, const std::vector<std::string>& prefixes) {
  Turns turns;
  size_t written = 0;
  for (const auto& prefix : prefixes) {
    if (++written % entries_between_looks == 0 && turns.due()) co_await turns.pass();
    xml.open("CommonPrefixes");
    xml.element("Prefix", encode(prefix));
    xml.close();
  }
}

}  // namespace verbena::s3
