// The HTTP form of each verb. A handler fills the response, or returns the error that the router writes.
#pragma once

#include "s3_http/context.h"

namespace verbena::s3 {

// bucket.cc
Task<Result<void>> serve_list_buckets(Context& context);
Task<Result<void>> serve_create_bucket(Context& context);
Task<Result<void>> serve_head_bucket(Context& context);
Task<Result<void>> serve_delete_bucket(Context& context);
Task<Result<void>> serve_bucket_location(Context& context);

// directory_buckets.cc, session.cc
Task<Result<void>> serve_list_directory_buckets(Context& context);
Task<Result<void>> serve_create_session(Context& context);

// bucket_document.cc
Task<Result<void>> serve_get_bucket_cors(Context& context);
Task<Result<void>> serve_put_bucket_cors(Context& context);
Task<Result<void>> serve_delete_bucket_cors(Context& context);
Task<Result<void>> serve_get_bucket_tagging(Context& context);
Task<Result<void>> serve_put_bucket_tagging(Context& context);
Task<Result<void>> serve_delete_bucket_tagging(Context& context);
Task<Result<void>> serve_get_ownership_controls(Context& context);
Task<Result<void>> serve_put_ownership_controls(Context& context);
Task<Result<void>> serve_delete_ownership_controls(Context& context);
Task<Result<void>> serve_get_public_access_block(Context& context);
Task<Result<void>> serve_put_public_access_block(Context& context);
Task<Result<void>> serve_delete_public_access_block(Context& context);

// control.cc
Task<Result<void>> serve_list_resource_tags(Context& context);
Task<Result<void>> serve_tag_resource(Context& context);
Task<Result<void>> serve_untag_resource(Context& context);

// notification.cc
Task<Result<void>> serve_get_notification(Context& context);
Task<Result<void>> serve_put_notification(Context& context);

// bucket_config.cc
Task<Result<void>> serve_get_logging(Context& context);
Task<Result<void>> serve_put_logging(Context& context);
Task<Result<void>> serve_get_accelerate(Context& context);
Task<Result<void>> serve_put_accelerate(Context& context);
Task<Result<void>> serve_get_request_payment(Context& context);
Task<Result<void>> serve_put_request_payment(Context& context);
Task<Result<void>> serve_get_website(Context& context);
Task<Result<void>> serve_get_replication(Context& context);
Task<Result<void>> serve_delete_absent(Context& context);  // for configurations that no bucket can have

// bucket_policy.cc
Task<Result<void>> serve_get_bucket_policy(Context& context);
Task<Result<void>> serve_put_bucket_policy(Context& context);
Task<Result<void>> serve_delete_bucket_policy(Context& context);
Task<Result<void>> serve_bucket_policy_status(Context& context);

// bucket_acl.cc, object_acl.cc
Task<Result<void>> serve_bucket_acl(Context& context);
Task<Result<void>> serve_put_bucket_acl(Context& context);
Task<Result<void>> serve_object_acl(Context& context);
Task<Result<void>> serve_put_object_acl(Context& context);

// bucket_encryption.cc
Task<Result<void>> serve_get_bound(Context& context);
Task<Result<void>> serve_put_bound(Context& context);
Task<Result<void>> serve_delete_bound(Context& context);
Task<Result<void>> serve_get_encryption(Context& context);
Task<Result<void>> serve_put_encryption(Context& context);
Task<Result<void>> serve_delete_encryption(Context& context);

// preflight.cc
Task<Result<void>> serve_preflight(Context& context);

// list.cc
Task<Result<void>> serve_list_objects_v1(Context& context);
Task<Result<void>> serve_list_objects_v2(Context& context);

// get.cc
Task<Result<void>> serve_get_object(Context& context);
Task<Result<void>> serve_head_object(Context& context);

// attributes.cc
Task<Result<void>> serve_object_attributes(Context& context);

// put.cc
Task<Result<void>> serve_put_object(Context& context);

// rename.cc
Task<Result<void>> serve_rename_object(Context& context);

// post.cc
Task<Result<void>> serve_post_object(Context& context);

// delete.cc
Task<Result<void>> serve_delete_object(Context& context);
Task<Result<void>> serve_delete_objects(Context& context);

// copy.cc
Task<Result<void>> serve_copy_object(Context& context);
Task<Result<void>> serve_upload_part_copy(Context& context);

// multipart.cc, multipart_complete.cc, multipart_list.cc
Task<Result<void>> serve_create_upload(Context& context);
Task<Result<void>> serve_upload_part(Context& context);
Task<Result<void>> serve_abort_upload(Context& context);
Task<Result<void>> serve_complete_upload(Context& context);
Task<Result<void>> serve_list_parts(Context& context);
Task<Result<void>> serve_list_uploads(Context& context);

// versions.cc, list_versions.cc
Task<Result<void>> serve_bucket_versioning(Context& context);
Task<Result<void>> serve_put_bucket_versioning(Context& context);
Task<Result<void>> serve_list_versions(Context& context);

// tagging.cc
Task<Result<void>> serve_object_tagging(Context& context);
Task<Result<void>> serve_put_object_tagging(Context& context);
Task<Result<void>> serve_touch_object(Context& context);
Task<Result<void>> serve_delete_object_tagging(Context& context);

// lock.cc
Task<Result<void>> serve_bucket_lock(Context& context);
Task<Result<void>> serve_put_bucket_lock(Context& context);
Task<Result<void>> serve_object_retention(Context& context);
Task<Result<void>> serve_put_object_retention(Context& context);
Task<Result<void>> serve_object_legal_hold(Context& context);
Task<Result<void>> serve_put_object_legal_hold(Context& context);

// lifecycle.cc
Task<Result<void>> serve_bucket_lifecycle(Context& context);
Task<Result<void>> serve_put_bucket_lifecycle(Context& context);
Task<Result<void>> serve_delete_bucket_lifecycle(Context& context);

}  // namespace verbena::s3
