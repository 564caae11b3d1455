#include "s3/objects/listing.h"

#include <algorithm>
#include <limits>

#include "auth/auth.h"

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

void NameEncoder::announce(XmlWriter& xml) const {
  if (url_) xml.element("EncodingType", "url");
}

Result<int> read_page_size(const Context& context, std::string_view name, const char* message) {
  constexpr int page_max = 1000;
  VB_ASSIGN(const int64_t asked, context.query.number(name, 0, std::numeric_limits<int32_t>::max(), page_max, message));
  return static_cast<int>(std::min<int64_t>(asked, page_max));
}

void write_prefixes(XmlWriter& xml, const NameEncoder& encode, const std::vector<std::string>& prefixes) {
  for (const auto& prefix : prefixes) {
    xml.open("CommonPrefixes");
    xml.element("Prefix", encode(prefix));
    xml.close();
  }
}

}  // namespace verbena::s3
