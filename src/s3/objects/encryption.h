// Server-side encryption: SSE-S3, SSE-KMS with local keys, and SSE-C.
//
// Each object has a random key, under which its parts are encrypted (store/sealed_object.h). That key is stored with
// the object, wrapped under the master keys (auth/keyring.h) and bound to bucket, key and method; or wrapped under the
// customer's key, of which only a salted HMAC is stored, to recognize it. The list of an object's parts, with their
// sizes and salts, is encrypted under the master keys, so that no part can be left out, cut or moved. A KMS key is a
// name under the master keys: policies decide which caller may use it, and a name that is removed from the
// configuration decrypts nothing any more.
//
// Every verb that reads bytes calls open_sealed(); every verb that writes them uses plan_seal(), part_seal() or a write
// plan. Doors have no part in it.
#pragma once

#include <string_view>

#include "s3/reply_headers.h"
#include "s3/service.h"
#include "store/append_seal.h"

namespace verbena::s3 {

// Checks a KMS key id. invalid_kms_key_id, no_such_kms_key.
Result<void> check_kms_key(const EncryptionOptions& options, std::string_view id);

// The encryption of one object, or one part of an upload.
class Seal {
 public:
  Seal() = default;  // no encryption
  explicit operator bool() const { return !object_key_.empty(); }
  // Whether the entity tag must not be the plain bytes' MD5, which would reveal them (AWS: for SSE-KMS and SSE-C it is
  // not an MD5).
  bool opaque_etag() const { return opaque_etag_; }
  // Used instead of a part's MD5: a digest keyed by the object's key. A part that is sent again has the same one, which
  // clients expect when they repeat a request.
  std::string part_etag(int number, std::string_view md5) const;
  std::optional<uint64_t> stored_size(std::optional<uint64_t> size) const;
  // `size`: of the plain bytes, if known.
  std::unique_ptr<store::ObjectWriter> writer(const Service& service, std::unique_ptr<store::ObjectWriter> below,
                                              std::optional<uint64_t> size) const;
  // Adds the attributes to store with the object, whose size is known now, or with the part.
  void mark_object(const Service& service, std::string_view bucket, std::string_view key,
                   store::ObjectInfo& info) const;
  void mark_part(store::ObjectInfo& info) const;

 private:
  friend Seal make_seal(const Service&, const EncryptionWish&, std::string_view, std::string_view);
  friend Result<Seal> part_seal(const Service&, const store::UploadInfo&, const CustomerKeyPtr&);
  friend Task<Result<store::Attributes>> plan_upload_seal(Service&, const std::string&, const std::string&,
                                                          EncryptionWish);
  Secret object_key_;
  store::Salt salt_{};
  store::Attributes attributes_;
  bool opaque_etag_ = false;
};

// For a whole object: as requested, else the bucket's default, else the server's. no_such_bucket, no_such_kms_key.
Task<Result<Seal>> plan_seal(Service& service, const std::string& bucket, const std::string& key, EncryptionWish wish);
// The steps of it, for plans that do not wait (write_plan.h). Whether the bucket's default has a say in the wish:
bool asks_bucket(const EncryptionOptions& options, const EncryptionWish& wish, std::string_view bucket);
// that default; null: the bucket has none;
Task<Result<store::Document>> bucket_encryption(Service& service, const std::string& bucket);
// the wish by it (null: none) and by the server's default. Encryption::none: plain. no_such_kms_key, ...
Result<EncryptionWish> settle_encryption(const EncryptionOptions& options, EncryptionWish wish, std::string_view bucket,
                                         const std::string* bucket_default);
// and the seal by a settled wish.
Seal make_seal(const Service& service, const EncryptionWish& wish, std::string_view bucket, std::string_view key);
// Likewise for an append; null: no encryption. The existing object must be encrypted in the same way.
store::AppendSealPtr make_append_seal(const Service& service, EncryptionWish wish, std::string bucket, std::string key);
// Likewise for an upload: its attributes; none if it is not encrypted.
Task<Result<store::Attributes>> plan_upload_seal(Service& service, const std::string& bucket, const std::string& key,
                                                 EncryptionWish wish);
// For a part of an upload. encryption_key_required, encryption_key_wrong.
Result<Seal> part_seal(const Service& service, const store::UploadInfo& upload, const CustomerKeyPtr& customer);
// The attributes of an object that is completed from these parts, by the parts' attributes.
store::Attributes completed_attributes(const Service& service, const store::UploadInfo& upload,
                                       const std::vector<store::PartInfo>& parts);

// Whether the object is encrypted.
bool is_sealed(const store::ObjectInfo& info);
// Checks the request's customer key against the object: encryption_key_required, encryption_key_wrong; invalid_request:
// the object needs no key.
Result<void> check_customer_key(const store::ObjectInfo& info, const CustomerKeyPtr& customer);
// The reader of an object's plain bytes. Errors as check_customer_key(), and no_such_kms_key, key_unavailable,
// corrupt_object.
Result<std::shared_ptr<store::ObjectReader>> open_sealed(const Service& service,
                                                         std::shared_ptr<store::ObjectReader> reader,
                                                         std::string_view bucket, std::string_view key,
                                                         const CustomerKeyPtr& customer);

// Rebinds the attributes of an encrypted object to another key of its bucket. `info`: with its parts. corrupt_object,
// key_unavailable, no_such_kms_key; encryption_key_required: a customer's key would be needed.
Result<void> rename_sealed(const Service& service, store::ObjectInfo& info, std::string_view bucket,
                           std::string_view from, std::string_view to);
// The attribute that all encrypted objects have, and only those.
inline constexpr std::string_view sealed_attribute = "sse";

// The x-amz-server-side-encryption* headers for an object, part or upload with these attributes. `key_md5`: of the
// request's customer key.
void add_encryption_headers(ReplyHeaders& out, const store::Attributes& attributes,
                            std::optional<std::string_view> key_md5);

// The attributes about encryption, for the reply to a part.
store::Attributes encryption_attributes(const store::Attributes& attributes);

// The bucket's default, as its document (encryption_document) has it: method, KMS key id and whether bucket keys are
// on, a line each. Short, since every PUT reads it.
std::string format_default_encryption(const EncryptionWish& wish);
Result<EncryptionWish> parse_default_encryption(std::string_view document);

}  // namespace verbena::s3
