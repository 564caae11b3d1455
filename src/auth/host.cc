#include "auth/host.h"

#include "base/text.h"

namespace verbena::auth {

std::string host_name(std::string_view header) {
  std::string_view host = trim(header);
  const size_t bracket = host.rfind(']');  // of an IPv6 address, which has colons itself
  const size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  host = host.substr(0, colon);
  if (host.ends_with('.')) host.remove_suffix(1);
  return lower(host);
}

}  // namespace verbena::auth
