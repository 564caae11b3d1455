// Mutations of XML documents: elements are copied, removed, exchanged, moved, renamed and nested, texts replaced by
// what S3's documents have at such places, and everything stays well-formed. Include it in one fuzzer's file: it
// defines libFuzzer's hooks.
#pragma once

#include <optional>
#include <vector>

#include "support/mutator.h"

namespace verbena::fuzz {

struct Element {
  std::string name, attributes, text;  // the text before its first child
  std::vector<Element> children;
};

// Reads what the mutator itself writes, and usual documents: no entities, comments or CDATA.
class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : rest_(text) {}
  std::optional<Element> read() {
    while (rest_.starts_with("<?") || rest_.starts_with("<!") || rest_.starts_with(" ") || rest_.starts_with("\n")) {
      if (rest_[0] != '<') {
        rest_.remove_prefix(1);
        continue;
      }
      const size_t end = rest_.find('>');
      if (end == std::string_view::npos) return std::nullopt;
      rest_.remove_prefix(end + 1);
    }
    Element root;
    if (!read_element(root, 0)) return std::nullopt;
    return root;
  }

 private:
  bool read_element(Element& into, int depth) {
    if (depth > 40 || ++count_ > 4000 || !rest_.starts_with('<')) return false;
    const size_t end = rest_.find('>');
    if (end == std::string_view::npos || end < 2) return false;
    std::string_view tag = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    const bool empty = tag.ends_with('/');
    if (empty) tag.remove_suffix(1);
    const size_t space = std::min(tag.find_first_of(" \n\t"), tag.size());
    into.name = tag.substr(0, space);
    into.attributes = tag.substr(space);
    while (!empty) {
      const size_t open = rest_.find('<');
      if (open == std::string_view::npos) return false;
      if (into.children.empty()) into.text += rest_.substr(0, open);
      rest_.remove_prefix(open);
      if (rest_.starts_with("</")) {
        const size_t close = rest_.find('>');
        if (close == std::string_view::npos) return false;
        rest_.remove_prefix(close + 1);
        return true;
      }
      into.children.emplace_back();
      if (!read_element(into.children.back(), depth + 1)) return false;
    }
    return true;
  }

  std::string_view rest_;
  int count_ = 0;
};

inline void write_xml(const Element& element, std::string& out) {
  out += "<" + element.name + element.attributes + ">" + element.text;
  for (const Element& child : element.children) write_xml(child, out);
  out += "</" + element.name + ">";
}

// All of a document's elements but the root; each with its parent.
struct Place {
  Element* parent;
  size_t at;
  Element& element() const { return parent->children[at]; }
};
inline void find_places(Element& element, std::vector<Place>& into) {
  for (size_t i = 0; i < element.children.size(); ++i) {
    into.push_back({&element, i});
    find_places(element.children[i], into);
  }
}

class XmlMutator {
 public:
  explicit XmlMutator(unsigned seed) : chance_(seed) {}

  std::optional<std::string> mutate(std::string_view text, size_t size_max) {
    auto root = XmlReader(text).read();
    if (!root) return std::nullopt;
    for (size_t i = 1 + chance_.below(3); i > 0; --i) change(*root, size_max);
    return written(*root);
  }

  // A part of `other` in the place of one of `text`, or beside it.
  std::optional<std::string> cross(std::string_view text, std::string_view other) {
    auto root = XmlReader(text).read(), from = XmlReader(other).read();
    if (!root || !from) return std::nullopt;
    std::vector<Place> places, sources;
    find_places(*root, places);
    find_places(*from, sources);
    if (sources.empty()) return std::nullopt;
    const Element piece = sources[chance_.below(sources.size())].element();
    if (places.empty()) {
      root->children.push_back(piece);
    } else {
      const Place to = places[chance_.below(places.size())];
      chance_.percent(50) ? void(to.element() = piece) : to.parent->children.push_back(piece);
    }
    return written(*root);
  }

 private:
  static std::string written(const Element& root) {
    std::string out;
    write_xml(root, out);
    return out;
  }

  void change(Element& root, size_t size_max) {
    std::vector<Place> places;
    find_places(root, places);
    if (places.empty() || chance_.percent(5)) {
      chance_.percent(50) ? void(root.name = name()) : root.children.push_back({name(), "", value(), {}});
      return;
    }
    const Place at = places[chance_.below(places.size())], other = places[chance_.below(places.size())];
    auto& siblings = at.parent->children;
    switch (chance_.below(10)) {
      case 0: {  // once or often: counts have limits
        const Element copy = at.element();
        for (size_t i = chance_.percent(90) ? 1 : chance_.below(60); i > 0; --i) siblings.push_back(copy);
        break;
      }
      case 1:
        siblings.erase(siblings.begin() + static_cast<std::ptrdiff_t>(at.at));
        break;
      case 2:
        std::swap(siblings[at.at], siblings[chance_.below(siblings.size())]);
        break;
      case 3: {
        const Element copy = at.element();
        other.element().children.push_back(copy);
        break;
      }
      case 4:
        at.element().name = name();
        break;
      case 5: {
        Element outer{at.element().name, "", "", {at.element()}};
        at.element() = std::move(outer);
        break;
      }
      case 6:
        at.element().children.push_back({name(), "", value(), {}});
        break;
      case 7:
        at.element().text = mutated_bytes(at.element().text, std::min<size_t>(size_max, at.element().text.size() + 16));
        std::erase(at.element().text, '<');
        break;
      default:
        at.element().text = value();
    }
  }

