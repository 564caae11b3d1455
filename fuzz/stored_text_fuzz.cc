// Texts that the server stores with a bucket or reads from clients in headers, other than XML: the first byte selects
// the reader. What is accepted survives being written and read again.
#include <cstdlib>

#include "auth/ip_range.h"
#include "auth/limits.h"
#include "events/stuck_events.h"
#include "observe/tracer.h"
#include "s3/access/acl.h"
#include "s3/copy_source.h"
#include "s3/documents/notification_rules.h"
#include "s3/objects/encryption.h"

namespace {

using namespace verbena;

void expect(bool holds) {
  if (!holds) std::abort();
}

void acl(std::string_view text) {
  const auto found = s3::decode_acl(text);
  if (!found) return;
  const std::string again = s3::encode_acl(*found);
  const auto second = s3::decode_acl(again);
  expect(second && s3::encode_acl(*second) == again);
  (void)s3::is_public(*found);
  (void)s3::is_private(*found);
  (void)s3::encoded_owner(text);
}

void encryption(std::string_view text) {
  const auto found = s3::parse_default_encryption(text);
  if (!found) return;
  const auto second = s3::parse_default_encryption(s3::format_default_encryption(*found));
  expect(second && second->method == found->method && second->kms_key_id == found->kms_key_id);
}

void addresses(std::string_view text) {
  const auto range = auth::parse_ip_range(text);
  const auto address = auth::parse_ip(text);
  if (address && range) expect(range->contains(*address));
}

void event_names(std::string_view text) {
  if (const auto name = events::parse_stuck_name(text)) {
    events::StuckEvent stuck;
    stuck.bucket = name->first;
    stuck.event = name->second;
    expect(events::parse_stuck_name(events::name_of_stuck(stuck)) == name);
  }
  events::StuckEvent stuck;
  events::describe_record(std::string(text), stuck);
  (void)s3::parse_target_arn(text, "us-east-1");
  (void)s3::parse_event_name(text);
}

void headers(std::string_view text) {
  (void)s3::parse_copy_source(text);
  (void)observe::parse_trace_headers(text);
  (void)auth::parse_quota(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr void (*readers[])(std::string_view) = {acl, encryption, addresses, event_names, headers};
  readers[data[0] % std::size(readers)](text);
  return 0;
}
