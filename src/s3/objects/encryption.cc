#include "s3/objects/encryption.h"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>

#include "base/aead.h"
#include "s3/documents/bucket_document.h"
#include "s3/names.h"

namespace verbena::s3 {
namespace {

// Names of attributes; they are stored on disk.
constexpr std::string_view method_attribute = sealed_attribute;  // AES256, aws:kms or C
constexpr std::string_view key_attribute = "sse-key";
constexpr std::string_view kms_attribute = "sse-kms-key-id";
constexpr std::string_view bucket_key_attribute = "sse-bucket-key";
constexpr std::string_view check_attribute = "sse-check";  // check value of the customer's key: salt | HMAC
using store::NumberedPart;
using store::read_salt;
using store::salt_attribute;
constexpr std::string_view manifest_attribute = "sse-manifest";

constexpr std::string_view aes256_name = "AES256", kms_name = "aws:kms", customer_name = "C";
constexpr size_t salt_size = sizeof(store::Salt), digest_size = 32;

std::string_view method_name(Encryption method) {
  return method == Encryption::customer ? customer_name : method == Encryption::kms ? kms_name : aes256_name;
}

std::string_view attribute(const store::Attributes& attributes, std::string_view name) {
  const std::string* found = store::find_attribute(attributes, name);
  return found == nullptr ? std::string_view() : std::string_view(*found);
}

// The context that a wrapped key is bound to. The object's key is last, since it may have any byte.
std::string key_context(std::string_view method, std::string_view kms_key_id, std::string_view bucket,
                        std::string_view key) {
  std::string context("object key\n");
  for (const std::string_view part : {method, kms_key_id, bucket}) context.append(part).append("\n");
  return context.append(key);
}

std::string manifest_context(std::string_view bucket, std::string_view key) {
  return std::string("manifest\n").append(bucket).append("\n").append(key);
}

std::string customer_mac(const CustomerKey& customer, std::string_view purpose, std::string_view salt) {
  return hmac_sha256(customer.key.bytes(), as_bytes(std::string(purpose).append(salt)));
}

// Under a key derived from the salt, so that a constant nonce is safe.
Aead customer_cipher(const CustomerKey& customer, std::string_view salt) {
  std::string key = customer_mac(customer, "verbena customer wrap ", salt);
  Aead cipher(as_bytes(key));
  wipe(key);
  return cipher;
}

std::string random_salt() {
  std::string salt(salt_size, '\0');
  fill_random(std::as_writable_bytes(std::span(salt)));
  return salt;
}

std::string wrap_for_customer(const CustomerKey& customer, Bytes object_key, std::string_view context) {
  std::string wrapped = random_salt();
  Aead cipher = customer_cipher(customer, wrapped);
  wrapped.resize(salt_size + object_key.size());
  AeadTag tag;
  cipher.seal({}, as_bytes(context), object_key, reinterpret_cast<std::byte*>(wrapped.data()) + salt_size, tag);
  return wrapped.append(as_text(tag));
}

Result<Secret> unwrap_for_customer(const CustomerKey& customer, std::string_view wrapped, std::string_view context) {
  if (wrapped.size() != salt_size + store::object_key_size + aead_tag_size) {
    return fail(Errc::corrupt_object, "encryption: wrapped key");
  }
  Secret key(store::object_key_size);
  Aead cipher = customer_cipher(customer, wrapped.substr(0, salt_size));
  const Bytes sealed = as_bytes(wrapped).subspan(salt_size);
  if (!cipher.open({}, as_bytes(context), sealed.first(key.size()), sealed.subspan(key.size()),
                   key.writable().data())) {
    return fail(Errc::corrupt_object, "encryption: wrapped key");
  }
  return key;
}

std::string make_check(const CustomerKey& customer) {
  const std::string salt = random_salt();
  return salt + customer_mac(customer, "verbena customer check ", salt);
}

Result<void> check_customer(const store::Attributes& attributes, const CustomerKey& customer) {
  const std::string_view check = attribute(attributes, check_attribute);
  if (check.size() != salt_size + digest_size) return fail(Errc::corrupt_object, "encryption: key check");
  const std::string mac = customer_mac(customer, "verbena customer check ", check.substr(0, salt_size));
  if (!equal_constant_time(as_bytes(mac), as_bytes(check.substr(salt_size)))) {
    return fail(Errc::encryption_key_wrong, "encryption");
  }
  return {};
}

// The object's key, from the attributes of an object or an upload.
Result<Secret> unwrap(const Service& service, const store::Attributes& attributes, std::string_view bucket,
                      std::string_view key, const CustomerKeyPtr& customer) {
  const std::string_view method = attribute(attributes, method_attribute);
  const std::string_view wrapped = attribute(attributes, key_attribute);
  const std::string_view kms_key = attribute(attributes, kms_attribute);
  const std::string context = key_context(method, kms_key, bucket, key);
  if (method == customer_name) return unwrap_for_customer(*customer, wrapped, context);
  if (method == kms_name) VB_TRY(check_kms_key(service.encryption, kms_key));
  if (service.encryption.keys == nullptr) return fail(Errc::key_unavailable, "encryption: no key ring");
  VB_ASSIGN(Secret object_key, service.encryption.keys->unseal(as_bytes(wrapped), context));
  if (object_key.size() != store::object_key_size) return fail(Errc::corrupt_object, "encryption: wrapped key");
  return object_key;
}

std::string manifest_digest(std::span<const NumberedPart> parts) {
  Digest digest(Algorithm::sha256);
  for (const NumberedPart& one : parts) {
    std::array<std::byte, 12> fixed;
    for (size_t i = 0; i < 8; ++i) fixed[i] = static_cast<std::byte>(one.part.size >> (8 * i));
    for (size_t i = 0; i < 4; ++i) fixed[8 + i] = static_cast<std::byte>(static_cast<uint32_t>(one.number) >> (8 * i));
    digest.update(fixed);
    digest.update(one.part.salt);
  }
  return digest.finish();
}

// Checks that these are the parts of the object with these attributes.
Result<void> check_manifest(const Service& service, const store::Attributes& attributes,
                            std::span<const NumberedPart> parts, std::string_view bucket, std::string_view key) {
  if (service.encryption.keys == nullptr) return fail(Errc::key_unavailable, "encryption: no key ring");
  const std::string_view manifest = attribute(attributes, manifest_attribute);
  VB_ASSIGN(const Secret digest, service.encryption.keys->unseal(as_bytes(manifest), manifest_context(bucket, key)));
  if (digest.text() != manifest_digest(parts)) return fail(Errc::corrupt_object, "encryption: parts");
  return {};
}

std::string seal_manifest(const Service& service, std::span<const NumberedPart> parts, std::string_view bucket,
                          std::string_view key) {
  return service.encryption.keys->seal(as_bytes(manifest_digest(parts)), manifest_context(bucket, key));
}

// The object's list of parts, after its authentication tag was verified.
Result<std::vector<store::SealedPart>> read_parts(const Service& service, const store::ObjectInfo& info,
                                                  std::string_view bucket, std::string_view key) {
  VB_ASSIGN(const auto listed, store::numbered_parts(info));
  VB_TRY(check_manifest(service, info.attributes, listed, bucket, key));
  std::vector<store::SealedPart> parts;
  parts.reserve(listed.size());
  for (const NumberedPart& one : listed) parts.push_back(one.part);
  return parts;
}

// Completes a request without a KMS key by the default one. Fails if the key does not exist.
Result<EncryptionWish> check_wish(const EncryptionOptions& options, EncryptionWish wish) {
  if (options.keys == nullptr) return fail(Errc::not_implemented, "The server has no key file.");
  if (wish.method != Encryption::kms) return wish;
  if (wish.kms_key_id.empty()) wish.kms_key_id = options.kms_default_key;
  VB_TRY(check_kms_key(options, wish.kms_key_id));
  return wish;
}

store::Attributes wrap(const Service& service, const EncryptionWish& wish, const Secret& object_key,
                       std::string_view bucket, std::string_view key) {
  const std::string_view method = method_name(wish.method);
  const std::string context = key_context(method, wish.kms_key_id, bucket, key);
  store::Attributes attributes;
  const auto set = [&](std::string_view name, std::string value) { attributes.emplace_back(name, std::move(value)); };
  set(method_attribute, std::string(method));
  if (wish.method == Encryption::customer) {
    set(key_attribute, wrap_for_customer(*wish.customer, object_key.bytes(), context));
    set(check_attribute, make_check(*wish.customer));
    return attributes;
  }
  set(key_attribute, service.encryption.keys->seal(object_key.bytes(), context));
  if (wish.method == Encryption::kms) {
    set(kms_attribute, wish.kms_key_id);
    if (wish.bucket_key) set(bucket_key_attribute, "true");
  }
  return attributes;
}

}  // namespace

std::optional<uint64_t> Seal::stored_size(std::optional<uint64_t> size) const {
  return size && *this ? std::optional(store::sealed_size(*size)) : size;
}

std::unique_ptr<store::ObjectWriter> Seal::writer(const Service& service, std::unique_ptr<store::ObjectWriter> below,
                                                  std::optional<uint64_t> size) const {
  if (!*this) return below;
  return store::make_sealing_writer(std::move(below), service.arena, object_key_, salt_, size);
}

std::string Seal::part_etag(int number, std::string_view md5) const {
  const std::string text = fmt::format("verbena part etag\n{}\n{}", number, md5);
  const std::string mac = hmac_sha256(object_key_.bytes(), as_bytes(text));
  return to_hex(as_bytes(mac).first(16)) + "-k";
}

void Seal::mark_part(store::ObjectInfo& info) const {
  if (*this) store::change_attributes(info.attributes, {{std::string(salt_attribute), std::string(as_text(salt_))}});
}

void Seal::mark_object(const Service& service, std::string_view bucket, std::string_view key,
                       store::ObjectInfo& info) const {
  if (!*this) return;
  mark_part(info);
  const NumberedPart whole{0, {info.size, salt_}};
  store::change_attributes(info.attributes, attributes_);
  store::change_attributes(info.attributes,
                           {{std::string(manifest_attribute), seal_manifest(service, {&whole, 1}, bucket, key)}});
}

bool asks_bucket(const EncryptionOptions& options, const EncryptionWish& wish, std::string_view bucket) {
  if (wish.method == Encryption::none) return options.keys != nullptr;
  return wish.method == Encryption::kms && wish.kms_key_id.empty() && is_directory_bucket(bucket);
}

Task<Result<store::Document>> bucket_encryption(Service& service, const std::string& bucket) {
  auto document = co_await service.store.document(bucket, encryption_document);
  if (!document && document.error() == Errc::not_found) co_return store::Document();
  co_return document;
}

// Values missing in the request come from the bucket's configuration, else the server's. In a directory bucket a
// request without a key gets the key of the bucket's configuration, as at AWS.
Result<EncryptionWish> settle_encryption(const EncryptionOptions& options, EncryptionWish wish, std::string_view bucket,
                                         const std::string* bucket_default) {
  if (wish.method == Encryption::none) {
    if (options.keys == nullptr) return wish;
    if (bucket_default != nullptr) {
      VB_ASSIGN(wish, parse_default_encryption(*bucket_default));
    } else if (options.by_default) {
      wish.method = Encryption::aes256;
    } else {
      return wish;
    }
  } else if (bucket_default != nullptr && asks_bucket(options, wish, bucket)) {
    VB_ASSIGN(EncryptionWish configured, parse_default_encryption(*bucket_default));
    wish.kms_key_id = std::move(configured.kms_key_id);
  }
  return check_wish(options, std::move(wish));
}

Seal make_seal(const Service& service, const EncryptionWish& wish, std::string_view bucket, std::string_view key) {
  Seal seal;
  if (wish.method == Encryption::none) return seal;
  seal.object_key_ = Secret::random(store::object_key_size);
  fill_random(seal.salt_);
  seal.attributes_ = wrap(service, wish, seal.object_key_, bucket, key);
  seal.opaque_etag_ = wish.method != Encryption::aes256;
  return seal;
}

Task<Result<Seal>> plan_seal(Service& service, const std::string& bucket, const std::string& key, EncryptionWish wish) {
  store::Document bucket_default;
  if (asks_bucket(service.encryption, wish, bucket)) {
    VB_CO_ASSIGN(bucket_default, co_await bucket_encryption(service, bucket));
  }
  VB_CO_ASSIGN(wish, settle_encryption(service.encryption, std::move(wish), bucket, bucket_default.get()));
  co_return make_seal(service, wish, bucket, key);
}

Task<Result<store::Attributes>> plan_upload_seal(Service& service, const std::string& bucket, const std::string& key,
                                                 EncryptionWish wish) {
  VB_CO_ASSIGN(Seal seal, co_await plan_seal(service, bucket, key, std::move(wish)));
  co_return std::move(seal.attributes_);
}

namespace {

class PlannedAppend final : public store::AppendSeal {
 public:
  PlannedAppend(const Service& service, EncryptionWish wish, std::string bucket, std::string key)
      : service_(service), wish_(std::move(wish)), bucket_(std::move(bucket)), key_(std::move(key)) {}

