#include "s3/errors.h"

namespace verbena::s3 {
namespace {

constexpr ErrorForm internal_error = {"InternalError", 500, "We encountered an internal error. Please try again."};

}  // namespace

ErrorForm error_form(Errc code) {
  switch (code) {
    case Errc::no_such_bucket:
      return {"NoSuchBucket", 404, "The specified bucket does not exist"};
    case Errc::no_such_key:
      return {"NoSuchKey", 404, "The specified key does not exist."};
    case Errc::no_such_upload:
      return {"NoSuchUpload", 404,
              "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted "
              "or completed."};
    case Errc::no_such_version:
      return {"NoSuchVersion", 404, "The specified version does not exist."};
    case Errc::bucket_already_exists:
      return {"BucketAlreadyExists", 409,
              "The requested bucket name is not available. The bucket namespace is shared by all users of the system. "
              "Please select a different name and try again."};
    case Errc::bucket_already_owned_by_you:
      return {"BucketAlreadyOwnedByYou", 409,
              "Your previous request to create the named bucket succeeded and you already own it."};
    case Errc::too_many_buckets:
      return {"TooManyBuckets", 400, "You have attempted to create more buckets than allowed"};
    case Errc::bucket_not_empty:
      return {"BucketNotEmpty", 409, "The bucket you tried to delete is not empty"};
    case Errc::invalid_bucket_name:
      return {"InvalidBucketName", 400, "The specified bucket is not valid."};
    case Errc::precondition_failed:
      return {"PreconditionFailed", 412, "At least one of the pre-conditions you specified did not hold"};
    case Errc::not_modified:
      return {"NotModified", 304, "Not Modified"};
    case Errc::invalid_range:
      return {"InvalidRange", 416, "The requested range is not satisfiable"};
    case Errc::invalid_argument:
      return {"InvalidArgument", 400, "Invalid Argument"};
    case Errc::invalid_request:
      return {"InvalidRequest", 400, "Invalid Request"};
    case Errc::malformed_xml:
      return {"MalformedXML", 400,
              "The XML you provided was not well-formed or did not validate against our published schema"};
    case Errc::invalid_part:
      return {"InvalidPart", 400,
              "One or more of the specified parts could not be found. The part may not have been uploaded, or the "
              "specified entity tag may not match the part's entity tag."};
    case Errc::invalid_part_order:
      return {"InvalidPartOrder", 400,
              "The list of parts was not in ascending order. Parts must be ordered by part number."};
    case Errc::entity_too_small:
      return {"EntityTooSmall", 400, "Your proposed upload is smaller than the minimum allowed size"};
    case Errc::entity_too_large:
      return {"EntityTooLarge", 400, "Your proposed upload exceeds the maximum allowed size"};
    case Errc::key_too_long:
      return {"KeyTooLongError", 400, "Your key is too long"};
    case Errc::metadata_too_large:
      return {"MetadataTooLarge", 400, "Your metadata headers exceed the maximum allowed metadata size"};
    case Errc::bad_digest:
      return {"BadDigest", 400, "The Content-MD5 or checksum value you specified did not match what we received."};
    case Errc::invalid_digest:
      return {"InvalidDigest", 400, "The Content-MD5 you specified was invalid."};
    case Errc::content_sha256_mismatch:
      return {"XAmzContentSHA256Mismatch", 400,
              "The provided 'x-amz-content-sha256' header does not match what was computed."};
    case Errc::incomplete_body:
      return {"IncompleteBody", 400,
              "You did not provide the number of bytes specified by the Content-Length HTTP header."};
    case Errc::missing_content_length:
      return {"MissingContentLength", 411, "You must provide the Content-Length HTTP header."};
    case Errc::method_not_allowed:
      return {"MethodNotAllowed", 405, "The specified method is not allowed against this resource."};
    case Errc::not_implemented:
      return {"NotImplemented", 501, "A header or query you provided implies functionality that is not implemented."};
    case Errc::conditional_conflict:
      return {"ConditionalRequestConflict", 409,
              "The conditional request cannot succeed due to a conflicting operation against this resource."};
    case Errc::invalid_uri:
      return {"InvalidURI", 400, "Couldn't parse the specified URI."};
    case Errc::malformed_trailer:
      return {"MalformedTrailerError", 400,
              "The request contained trailing data that was not well-formed or did not conform to our published "
              "schema."};
    case Errc::missing_security_header:
      return {"MissingSecurityHeader", 400, "Your request was missing a required header."};
    case Errc::invalid_copy_source:
      return {"InvalidArgument", 400, "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"};
    case Errc::invalid_location_constraint:
      return {"InvalidLocationConstraint", 400, "The specified location-constraint is not valid"};
    case Errc::invalid_checksum:
      return {"BadDigest", 400, "The value of a checksum header or trailer is not one that content can have."};
    case Errc::request_header_too_large:
      return {"RequestHeaderSectionTooLarge", 400, "Your request header section exceeds the maximum allowed size."};
    case Errc::invalid_encryption:
      return {"InvalidEncryptionAlgorithmError", 400, "The encryption request you specified is not valid."};
    case Errc::invalid_target_bucket:
      return {"InvalidTargetBucketForLogging", 400,
              "The target bucket for logging does not exist or is not owned by the owner of the source bucket."};
    case Errc::invalid_bucket_state:
      return {"InvalidBucketState", 409, "The request is not valid with the current state of the bucket."};
    case Errc::invalid_version:
      return {"InvalidArgument", 400, "Invalid version id specified"};
    case Errc::no_such_object_lock:
      return {"NoSuchObjectLockConfiguration", 404, "The specified object does not have a ObjectLock configuration"};
    case Errc::no_such_object_lock_configuration:
      return {"ObjectLockConfigurationNotFoundError", 404, "Object Lock configuration does not exist for this bucket"};
    case Errc::no_such_lifecycle:
      return {"NoSuchLifecycleConfiguration", 404, "The lifecycle configuration does not exist"};
    case Errc::invalid_retention_period:
      return {"InvalidRetentionPeriod", 400, "The retention period specified is invalid."};

    case Errc::invalid_part_number:
      return {"InvalidPartNumber", 416, "The requested partnumber is not satisfiable"};
    case Errc::invalid_storage_class:
      return {"InvalidStorageClass", 400, "The storage class you specified is not valid"};
    case Errc::malformed_post:
      return {"MalformedPOSTRequest", 400, "The body of your POST request is not well-formed multipart/form-data."};
    case Errc::invalid_policy_document:
      return {"InvalidPolicyDocument", 400,
              "The content of the form does not meet the conditions specified in the policy document."};
    case Errc::post_fields_too_large:
      return {"MaxPostPreDataLengthExceeded", 400,
              "Your POST request fields preceding the upload file were too large."};
    case Errc::no_such_cors:
      return {"NoSuchCORSConfiguration", 404, "The CORS configuration does not exist"};
    case Errc::no_such_tag_set:
      return {"NoSuchTagSet", 404, "The TagSet does not exist"};
    case Errc::no_such_bucket_policy:
      return {"NoSuchBucketPolicy", 404, "The bucket policy does not exist"};
    case Errc::no_such_website:
      return {"NoSuchWebsiteConfiguration", 404, "The specified bucket does not have a website configuration"};
    case Errc::no_such_replication:
      return {"ReplicationConfigurationNotFoundError", 404, "The replication configuration was not found"};
    case Errc::no_such_encryption:
      return {"ServerSideEncryptionConfigurationNotFoundError", 404,
              "The server side encryption configuration was not found"};
    case Errc::no_such_ownership_controls:
      return {"OwnershipControlsNotFoundError", 404, "The bucket ownership controls were not found"};
    case Errc::no_such_public_access_block:
      return {"NoSuchPublicAccessBlockConfiguration", 404, "The public access block configuration was not found"};
    case Errc::invalid_tag:
      return {"InvalidTag", 400, "The tag provided was not a valid tag."};
    case Errc::cors_forbidden:
      return {"AccessForbidden", 403, "CORSResponse: This CORS request is not allowed."};
    case Errc::bad_request:
      return {"BadRequest", 400, "Bad Request"};
    case Errc::malformed_acl:
      return {"MalformedACLError", 400,
              "The XML you provided was not well-formed or did not validate against our published schema"};
    case Errc::malformed_policy:
      return {"MalformedPolicy", 400, "Policies must be valid JSON and the first byte must be '{'"};
    case Errc::acl_not_supported:
      return {"AccessControlListNotSupported", 400, "The bucket does not allow ACLs"};
    case Errc::unresolvable_email:
      return {"UnresolvableGrantByEmailAddress", 400,
              "The email address you provided does not match any account on record."};
    case Errc::invalid_grantee:
      return {"InvalidArgument", 400, "Invalid id"};
    case Errc::invalid_bucket_acl:
      return {"InvalidBucketAclWithObjectOwnership", 400,
              "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting"};

    case Errc::quota_exceeded:
      return {"QuotaExceeded", 403, "The quota is used up: the request would exceed it."};
    case Errc::access_denied:
      return {"AccessDenied", 403, "Access Denied"};
    case Errc::invalid_access_key_id:
      return {"InvalidAccessKeyId", 403, "The AWS Access Key Id you provided does not exist in our records."};
    case Errc::signature_does_not_match:
      return {"SignatureDoesNotMatch", 403,
              "The request signature we calculated does not match the signature you provided. Check your key and "
              "signing method."};
    case Errc::request_time_too_skewed:
      return {"RequestTimeTooSkewed", 403,
              "The difference between the request time and the current time is too large."};
    case Errc::expired_token:
      return {"ExpiredToken", 400, "The provided token has expired."};
    case Errc::authorization_header_malformed:
      return {"AuthorizationHeaderMalformed", 400, "The authorization header you provided is invalid."};
    case Errc::authorization_query_error:
      return {"AuthorizationQueryParametersError", 400,
              "The authorization query parameters that you provided are not valid."};
    case Errc::invalid_token:
      return {"InvalidToken", 400, "The provided token is malformed or otherwise invalid."};
    case Errc::missing_signed_header:
      return {"AccessDenied", 403, "There were headers present in the request which were not signed"};

    case Errc::key_unavailable:
      return {"InternalError", 500, "A key that the server needs for this is not in its key file."};
    case Errc::encryption_key_required:
      return {
          "InvalidRequest", 400,
          "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to "
          "retrieve the object."};
    case Errc::encryption_key_wrong:
      return {"InvalidRequest", 400, "The provided encryption parameters did not match the ones used originally."};
    case Errc::encryption_key_digest:
      return {"InvalidArgument", 400, "The calculated MD5 hash of the key did not match the hash that was provided."};
    case Errc::insecure_customer_key:
      return {"InvalidRequest", 400,
              "Requests specifying Server Side Encryption with Customer provided keys must be made over a secure "
              "connection."};
    case Errc::no_such_kms_key:
      return {"KMS.NotFoundException", 400, "The KMS key that the request names does not exist."};
    case Errc::invalid_kms_key_id:
      return {"InvalidArgument", 400, "The KMS key id of the request is not valid."};

    case Errc::invalid_write_offset:
      return {"InvalidWriteOffset", 400,
              "The write offset value that you specified does not match the current object size."};
    case Errc::too_many_parts:
      return {
          "TooManyParts", 400,
          "You have attempted to add more parts than the maximum of 10000 that are allowed for this object. You can "
          "use the CopyObject operation to copy this object to another and then add more data to the newly copied "
          "object."};
    case Errc::idempotency_mismatch:
      return {"IdempotencyParameterMismatch", 400,
              "Parameters on this idempotent request are inconsistent with parameters used in previous request(s)."};
    case Errc::encryption_type_mismatch:
      return {
          "EncryptionTypeMismatch", 400,
          "The existing object was created with a different encryption type. Subsequent write requests must include "
          "the appropriate encryption parameters in the request or while creating the session."};

    case Errc::invalid_rdma_token:
      return {"InvalidRDMAToken", 400, "The RDMA token is malformed or not acceptable."};
    case Errc::rdma_not_supported:
      return {"RDMANotSupported", 501, "The server declines RDMA for this request. Send it again with a body."};
    case Errc::rdma_transfer_failed:
      return {"RDMATransferFailed", 500, "The RDMA transfer failed. Nothing was stored."};

    case Errc::slow_down:
      return {"SlowDown", 503, "Please reduce your request rate."};
    case Errc::service_unavailable:
      return {"ServiceUnavailable", 503, "Service is unable to handle request. Please try again."};
    case Errc::insufficient_storage:
      return {"InsufficientStorage", 507, "The server has no space left."};
    case Errc::corrupt_object:
      return {"InternalError", 500, "The object's stored bytes do not match their checksum."};
    case Errc::request_timeout:
      return {"RequestTimeout", 400,
              "Your socket connection to the server was not read from or written to within the timeout period."};
    // An allocation that failed is a full server, not a broken one.
    case Errc::out_of_memory:
      return {"SlowDown", 503, "Please reduce your request rate."};

    // IAM and STS, whose errors have a shape of their own (iam/query.h).
    case Errc::no_such_entity:
      return {"NoSuchEntity", 404, "The request was rejected because it referenced an entity that does not exist."};
    case Errc::entity_already_exists:
      return {"EntityAlreadyExists", 409,
              "The request was rejected because it attempted to create a resource that already exists."};
    case Errc::delete_conflict:
      return {
          "DeleteConflict", 409,
          "The request was rejected because it attempted to delete a resource that has attached subordinate entities."};
    case Errc::limit_exceeded:
      return {"LimitExceeded", 409,
              "The request was rejected because it attempted to create resources beyond the current limits."};
    case Errc::malformed_policy_document:
      return {"MalformedPolicyDocument", 400, "The request was rejected because the policy document was malformed."};
    case Errc::validation_error:
      return {"ValidationError", 400, "The input fails to satisfy the constraints specified."};
    case Errc::invalid_action:
      return {"InvalidAction", 400, "Could not find operation for the requested version."};
    case Errc::invalid_client_token_id:
      return {"InvalidClientTokenId", 403, "The security token included in the request is invalid."};
    case Errc::missing_authentication:
      return {"MissingAuthenticationToken", 403, "Request is missing Authentication Token"};
    case Errc::packed_policy_too_large:
      return {"PackedPolicyTooLarge", 400, "The session policy and the session tags together are too large."};

    case Errc::ok:
    case Errc::internal:
    case Errc::io_error:
    case Errc::would_block:
    case Errc::cancelled:
    case Errc::timed_out:
    case Errc::closed:
    case Errc::not_found:
    case Errc::unsupported:
    case Errc::malformed:
    case Errc::too_large:
    case Errc::connection_failed:
    case Errc::bad_config:
      return internal_error;
  }
  return internal_error;
}

std::string_view error_message(const Error& error) {
  const std::string_view context = error.context;
  return context.ends_with('.') ? context : error_form(error.code).message;
}

int status_of(call::Verb verb, Errc outcome, bool partial) {
  if (outcome != Errc::ok) return error_form(outcome).status;
  if (verb == call::Verb::remove) return 204;
  return partial ? 206 : 200;
}

}  // namespace verbena::s3
