#include "base/result.h"

#include <cstring>

namespace verbena {

std::string_view to_string(Errc code) {
  switch (code) {
#define VB_NAME(name) \
  case Errc::name:    \
    return #name
    VB_NAME(ok);
    VB_NAME(no_such_bucket);
    VB_NAME(no_such_key);
    VB_NAME(no_such_upload);
    VB_NAME(no_such_version);
    VB_NAME(bucket_already_exists);
    VB_NAME(bucket_already_owned_by_you);
    VB_NAME(bucket_not_empty);
    VB_NAME(invalid_bucket_name);
    VB_NAME(precondition_failed);
    VB_NAME(not_modified);
    VB_NAME(invalid_range);
    VB_NAME(invalid_argument);
    VB_NAME(invalid_request);
    VB_NAME(malformed_xml);
    VB_NAME(invalid_part);
    VB_NAME(invalid_part_order);
    VB_NAME(entity_too_small);
    VB_NAME(entity_too_large);
    VB_NAME(key_too_long);
    VB_NAME(metadata_too_large);
    VB_NAME(bad_digest);
    VB_NAME(invalid_digest);
    VB_NAME(content_sha256_mismatch);
    VB_NAME(incomplete_body);
    VB_NAME(missing_content_length);
    VB_NAME(method_not_allowed);
    VB_NAME(not_implemented);
    VB_NAME(conditional_conflict);
    VB_NAME(invalid_uri);
    VB_NAME(malformed_trailer);
    VB_NAME(missing_security_header);
    VB_NAME(invalid_copy_source);
    VB_NAME(invalid_location_constraint);
    VB_NAME(invalid_checksum);
    VB_NAME(request_header_too_large);
    VB_NAME(invalid_encryption);
    VB_NAME(invalid_part_number);
    VB_NAME(invalid_storage_class);
    VB_NAME(malformed_post);
    VB_NAME(invalid_policy_document);
    VB_NAME(post_fields_too_large);
    VB_NAME(no_such_cors);
    VB_NAME(no_such_tag_set);
    VB_NAME(no_such_bucket_policy);
    VB_NAME(no_such_website);
    VB_NAME(no_such_replication);
    VB_NAME(no_such_encryption);
    VB_NAME(no_such_ownership_controls);
    VB_NAME(no_such_public_access_block);
    VB_NAME(invalid_tag);
    VB_NAME(cors_forbidden);
    VB_NAME(bad_request);
    VB_NAME(malformed_acl);
    VB_NAME(malformed_policy);
    VB_NAME(acl_not_supported);
    VB_NAME(unresolvable_email);
    VB_NAME(invalid_grantee);
    VB_NAME(invalid_bucket_acl);
    VB_NAME(invalid_bucket_state);
    VB_NAME(invalid_version);
    VB_NAME(no_such_object_lock);
    VB_NAME(no_such_object_lock_configuration);
    VB_NAME(no_such_lifecycle);
    VB_NAME(invalid_retention_period);
    VB_NAME(access_denied);
    VB_NAME(invalid_access_key_id);
    VB_NAME(signature_does_not_match);
    VB_NAME(request_time_too_skewed);
    VB_NAME(expired_token);
    VB_NAME(authorization_header_malformed);
    VB_NAME(authorization_query_error);
    VB_NAME(invalid_token);
    VB_NAME(missing_signed_header);
    VB_NAME(key_unavailable);
    VB_NAME(encryption_key_required);
    VB_NAME(encryption_key_wrong);
    VB_NAME(encryption_key_digest);
    VB_NAME(insecure_customer_key);
    VB_NAME(no_such_kms_key);
    VB_NAME(invalid_kms_key_id);
    VB_NAME(invalid_rdma_token);
    VB_NAME(rdma_not_supported);
    VB_NAME(rdma_transfer_failed);
    VB_NAME(internal);
    VB_NAME(slow_down);
    VB_NAME(service_unavailable);
    VB_NAME(insufficient_storage);
    VB_NAME(corrupt_object);
    VB_NAME(request_timeout);
    VB_NAME(io_error);
    VB_NAME(would_block);
    VB_NAME(cancelled);
    VB_NAME(timed_out);
    VB_NAME(closed);
    VB_NAME(not_found);
    VB_NAME(unsupported);
    VB_NAME(malformed);
    VB_NAME(invalid_target_bucket);
    VB_NAME(invalid_write_offset);
    VB_NAME(too_many_parts);
    VB_NAME(idempotency_mismatch);
    VB_NAME(encryption_type_mismatch);
    VB_NAME(quota_exceeded);
    VB_NAME(too_large);
    VB_NAME(out_of_memory);
    VB_NAME(connection_failed);
    VB_NAME(bad_config);
    VB_NAME(no_such_entity);
    VB_NAME(entity_already_exists);
    VB_NAME(delete_conflict);
    VB_NAME(too_many_buckets);
    VB_NAME(limit_exceeded);
    VB_NAME(malformed_policy_document);
    VB_NAME(validation_error);
    VB_NAME(invalid_action);
    VB_NAME(invalid_client_token_id);
    VB_NAME(missing_authentication);
    VB_NAME(packed_policy_too_large);
#undef VB_NAME
  }
  return "unknown";
}

std::string describe(const Error& error) {
  std::string text(to_string(error.code));
  if (error.context != nullptr && *error.context != '\0') {
    text += ": ";
    text += error.context;
  }
  if (error.sys != 0) {
    text += " (errno " + std::to_string(error.sys) + ": " + std::strerror(error.sys) + ")";
  }
  return text;
}

}  // namespace verbena
