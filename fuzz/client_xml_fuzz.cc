// XML replies of a hostile server.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "client/http/s3_xml.h"
#include "support/xml_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::client;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto page = parse_list_xml(text); page && page->truncated && page->continuation.empty()) __builtin_trap();
  static_cast<void>(parse_buckets_xml(text));
  static_cast<void>(parse_initiate_upload_xml(text));
  static_cast<void>(parse_complete_upload_xml(text));
  static_cast<void>(parse_error_xml(text));
  if (const auto bound = parse_bound_xml(text); bound && *bound) {
    const auto again = parse_bound_xml(bound_xml(**bound));
    if (again && *again &&
        ((*again)->bytes_max != (*bound)->bytes_max || (*again)->objects_max != (*bound)->objects_max)) {
      __builtin_trap();
    }
  }
  static_cast<void>(parse_iso_time(text));
  static_cast<void>(parse_http_time(text));
  return 0;
}
