// The policy document of a browser's form.
#include <cstdlib>

#include "s3_http/objects/post_policy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena;
  const auto policy = s3::parse_post_policy({reinterpret_cast<const char*>(data), size});
  if (!policy) return 0;
  if (policy->length_min > policy->length_max && policy->conditions.empty()) return 0;  // two ranges without overlap
  s3::Form form;
  for (const auto& condition : policy->conditions) {
    if (condition.field.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") != std::string::npos) std::abort();
    form.fields.emplace_back(condition.field, condition.value);
  }
  // An expired policy allows nothing.
  if (s3::check_post_policy(*policy, form, "bucket", policy->expiration_s)) std::abort();
  (void)s3::check_post_policy(*policy, form, "bucket", policy->expiration_s - 1);
  return 0;
}
