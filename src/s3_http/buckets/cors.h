// Cross-origin resource sharing: a bucket's rules, and the rule for a browser's request. Sources: AWS "Elements of a
// CORS configuration", the Fetch standard's CORS protocol.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "s3/types.h"

namespace verbena::s3 {

// The names that a rule's AllowedHeader patterns cover, for any number of patterns.
class CorsHeaderNames {
 public:
  void add(std::string_view pattern);  // with one '*' at most
  void ready();                        // after the last one
  bool has(std::string_view lower_name) const;

 private:
  std::vector<std::string> exact_;                            // in lower case, sorted
  std::vector<std::pair<std::string, std::string>> starred_;  // before and after the star
};

struct CorsRule {
  std::string id;
  std::vector<std::string> methods;  // GET, PUT, POST, DELETE, HEAD
  std::vector<std::string> origins;  // at most one '*' in each
  std::vector<std::string> headers;  // likewise, as written
  CorsHeaderNames header_names;      // the same
  std::vector<std::string> exposed;  // names of response headers
  std::optional<int64_t> max_age_s;
};

// 1 to 100 rules. malformed_xml, invalid_request (methods and wildcards that AWS does not take).
Result<std::vector<CorsRule>> parse_cors(std::string_view text);
std::string cors_xml(const std::vector<CorsRule>& rules);

struct CorsQuestion {
  std::string_view origin, method;
  std::optional<std::string_view> headers;  // Access-Control-Request-Headers
};

// The first rule that allows it; nullptr for none.
const CorsRule* find_cors_rule(const std::vector<CorsRule>& rules, const CorsQuestion& question);

// Access-Control-*, and Vary.
Headers cors_headers(const CorsRule& rule, const CorsQuestion& question);

}  // namespace verbena::s3
