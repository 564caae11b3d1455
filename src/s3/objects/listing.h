// What listings share.
#pragma once

#include <string>
#include <string_view>

#include "s3/context.h"
#include "s3/xml.h"

namespace verbena::s3 {

// ?encoding-type=url. Spaces become %20, not '+': every client decodes that.
class NameEncoder {
 public:
  // invalid_argument for another encoding.
  static Result<NameEncoder> read(const Context& context);
  std::string operator()(std::string_view name) const;
  void announce(XmlWriter& xml) const;  // <EncodingType>

 private:
  bool url_ = false;
};

// ?max-keys= and its siblings: 0 and up, more than 1000 means 1000. invalid_argument.
Result<int> read_page_size(const Context& context, std::string_view name, const char* message);

void write_prefixes(XmlWriter& xml, const NameEncoder& encode, const std::vector<std::string>& prefixes);

}  // namespace verbena::s3
