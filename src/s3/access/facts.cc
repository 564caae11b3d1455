#include "s3/access/facts.h"

#include <algorithm>
#include <array>

#include "base/date.h"
#include "call/request_facts.h"
#include "s3/copy_source.h"

namespace verbena::s3 {
namespace {

constexpr std::string_view existing_tag = "s3:existingobjecttag/", request_tag = "s3:requestobjecttag/";

std::optional<std::string> find_tag(const store::Tags* tags, std::string_view key) {
  if (tags == nullptr) return std::nullopt;
  const auto it = std::ranges::find(*tags, key, &store::Tags::value_type::first);
  return it == tags->end() ? std::nullopt : std::optional(it->second);
}

std::optional<std::string> text_of(std::optional<std::string_view> value) {
  return value ? std::optional<std::string>(*value) : std::nullopt;
}

// The version of the caller's signature.
struct Signature {
  bool version4 = true, in_query = false, in_form = false;
};

Signature signature_of(const Call& caller) {
  using call::FormSignature;
  const FormSignature of_form = caller.facts.form_signature;
  if (of_form != FormSignature::none) return {of_form == FormSignature::version4, false, true};
  const call::Facts& as_sent = call::sent(caller);
  if (as_sent.in_query("X-Amz-Signature")) return {true, true, false};
  if (as_sent.in_query("Signature")) return {false, true, false};
  const auto authorization = as_sent.header("authorization");
  return {!authorization || !authorization->starts_with("AWS "), false, false};
}

// The time that the signature is of: a signer in the headers may leave x-amz-date out and sign Date (SigV4).
std::optional<int64_t> signed_at_s(const Call& caller, const Signature& signature) {
  if (signature.in_query) {
    const auto argument = call::sent(caller).in_query("X-Amz-Date");
    return argument ? parse_amz_date(*argument) : std::nullopt;
  }
  if (const auto header = caller.facts.header("x-amz-date")) return parse_amz_date(*header);
  const auto date = caller.facts.header("date");
  if (!date) return std::nullopt;
  const auto compact = parse_amz_date(*date);
  return compact ? compact : parse_http_date(*date);
}

// Condition keys that are headers with "s3:" before the name; other headers are not condition keys.
constexpr std::array<std::string_view, 14> header_names = {"x-amz-acl",
                                                           "x-amz-content-sha256",
                                                           "x-amz-grant-full-control",
                                                           "x-amz-grant-read",
                                                           "x-amz-grant-read-acp",
                                                           "x-amz-grant-write",
                                                           "x-amz-grant-write-acp",
                                                           "x-amz-metadata-directive",
                                                           "x-amz-object-ownership",
                                                           "x-amz-server-side-encryption",
                                                           "x-amz-server-side-encryption-aws-kms-key-id",
                                                           "x-amz-server-side-encryption-customer-algorithm",
                                                           "x-amz-storage-class",
                                                           "x-amz-website-redirect-location"};

// An entity tag in the form of a header, quoted, for every door.
std::optional<std::string> as_header(const std::optional<std::string>& tag) {
  if (!tag || *tag == "*") return tag;
  return std::string("\"").append(*tag).append("\"");
}

}  // namespace

// From the request as sent: headers that the server computes are not facts.
std::optional<std::string> RequestFacts::header(std::string_view name) const {
  if (caller_.facts.http) return text_of(caller_.facts.header(name));
  if (asked_.headers == nullptr) return std::nullopt;
  const auto it = std::ranges::find(*asked_.headers, name, &Headers::value_type::first);
  return it == asked_.headers->end() ? std::nullopt : std::optional(it->second);
}

int64_t RequestFacts::now_us() const { return call::arrived_us(caller_, service_.clock); }

std::optional<std::string> RequestFacts::connection_fact(std::string_view key) const {
  if (key == "aws:securetransport") {
    // A token's payload is not encrypted, whatever carried the request, unless it is sealed. For native messages the
    // port reports whether they are encrypted.
    const bool by_rdma = caller_.door == Door::token || header("x-amz-rdma-token").has_value();
    return caller_.secure && (!by_rdma || caller_.seals_rdma) ? "true" : "false";
  }
  if (key == "s3:locationconstraint") return call::value_of(asked_.location);
  if (key == "s3:resourceaccount") key = "aws:resourceaccount";
  return call::find_request_fact(
      caller_, {.region = service_.region, .resource_account = owner_id_, .clock = service_.clock}, key);
}

// Source: Amazon S3, "Amazon S3 Signature Version 4 Authentication Specific Policy Keys".
std::optional<std::string> RequestFacts::signature_fact(std::string_view key) const {
  if (!key.starts_with("s3:") || caller_.identity.anonymous) return std::nullopt;
  const Signature signature = signature_of(caller_);
  if (key == "s3:authtype") {
    return signature.in_form ? "POST" : signature.in_query ? "REST-QUERY-STRING" : "REST-HEADER";
  }
  if (key == "s3:signatureversion") return signature.version4 ? "AWS4-HMAC-SHA256" : "AWS";
  if (key != "s3:signatureage" || !caller_.facts.http || !signature.version4) return std::nullopt;
  // A browser's form has its date in a field, and its fields are the headers of its PUT.
  const auto signed_s = signed_at_s(caller_, signature);
  if (!signed_s) return std::nullopt;
  return std::to_string((now_us() / 1'000'000 - *signed_s) * 1000);
}

std::optional<std::string> RequestFacts::listing_fact(std::string_view key) const {
  if (key == "s3:versionid") return call::value_of(asked_.version_id);
  if (asked_.list == nullptr) return std::nullopt;
  if (key == "s3:prefix") return text_of(asked_.list->prefix);
  if (key == "s3:delimiter") return text_of(asked_.list->delimiter);
  if (key == "s3:max-keys") return asked_.list->max_keys;
  return std::nullopt;
}

// The request's conditions, parsed by both doors. At AWS reads do not have these keys.
std::optional<std::string> RequestFacts::write_fact(std::string_view key) const {
  if (key == "s3:objectcreationoperation") {
    return asked_.creates ? std::optional<std::string>(*asked_.creates ? "true" : "false") : std::nullopt;
  }
  if (asked_.conditions == nullptr) return std::nullopt;
  if (key == "s3:if-match") return as_header(asked_.conditions->if_match);
  if (key == "s3:if-none-match") return as_header(asked_.conditions->if_none_match);
  return std::nullopt;
}

std::optional<std::string> RequestFacts::lock_fact(std::string_view key) const {
  if (asked_.lock == nullptr || !key.starts_with("s3:object-lock-")) return std::nullopt;
  if (key == "s3:object-lock-legal-hold") {
    if (asked_.lock->legal_hold) return "ON";
    // "OFF" only if the request has it.
    const bool said = asked_.action.name == action::put_legal_hold.name || header("x-amz-object-lock-legal-hold");
    return said ? std::optional<std::string>("OFF") : std::nullopt;
  }
  if (asked_.lock->mode == store::LockMode::none) return std::nullopt;
  if (key == "s3:object-lock-mode") {
    return asked_.lock->mode == store::LockMode::compliance ? "COMPLIANCE" : "GOVERNANCE";
  }
  if (key == "s3:object-lock-retain-until-date") return format_iso8601(asked_.lock->retain_until_us);
  if (key != "s3:object-lock-remaining-retention-days") return std::nullopt;
  constexpr int64_t day_us = 86'400'000'000;
  const int64_t left_us = std::max<int64_t>(0, asked_.lock->retain_until_us - service_.clock.now_us());
  return std::to_string((left_us + day_us - 1) / day_us);
}

// The verified payload hash: an unsigned header does not count. What comes by RDMA is compared with no hash: the signed
// one is that of the empty body.
std::optional<std::string> RequestFacts::payload_fact() const {
  const call::Facts& as_sent = call::sent(caller_);
  const Signature signature = signature_of(caller_);
  if (!caller_.facts.http || signature.in_form || !signature.version4) return std::nullopt;
  const bool by_rdma = caller_.door == Door::token || header("x-amz-rdma-token") || header("x-amz-rdma-session");
  if (by_rdma && asked_.action.name == action::put_object.name) return "UNSIGNED-PAYLOAD";
  if (!signature.in_query) return text_of(as_sent.header("x-amz-content-sha256"));
  // From the verified signature of a URL.
  if (const auto hash = as_sent.in_query("X-Amz-Content-Sha256")) return std::string(*hash);
  return text_of(as_sent.header("x-amz-content-sha256")).value_or("UNSIGNED-PAYLOAD");
}

std::optional<std::string> RequestFacts::header_fact(std::string_view key) const {
  if (!key.starts_with("s3:")) return std::nullopt;
  key.remove_prefix(3);
  if (key == "x-amz-content-sha256") return payload_fact();
  return std::ranges::find(header_names, key) == header_names.end() ? std::nullopt : header(key);
}

// Normalized: the header may be percent-encoded or not, with or without a slash before the bucket. Policies use either
// form, and a denial of one must not let the other pass.
bool RequestFacts::find_copy_source(auth::FactValues& values) const {
  const auto text = header("x-amz-copy-source");
  if (!text) return false;
  const auto source = parse_copy_source(*text);
  if (!source) return false;  // such a request is refused
  std::string name = source->bucket + "/" + source->key;
  values.push_back("/" + name);
  values.push_back(std::move(name));
  return true;
}

// Keys of directory buckets. Those that S3 has too have the same values (AWS, "Condition keys for Amazon S3 Express").
bool RequestFacts::find_express(std::string_view key, auth::FactValues& values) const {
  if (key == "sessionmode" || key == "locationname") {
    const std::string_view value = key == "sessionmode" ? asked_.session_mode : asked_.location;
    if (value.empty()) return false;
    values.emplace_back(value);
    return true;
  }
  return find("s3:" + std::string(key), values);
}

bool RequestFacts::find(std::string_view key, auth::FactValues& values) const {
  constexpr std::string_view express = "s3express:";
  if (key.starts_with(express)) return find_express(key.substr(express.size()), values);
  if (key == "s3:requestobjecttagkeys") {
    if (asked_.tags == nullptr || asked_.tags->empty()) return false;
    for (const auto& [name, value] : *asked_.tags) values.push_back(name);
    return true;
  }
  if (key == "s3:x-amz-copy-source") return find_copy_source(values);
  std::optional<std::string> value;
  if (key.starts_with(existing_tag)) {
    value = find_tag(asked_.object == nullptr ? nullptr : &asked_.object->tags, key.substr(existing_tag.size()));
  } else if (key.starts_with(request_tag)) {
    value = find_tag(asked_.tags, key.substr(request_tag.size()));
  } else if (!(value = connection_fact(key)) && !(value = signature_fact(key)) && !(value = listing_fact(key)) &&
             !(value = lock_fact(key)) && !(value = write_fact(key))) {
    value = header_fact(key);
  }
  if (!value) return false;
  values.push_back(std::move(*value));
  return true;
}

}  // namespace verbena::s3