  std::string name() {
    static constexpr const char* names[] = {"Rule",
                                            "ID",
                                            "Status",
                                            "Filter",
                                            "Prefix",
                                            "And",
                                            "Tag",
                                            "Key",
                                            "Value",
                                            "TagSet",
                                            "Tagging",
                                            "Expiration",
                                            "Days",
                                            "Date",
                                            "ExpiredObjectDeleteMarker",
                                            "NoncurrentVersionExpiration",
                                            "NoncurrentDays",
                                            "NewerNoncurrentVersions",
                                            "AbortIncompleteMultipartUpload",
                                            "DaysAfterInitiation",
                                            "ObjectSizeGreaterThan",
                                            "ObjectSizeLessThan",
                                            "Transition",
                                            "StorageClass",
                                            "CORSRule",
                                            "AllowedMethod",
                                            "AllowedOrigin",
                                            "AllowedHeader",
                                            "ExposeHeader",
                                            "MaxAgeSeconds",
                                            "Object",
                                            "VersionId",
                                            "Quiet",
                                            "ETag",
                                            "Part",
                                            "PartNumber",
                                            "ChecksumCRC32",
                                            "ChecksumSHA256",
                                            "ChecksumCRC64NVME",
                                            "Size",
                                            "LastModifiedTime",
                                            "LocationConstraint",
                                            "Bucket",
                                            "Location",
                                            "Type",
                                            "DataRedundancy",
                                            "TopicConfiguration",
                                            "QueueConfiguration",
                                            "CloudFunctionConfiguration",
                                            "Topic",
                                            "Queue",
                                            "CloudFunction",
                                            "Event",
                                            "S3Key",
                                            "FilterRule",
                                            "Name",
                                            "EventBridgeConfiguration",
                                            "LoggingEnabled",
                                            "TargetBucket",
                                            "TargetPrefix",
                                            "TargetGrants",
                                            "Grant",
                                            "Grantee",
                                            "Permission",
                                            "TargetObjectKeyFormat",
                                            "SimplePrefix",
                                            "PartitionedPrefix",
                                            "PartitionDateSource",
                                            "Owner",
                                            "DisplayName",
                                            "AccessControlList",
                                            "URI",
                                            "EmailAddress",
                                            "BlockPublicAcls",
                                            "IgnorePublicAcls",
                                            "BlockPublicPolicy",
                                            "RestrictPublicBuckets",
                                            "ObjectOwnership",
                                            "Contents",
                                            "CommonPrefixes",
                                            "IsTruncated",
                                            "NextContinuationToken",
                                            "UploadId",
                                            "Code",
                                            "Message",
                                            "Mode",
                                            "Years",
                                            "DefaultRetention",
                                            "ObjectLockEnabled",
                                            "RetainUntilDate",
                                            "MFADelete",
                                            "SSEAlgorithm",
                                            "KMSMasterKeyID",
                                            "BucketKeyEnabled"};
    return chance_.one(std::span<const char* const>(names));
  }

  std::string value() {
    static constexpr const char* values[] = {"",
                                             "0",
                                             "1",
                                             "-1",
                                             "10000",
                                             "10001",
                                             "2147483647",
                                             "4294967296",
                                             "18446744073709551615",
                                             "true",
                                             "false",
                                             "TRUE",
                                             "Enabled",
                                             "Disabled",
                                             "Suspended",
                                             "a",
                                             "key",
                                             "prefix/",
                                             "*",
                                             "http://*.example.org",
                                             "https://a",
                                             "GET",
                                             "PUT",
                                             "POST",
                                             "2030-01-01T00:00:00.000Z",
                                             "2030-01-01T00:00:00Z",
                                             "2030-01-01",
                                             "s3:ObjectCreated:*",
                                             "s3:ObjectRemoved:Delete",
                                             "arn:aws:sqs:us-east-1:000000000000:queue",
                                             "arn:verbena:sns:us-east-1:1:t:webhook",
                                             "suffix",
                                             "prefix",
                                             "Suffix",
                                             "null",
                                             "\"d41d8cd98f00b204e9800998ecf8427e\"",
                                             "&quot;d41d&quot;",
                                             "&lt;",
                                             "&#x0;",
                                             "&#65;",
                                             "AAAAAA==",
                                             "GOVERNANCE",
                                             "COMPLIANCE",
                                             "AES256",
                                             "aws:kms",
                                             "STANDARD",
                                             "GLACIER",
                                             "BucketOwnerEnforced",
                                             "ObjectWriter",
                                             "FULL_CONTROL",
                                             "READ",
                                             "http://acs.amazonaws.com/groups/global/AllUsers",
                                             "EventTime",
                                             "DeliveryTime",
                                             "us-east-1",
                                             "eu-west-1",
                                             " ",
                                             "\xc3\xa4",
                                             "aws:tag",
                                             "x-amz-meta-*"};
    if (chance_.percent(10)) return std::to_string(odd_number(chance_));
    if (chance_.percent(3)) return std::string(chance_.below(1100), 'a');
    return chance_.one(std::span<const char* const>(values));
  }

  Chance chance_;
};

}  // namespace verbena::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max, unsigned seed) {
  using namespace verbena::fuzz;
  if (Chance(seed ^ 0x9e3779b9).percent(70)) {
    if (const auto made = XmlMutator(seed).mutate({reinterpret_cast<const char*>(data), size}, size_max)) {
      return put_back(*made, data, size_max);
    }
  }
  return LLVMFuzzerMutate(data, size, size_max);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size,
                                            uint8_t* out, size_t out_max, unsigned seed) {
  using namespace verbena::fuzz;
  const auto made =
      XmlMutator(seed).cross({reinterpret_cast<const char*>(a), a_size}, {reinterpret_cast<const char*>(b), b_size});
  return made ? put_back(*made, out, out_max) : 0;
}