  Result<void> check(const store::Attributes& object) const override {
    const bool other_key =
        wish_.method == Encryption::kms && attribute(object, kms_attribute) != std::string_view(wish_.kms_key_id);
    if (attribute(object, method_attribute) != method_name(wish_.method) || other_key) {
      return fail(Errc::encryption_type_mismatch, "append: how the object is kept");
    }
    if (wish_.method == Encryption::customer) return check_customer(object, *wish_.customer);
    return {};
  }
  const store::Attributes& fresh() const override {
    // Most appends do not make a new object.
    std::call_once(made_,
                   [this] { fresh_ = wrap(service_, wish_, Secret::random(store::object_key_size), bucket_, key_); });
    return fresh_;
  }
  Result<Secret> object_key(const store::Attributes& object) const override {
    return unwrap(service_, object, bucket_, key_, wish_.customer);
  }
  Result<void> verify(const store::Attributes& object, std::span<const NumberedPart> parts) const override {
    return check_manifest(service_, object, parts, bucket_, key_);
  }
  store::Attributes manifest(std::span<const NumberedPart> parts) const override {
    return {{std::string(manifest_attribute), seal_manifest(service_, parts, bucket_, key_)}};
  }
  memory::Arena& arena() const override { return service_.arena; }

 private:
  const Service& service_;
  const EncryptionWish wish_;
  const std::string bucket_, key_;
  mutable std::once_flag made_;
  mutable store::Attributes fresh_;
};

}  // namespace

store::AppendSealPtr make_append_seal(const Service& service, EncryptionWish wish, std::string bucket,
                                      std::string key) {
  if (wish.method == Encryption::none) return nullptr;
  return std::make_shared<const PlannedAppend>(service, std::move(wish), std::move(bucket), std::move(key));
}

Result<Seal> part_seal(const Service& service, const store::UploadInfo& upload, const CustomerKeyPtr& customer) {
  Seal seal;
  const std::string_view method = attribute(upload.attributes, method_attribute);
  if (method != customer_name && customer != nullptr) {
    return fail(Errc::invalid_request, "The encryption parameters are not applicable to this upload.");
  }
  if (method.empty()) return seal;
  if (method == customer_name && customer == nullptr) {
    return fail(Errc::encryption_key_required,
                "The multipart upload initiate requested encryption. Subsequent part requests must include the "
                "appropriate encryption parameters.");
  }
  if (method == customer_name) VB_TRY(check_customer(upload.attributes, *customer));
  VB_ASSIGN(seal.object_key_, unwrap(service, upload.attributes, upload.bucket, upload.key, customer));
  fill_random(seal.salt_);
  seal.opaque_etag_ = method != aes256_name;
  return seal;
}

store::Attributes completed_attributes(const Service& service, const store::UploadInfo& upload,
                                       const std::vector<store::PartInfo>& parts) {
  if (attribute(upload.attributes, method_attribute).empty() || service.encryption.keys == nullptr) return {};
  std::vector<NumberedPart> listed;
  listed.reserve(parts.size());
  for (const store::PartInfo& part : parts) {
    // A part without a salt is damaged; reading the object will report it.
    const auto salt = read_salt(part.attributes);
    listed.push_back({part.number, {part.size, salt ? *salt : store::Salt{}}});
  }
  return {{std::string(manifest_attribute), seal_manifest(service, listed, upload.bucket, upload.key)}};
}

bool is_sealed(const store::ObjectInfo& info) { return !attribute(info.attributes, method_attribute).empty(); }

Result<void> check_customer_key(const store::ObjectInfo& info, const CustomerKeyPtr& customer) {
  const bool wanted = attribute(info.attributes, method_attribute) == customer_name;
  if (!wanted && customer == nullptr) return {};
  if (!wanted) return fail(Errc::invalid_request, "The encryption parameters are not applicable to this object.");
  if (customer == nullptr) return fail(Errc::encryption_key_required, "encryption");
  return check_customer(info.attributes, *customer);
}

Result<std::shared_ptr<store::ObjectReader>> open_sealed(const Service& service,
                                                         std::shared_ptr<store::ObjectReader> reader,
                                                         std::string_view bucket, std::string_view key,
                                                         const CustomerKeyPtr& customer) {
  const store::ObjectInfo& info = reader->info();
  VB_TRY(check_customer_key(info, customer));
  if (!is_sealed(info) && info.stored_size != 0) return fail(Errc::corrupt_object, "encryption: its record is gone");
  if (!is_sealed(info)) return reader;
  VB_ASSIGN(const Secret object_key, unwrap(service, info.attributes, bucket, key, customer));
  VB_ASSIGN(auto parts, read_parts(service, info, bucket, key));
  return store::make_opening_reader(std::move(reader), service.arena, object_key, std::move(parts),
                                    std::string(bucket).append("/").append(key));
}

Result<void> rename_sealed(const Service& service, store::ObjectInfo& info, std::string_view bucket,
                           std::string_view from, std::string_view to) {
  if (!is_sealed(info)) return {};
  const std::string_view method = attribute(info.attributes, method_attribute);
  if (method == customer_name) return fail(Errc::encryption_key_required, "encryption: rename");
  VB_ASSIGN(const Secret object_key, unwrap(service, info.attributes, bucket, from, nullptr));
  VB_ASSIGN(const auto listed, store::numbered_parts(info));
  VB_TRY(check_manifest(service, info.attributes, listed, bucket, from));
  const std::string context = key_context(method, attribute(info.attributes, kms_attribute), bucket, to);
  store::change_attributes(info.attributes,
                           {{std::string(key_attribute), service.encryption.keys->seal(object_key.bytes(), context)},
                            {std::string(manifest_attribute), seal_manifest(service, listed, bucket, to)}});
  return {};
}

void add_encryption_headers(ReplyHeaders& out, const store::Attributes& attributes,
                            std::optional<std::string_view> key_md5) {
  const std::string_view method = attribute(attributes, method_attribute);
  if (method.empty()) return;
  if (method == customer_name) {
    // The MD5 of a key is only known from the request that has the key.
    out.emplace_back("x-amz-server-side-encryption-customer-algorithm", aes256_name);
    if (key_md5) out.emplace_back("x-amz-server-side-encryption-customer-key-MD5", *key_md5);
    return;
  }
  out.emplace_back("x-amz-server-side-encryption", method);
  if (method != kms_name) return;
  out.emplace_back("x-amz-server-side-encryption-aws-kms-key-id", attribute(attributes, kms_attribute));
  if (!attribute(attributes, bucket_key_attribute).empty()) {
    out.emplace_back("x-amz-server-side-encryption-bucket-key-enabled", "true");
  }
}

store::Attributes encryption_attributes(const store::Attributes& attributes) {
  store::Attributes kept;
  for (const auto& one : attributes) {
    if (one.first.starts_with(method_attribute)) kept.push_back(one);
  }
  return kept;
}

std::string format_default_encryption(const EncryptionWish& wish) {
  return std::string(wish.method == Encryption::kms ? "aws:kms" : "AES256")
      .append("\n")
      .append(wish.kms_key_id)
      .append("\n")
      .append(wish.bucket_key ? "true" : "false");
}

Result<EncryptionWish> parse_default_encryption(std::string_view document) {
  const size_t first = document.find('\n');
  const size_t second = first == std::string_view::npos ? first : document.find('\n', first + 1);
  if (second == std::string_view::npos) return fail(Errc::internal, "encryption: document");
  EncryptionWish wish;
  wish.method = document.starts_with("aws:kms") ? Encryption::kms : Encryption::aes256;
  wish.kms_key_id = document.substr(first + 1, second - first - 1);
  wish.bucket_key = document.substr(second + 1) == "true";
  return wish;
}

}  // namespace verbena::s3
